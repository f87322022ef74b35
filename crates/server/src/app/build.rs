//! Putting the program together from its configuration.

use std::{path::Path, sync::Arc};

use ibeam_core::{
    backend::{BackendKind, Capability},
    error::{ErrorCode, TurnError},
    limits::GateRules,
    model::ids,
    models::{ModelInfo, ModelList},
    peer::TurnClocks,
    turn::Settings as TurnSettings,
};
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{App, SIM};
use crate::{
    api,
    auth::{AccessTokens, tokens::login_command},
    catalog::{self, Catalog, FetchModels},
    checks::SchemaChecks,
    config::{self, Config, Sim},
    counter::Counter,
    driver::{self, AgentConfig, AgentDriver, Driver, MakeRoom, TurnDriver},
    keys::Keys,
    large::LargeWork,
    limits::TurnSlots,
    mcp::bridge::Bridge,
    net::connect::Connector,
    recorder::Recorder,
    session::{
        Actor, Admission, Conversations, Hub, LegIndex, ParkedLimits, Patience, Registry, Retries,
    },
    store::{ResponseLimits, Store, StoreError, StoreLimits},
    tasks::Tasks,
};

impl App {
    /// Puts the program together. `sim` is there when the simulator answers.
    ///
    /// # Errors
    /// There is no memory for the store.
    pub fn new(config: Config, sim: Option<&Sim>, tasks: &Tasks) -> Result<Self, StoreError> {
        if config.cursor_agent.workspace.is_some() && !config.uses_cursor_agent() {
            warn!(
                "`cursor_agent.workspace` has no effect: this backend does not run \
                   `cursor-agent`"
            );
        }
        let (driver, tokens) = driver::open(&config, sim, tasks);
        let backend = if sim.is_some() { SIM } else { driver.kind().name() };
        Self::with_driver(config, driver, backend, tokens, tasks)
    }

    /// A simulator of Cursor's API answers at the other end of `connector`, and takes these
    /// tokens.
    ///
    /// # Errors
    /// There is no memory for the store.
    pub fn with_tokens(
        config: Config,
        connector: &Connector,
        tokens: AccessTokens,
        tasks: &Tasks,
    ) -> Result<Self, StoreError> {
        let driver = AgentDriver::new(AgentConfig::of(&config), connector, tasks);
        Self::with_driver(config, Arc::new(driver), SIM, tokens, tasks)
    }

    fn with_driver(
        config: Config,
        driver: Arc<dyn TurnDriver<Actor>>,
        backend: &'static str,
        tokens: AccessTokens,
        tasks: &Tasks,
    ) -> Result<Self, StoreError> {
        let store = store(&config, tasks)?;
        let registry = Registry::new(ParkedLimits {
            count: config.sessions.max_parked,
            bytes: config.sessions.parked_bytes,
        });
        let turns = registry.clone();
        driver.on_crowded(MakeRoom::new(move |scope| turns.evict_oldest(scope)));
        let catalog = catalog(&config, &driver, backend, &tokens, &registry, tasks);
        let ttl = config.sessions.ttl;
        let hub = Hub {
            tokens,
            patience: Patience {
                cancel_grace: config.clocks.cancel_grace,
                client_stall: config.clocks.client_stall,
                parked: driver.longest_hold().map_or(ttl, |longest| longest.min(ttl)),
            },
            registry,
            leg_index: LegIndex::new(config.sessions.replay),
            retries: Retries::new(config.retry.retries),
            slots: TurnSlots::new(GateRules {
                total: config.limits.turns,
                reserve: config.limits.reserve,
                waiting: config.limits.queue,
            }),
            stop: CancellationToken::new(),
            drain: CancellationToken::new(),
            catalog: catalog.clone(),
            counter: Counter::new(tasks.clone()),
            checks: SchemaChecks::new(tasks.clone()),
            large_work: LargeWork::new(tasks.clone()),
            recorder: Recorder::open(
                &config.record,
                driver.kind(),
                config.cursor_agent.own_tools,
                tasks,
            ),
            tasks: tasks.clone(),
        };
        let (hub, config) = (Arc::new(hub), Arc::new(config));
        let admission = Admission {
            config: Arc::clone(&config),
            hub: Arc::clone(&hub),
            store,
            conversations: Arc::new(Conversations::default()),
        };
        Ok(Self {
            http: http_settings(&config, driver.kind()),
            hub,
            driver,
            backend,
            catalog,
            // Only a program that serves starts servers.
            bridge: Bridge::default(),
            admission,
            started: Instant::now(),
            config,
        })
    }
}

/// Where conversations are kept. Without a file, for as long as the program runs.
fn store(config: &Config, tasks: &Tasks) -> Result<Store, StoreError> {
    let limits = StoreLimits {
        retention: config.store.retention,
        bytes: config.store.bytes as u64,
        responses: ResponseLimits {
            retention: config.responses.retention,
            count: config.responses.max as u64,
            bytes: config.responses.bytes as u64,
        },
    };
    Store::open(store_file(config), limits, tasks)
}

/// The file that the store should have. What nothing is continued from need not be on disk.
pub(super) fn store_file(config: &Config) -> Option<&Path> {
    config.store.file().filter(|_| config.sessions.reuse)
}

