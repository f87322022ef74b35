//! The settings of the driver `agent`, and how it is opened.

use std::sync::Arc;

use ibeam_core::{
    model::ids::hex,
    peer::agent::{BlobLimits, Permissions, ServiceFacts, probe::date_of},
};
use secrecy::SecretString;

use super::{
    AgentDriver, ClientProfile, Transport,
    agent_plan::{AgentPlanSettings, environment},
};
use crate::{
    auth::{AccessTokens, http::AuthHttp, local_user},
    config::{Config, DEFAULT_CLIENT_VERSION, Sim},
    findings,
    net::{
        connect::{Connector, Host},
        pool::PoolConfig,
        proxy::Proxy,
        tls::Tls,
    },
    random,
    tasks::Tasks,
};

#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Serves plain requests and the HTTP/1.1 streams: the agent hosts proper speak
    /// HTTP/2 only.
    pub api_host: Host,
    /// The service names the hosts for runs.
    pub follows_service: bool,
    pub profile: ClientProfile,
    pub transport: Transport,
    pub pool: PoolConfig,
    pub plans: AgentPlanSettings,
}

impl AgentConfig {
    /// Everything on one host, with defaults.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            api_host: host,
            follows_service: false,
            profile: ClientProfile::default(),
            transport: Transport::Auto,
            pool: PoolConfig::default(),
            plans: AgentPlanSettings::default(),
        }
    }

    /// With what probes have found out.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let facts = findings::facts(config.upstream.findings.as_deref());
        let client_version = accepted_version(&config.upstream.client_version, &facts);
        Self {
            profile: ClientProfile {
                client_version,
                ghost_mode: config.upstream.privacy,
                timezone: None,
                blob_key: facts.needs_blob_key.then(blob_key),
            },
            transport: config.upstream.transport,
            follows_service: config.upstream.follows_service(),
            pool: PoolConfig {
                max_streams: config.limits.upstream_streams,
                max_connections: config.limits.upstream_connections,
                connect_timeout: config.clocks.connect,
                heartbeat: config.clocks.heartbeat,
                ..PoolConfig::default()
            },
            plans: AgentPlanSettings {
                blobs: BlobLimits {
                    count: config.limits.blobs,
                    blob_bytes: config.limits.blob_size,
                    total_bytes: config.limits.blob_bytes,
                },
                inline_context: config.upstream.inline_context,
                history: config.upstream.history,
                environment: environment(),
                permissions: Permissions {
                    web_search: config.allow.web_search,
                    web_fetch: config.allow.web_fetch,
                },
                native: config.tools.native,
                facts: Arc::new(facts),
            },
            ..Self::new(config.upstream.api.clone())
        }
    }
}

/// The version that is sent: a newer one in the place of one that the service refuses.
fn accepted_version(wanted: &str, facts: &ServiceFacts) -> String {
    let refused = facts.refused_version.as_ref().filter(|refused| date_of(wanted) <= **refused);
    match refused {
        Some(_) if wanted != DEFAULT_CLIENT_VERSION => {
            tracing::warn!(
                "`client_version` {wanted} is refused by the service; {DEFAULT_CLIENT_VERSION} is \
                 sent in its place"
            );
            DEFAULT_CLIENT_VERSION.to_owned()
        }
        _ => wanted.to_owned(),
    }
}

/// A key for the encryption of blobs, as long as the process lives.
pub(super) fn blob_key() -> String {
    hex(&[random::bytes::<16>(), random::bytes::<16>()].concat())
}

/// The driver, and the account of the user. The simulator takes a token of its own.
pub(super) fn open(
    config: &Config,
    sim: Option<&Sim>,
    tasks: &Tasks,
) -> (AgentDriver, AccessTokens) {
    let (connector, tokens) = reach(config, sim, tasks);
    (AgentDriver::new(AgentConfig::of(config), &connector, tasks), tokens)
}

/// The way to the service, and the account of the user.
pub(super) fn reach(
    config: &Config,
    sim: Option<&Sim>,
    tasks: &Tasks,
) -> (Connector, AccessTokens) {
    match sim {
        Some(sim) => {
            let token = SecretString::from(Sim::TOKEN);
            (in_memory(sim), AccessTokens::fixed(token, "sim", tasks))
        }
        None => {
            let connector = connector(config);
            let http = AuthHttp::new(&connector, &config.upstream.api, tasks);
            (connector, local_user::tokens(config, http, tasks))
        }
    }
}

/// The way to Cursor.
#[must_use]
pub fn connector(config: &Config) -> Connector {
    Connector::Tcp {
        tls: Arc::new(Tls::new(config.upstream.ca_file.clone())),
        proxy: Proxy::from_env(),
        connect_timeout: config.clocks.connect,
        reach: config.upstream.reach(),
    }
}

/// The way to a simulator in this process.
#[must_use]
pub fn in_memory(sim: &Sim) -> Connector {
    let sim = sim.clone();
    Connector::Memory(Arc::new(move || sim.connect()))
}
