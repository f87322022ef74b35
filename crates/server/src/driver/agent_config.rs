//! The settings of the driver `agent`, and how it is opened.

use std::sync::Arc;

use ibeam_core::peer::agent::{BlobLimits, Permissions};
use secrecy::SecretString;

use super::{
    AgentDriver, ClientProfile, Transport,
    agent_plan::{AgentPlanSettings, environment},
};
use crate::{
    auth::{AccessTokens, http::AuthHttp, local_user},
    config::{Config, Sim},
    net::{
        connect::{Connector, Host},
        pool::PoolConfig,
        proxy::Proxy,
        tls::Tls,
    },
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

    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            profile: ClientProfile {
                client_version: config.upstream.client_version.clone(),
                ghost_mode: config.upstream.privacy,
                timezone: None,
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
            },
            ..Self::new(config.upstream.api.clone())
        }
    }
}

/// The driver, and the account of the user. The simulator takes a token of its own.
pub(super) fn open(
    config: &Config,
    sim: Option<&Sim>,
    tasks: &Tasks,
) -> (AgentDriver, AccessTokens) {
    let (connector, tokens) = match sim {
        Some(sim) => {
            let token = SecretString::from(Sim::TOKEN);
            (in_memory(sim), AccessTokens::fixed(token, "sim", tasks))
        }
        None => {
            let connector = connector(config);
            let http = AuthHttp::new(&connector, &config.upstream.api, tasks);
            (connector, local_user::tokens(config, http, tasks))
        }
    };
    (AgentDriver::new(AgentConfig::of(config), &connector, tasks), tokens)
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