fn http_settings(config: &Config, backend: BackendKind) -> api::ApiSettings {
    api::ApiSettings {
        bind: config.exposed().unwrap_or(&config.server.listen).ip(),
        allowed_hosts: config.access.hosts.clone(),
        cors_origins: config.access.cors_origins.clone(),
        keys: Arc::new(Keys::new(config)),
        body_limit: config.limits.body,
        // One that is allowed fits.
        bodies: api::Bodies::new(config.limits.bodies.max(config.limits.body)),
        body_pause: config.clocks.body,
        keep_alive: config.clocks.keep_alive,
        strict: config.server.strict,
        header_grace: config.clocks.header_grace,
        websocket: config.server.websocket,
        websocket_idle: config.clocks.websocket_idle,
        client_stall: config.clocks.client_stall,
        keep_responses: !config.responses.retention.is_zero(),
        served: served(config, backend),
        workspaces: match backend.has(Capability::Workspaces) {
            true => api::WorkspaceRule::Folders(config.cursor_agent.workspaces.as_slice().into()),
            false => api::WorkspaceRule::Named,
        },
    }
}

/// What the backend does by itself of what a client may ask for. Cursor offers its web tools to the
/// model when they are allowed, whether or not a client asks.
fn served(config: &Config, backend: BackendKind) -> Vec<&'static str> {
    let allow = &config.allow;
    let web = backend.has(Capability::WebTools);
    let names = [
        ("tools.web_search", web && allow.web_search),
        ("tools.web_fetch", web && allow.web_fetch),
        ("mode", backend.has(Capability::Modes)),
        ("max", backend.has(Capability::MaxMode)),
    ];
    names.into_iter().filter(|(_, served)| *served).map(|(name, _)| name).collect()
}

pub(super) fn turn_settings(config: &Config) -> TurnSettings {
    let clocks = &config.clocks;
    TurnSettings {
        clocks: TurnClocks {
            heartbeat: clocks.heartbeat,
            no_frame: clocks.no_frame,
            heartbeat_only: clocks.heartbeats_only,
            whole_turn: clocks.turn,
            end_wait: clocks.end_wait,
            quiet_end: clocks.quiet_end,
            tool_batch: clocks.tool_batch,
        },
        backoff: config.retry,
        park: config.sessions.reuse,
        parked_bytes: config.sessions.buffer,
        max_repeat: config.tools.max_repeat,
        sign_in: login_command(&config.account.profile).into(),
    }
}

/// The live model list. The simulator's is not kept: it must never answer for a
/// real account. Nor is that of a program with its own sign-in, which does not say whose it is
/// before it is asked.
fn catalog(
    config: &Config,
    driver: &Arc<dyn TurnDriver<Actor>>,
    backend: &str,
    tokens: &AccessTokens,
    registry: &Registry,
    tasks: &Tasks,
) -> Catalog {
    let kept = backend != SIM && !tokens.are_delegated();
    let file = if kept { models_file(config, driver.kind(), tokens) } else { None };
    let (driver, tokens, registry) = (Arc::clone(driver), tokens.clone(), registry.clone());
    let fetch: FetchModels = Arc::new(move || {
        let (driver, tokens, registry) = (Arc::clone(&driver), tokens.clone(), registry.clone());
        Box::pin(async move {
            if tokens.are_delegated() {
                return unsigned(&*driver, &tokens).await.map(ModelList::new);
            }
            let token = tokens.current().await?;
            let mut models = driver.models(token.clone()).await;
            if matches!(&models, Err(error) if error.code == ErrorCode::NotAuthenticated) {
                models = match tokens.renew(&token).await {
                    Ok(fresh) => driver.models(fresh).await,
                    Err(error) => Err(error),
                };
            }
            registry.note_backend(models.as_ref().map(|_| ()));
            models.map(ModelList::new)
        })
    });
    let options = catalog::CatalogOptions {
        ttl: config.models.cache_ttl,
        file,
        unknown: config.models.unknown,
    };
    Catalog::new(fetch, options, tasks.clone())
}

/// The list of a program that has its own sign-in. Whether it needs one for that is its own
/// affair; if it gives no list, that may be why.
async fn unsigned(driver: &dyn Driver, tokens: &AccessTokens) -> Result<Vec<ModelInfo>, TurnError> {
    match driver.models(SecretString::default()).await {
        Ok(models) => Ok(models),
        Err(error) => Err(tokens.current().await.err().unwrap_or(error)),
    }
}

/// Where this account's last good list is kept. Another account on the same
/// machine has another list, and so has another backend: the name carries a hash of both.
fn models_file(
    config: &Config,
    kind: BackendKind,
    tokens: &AccessTokens,
) -> Option<std::path::PathBuf> {
    let account = Some(tokens.account()).filter(|account| !account.is_empty())?;
    let host = config.upstream.api.authority.as_str();
    let parts = [b"models".as_slice(), kind.name().as_bytes(), host.as_bytes(), account.as_bytes()];
    Some(config::cache_dir()?.join(format!("models-{}.json", ids::uuid_from_content(parts))))
}
