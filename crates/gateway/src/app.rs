//! The running program: what every request needs, put together once.

use std::sync::Arc;

use ibeam_core::{
    agent::{
        BlobLimits, Clocks, Environment, ModelPick, Permissions, Plan, Settings as TurnSettings,
        Turn,
    },
    error::{ErrorCode, TurnError},
    model::{
        Item, Millis, Part, TurnEvent, TurnRequest,
        ids::{self, SessionId},
    },
    models::{Family, ModelList, Resolved},
};
use ibeam_sim::Sim;
use secrecy::SecretString;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info_span};

use crate::{
    api::{self, EventSource, Health, Mcp, Models, RequestMeta, Service, Sessions},
    catalog::{self, Catalog, Fetch},
    clock,
    config::{self, Config},
    driver::{AgentConfig, AgentDriver, Driver, Profile, Transport},
    net::{connect::Connector, pool::PoolConfig, proxy::Proxy, tls::Tls},
    random,
    session::{Actor, Conversations, Patience, Registry, Snapshot, TurnStream},
    tasks::Tasks,
};

/// The backend's name when the simulator answers.
const SIM: &str = "sim";

const NOT_SIGNED_IN: &str = "Nobody is signed in. Give ibeam a Cursor access token in \
                             CURSOR_ACCESS_TOKEN, or try it without an account: `ibeam up --sim`.";

/// `created` of every listed model: the backend does not say, and a value that
/// changes with the time of day would defeat clients' caches.
const MODELS_CREATED: u64 = 1_735_689_600;

#[derive(Debug)]
pub struct App {
    config: Arc<Config>,
    http: api::Settings,
    driver: Arc<dyn Driver>,
    backend: &'static str,
    token: Option<SecretString>,
    catalog: Catalog,
    environment: Environment,
    conversations: Arc<Conversations>,
    registry: Registry,
    turns: Arc<Semaphore>,
    /// Places in the queue for a turn.
    queue: Arc<Semaphore>,
    tasks: Tasks,
    stop: CancellationToken,
    started: Instant,
}

impl App {
    /// Puts the program together. `sim` is there when the simulator answers.
    #[must_use]
    pub fn new(config: Config, sim: Option<&Sim>, tasks: &Tasks) -> Self {
        let (connector, backend, token) = match sim {
            Some(sim) => {
                let sim = sim.clone();
                let connector = Connector::Memory(Arc::new(move || sim.connect()));
                (connector, SIM, Some(SecretString::from(Sim::TOKEN)))
            }
            None => {
                let connector = Connector::Tcp {
                    tls: Arc::new(Tls::new(config.ca_file.clone())),
                    proxy: Proxy::from_env(),
                    connect_timeout: config.clocks.connect,
                };
                (connector, "agent", config.access_token.clone())
            }
        };
        let driver = Arc::new(AgentDriver::new(agent_config(&config), &connector, tasks));
        Self::with_driver(config, driver, backend, token, tasks)
    }

    fn with_driver(
        config: Config,
        driver: Arc<dyn Driver>,
        backend: &'static str,
        token: Option<SecretString>,
        tasks: &Tasks,
    ) -> Self {
        let registry = Registry::default();
        let catalog = catalog(&config, &driver, backend, token.as_ref(), &registry, tasks);
        Self {
            http: http_settings(&config),
            driver,
            backend,
            token,
            catalog,
            environment: environment(),
            conversations: Arc::new(Conversations::default()),
            registry,
            turns: Arc::new(Semaphore::new(config.limits.turns)),
            queue: Arc::new(Semaphore::new(config.limits.queue)),
            tasks: tasks.clone(),
            stop: CancellationToken::new(),
            started: Instant::now(),
            config: Arc::new(config),
        }
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn signed_in(&self) -> bool {
        self.token.is_some()
    }

    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    #[must_use]
    pub fn sessions(&self) -> Snapshot {
        self.registry.snapshot()
    }

    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Turns that could start now without waiting.
    #[must_use]
    pub fn free_turns(&self) -> usize {
        self.turns.available_permits()
    }

    /// Ends every turn with an error; the program is going down.
    pub fn stop_turns(&self) {
        self.stop.cancel();
    }

    /// The models of the account.
    ///
    /// # Errors
    /// There is no list, neither from the backend nor from an earlier time.
    pub async fn model_list(&self) -> Result<Models, TurnError> {
        let list = self.catalog.get().await?;
        Ok(Models { list, created: MODELS_CREATED })
    }

    /// Starts the turn of a request.
    ///
    /// # Errors
    /// The request cannot be served at all: the model is unknown, nobody is signed
    /// in, or there are too many turns already.
    pub async fn start(&self, request: TurnRequest) -> Result<TurnStream, TurnError> {
        let asked = Instant::now();
        let resolved = self.resolve(&request).await?;
        let token = self
            .token
            .clone()
            .ok_or_else(|| TurnError::new(ErrorCode::NotAuthenticated, NOT_SIGNED_IN))?;
        see_images(&request, &resolved)?;
        let permit = self.permit().await?;

        let family = resolved
            .info
            .as_ref()
            .map_or_else(|| Family::of(&resolved.wire_id), ibeam_core::models::ModelInfo::family);
        let (conversation, memory) = self.conversations.name(&request, random::bytes());
        debug!(%conversation, model = %resolved.wire_id, "starting a turn");
        let plan = Plan {
            model: ModelPick {
                id: resolved.wire_id,
                parameters: resolved.parameters,
                max_mode: resolved.max_mode,
            },
            conversation_id: conversation,
            session: SessionId::from_random(random::bytes()),
            environment: self.environment.clone(),
            permissions: Permissions {
                web_search: self.config.allow.web_search,
                web_fetch: self.config.allow.web_fetch,
            },
            limits: BlobLimits {
                count: self.config.limits.blobs,
                blob_bytes: self.config.limits.blob_size,
                total_bytes: self.config.limits.blob_bytes,
            },
            kept: None,
        };
        let started = Instant::now();
        let actor = Actor {
            turn: Turn::new(request, plan, turn_settings(&self.config), random::bytes(), Millis(0)),
            driver: Arc::clone(&self.driver),
            token,
            patience: Patience {
                cancel_grace: self.config.clocks.cancel_grace,
                client_stall: self.config.clocks.client_stall,
            },
            family,
            asked,
            started,
            memory,
            stop: self.stop.clone(),
            permit,
            tasks: self.tasks.clone(),
        };
        let (events, stream) = TurnStream::channel();
        let turn = actor.run(events, self.registry.clone()).in_current_span();
        self.tasks.spawn("turn", turn);
        Ok(stream)
    }

    /// Unknown models are refused before anything else, as long as there is a list
    /// to know them by.
    async fn resolve(&self, request: &TurnRequest) -> Result<Resolved, TurnError> {
        let effort = request.sampling.effort;
        match self.catalog.resolve(&request.model, effort).await {
            Err(error) if error.code != ErrorCode::ModelNotFound => {
                if self.token.is_none() {
                    return Err(TurnError::new(ErrorCode::NotAuthenticated, NOT_SIGNED_IN));
                }
                // `auto` needs no list: the backend picks.
                ModelList::default()
                    .resolve_with(&request.model, effort, self.config.models.unknown)
                    .map_err(|_| error)
            }
            resolved => resolved,
        }
    }

    /// A place among the running turns, waiting for one if need be.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, TurnError> {
        if let Ok(permit) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = || {
            let text = format!(
                "All {} turns are in use. Try again shortly, or raise `limits.turns`.",
                self.config.limits.turns
            );
            TurnError::new(ErrorCode::Overloaded, text)
        };
        let _place = self.queue.try_acquire().map_err(|_| busy())?;
        let waiting = Arc::clone(&self.turns).acquire_owned();
        match timeout(self.config.clocks.queue, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

impl Service for App {
    type Turn = TurnStream;

    fn settings(&self) -> &api::Settings {
        &self.http
    }

    async fn start_turn(
        &self,
        request: TurnRequest,
        meta: RequestMeta,
    ) -> Result<TurnStream, TurnError> {
        let span = info_span!("turn", request_id = %meta.request_id);
        self.start(request).instrument(span).await
    }

    async fn models(&self) -> Result<Models, TurnError> {
        self.model_list().await
    }

    fn health(&self) -> Health {
        let sessions = self.registry.snapshot();
        Health {
            authenticated: self.token.is_some() && !self.registry.credential_refused(),
            backend: self.backend.to_owned(),
            sessions: Sessions { active: sessions.active as u64, parked: 0 },
            mcp: Mcp::default(),
            uptime_seconds: self.started.elapsed().as_secs(),
        }
    }

    fn unix_now(&self) -> u64 {
        clock::unix_seconds()
    }

    fn random(&self) -> [u8; 16] {
        random::bytes()
    }
}

impl EventSource for TurnStream {
    fn poll_next(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<TurnEvent>> {
        Self::poll_next(self, cx)
    }
}

/// A model that cannot see must not be asked to look.
fn see_images(request: &TurnRequest, resolved: &Resolved) -> Result<(), TurnError> {
    let Some(Item::Message(last)) = request.items.last() else { return Ok(()) };
    let shows = last.parts.iter().any(|part| matches!(part, Part::Image(_)));
    match &resolved.info {
        Some(info) if shows && !info.images => {
            let text = format!(
                "The model `{}` takes no images. `ibeam models` shows which ones do.",
                request.model
            );
            Err(TurnError::new(ErrorCode::InvalidValue, text).param("messages"))
        }
        _ => Ok(()),
    }
}

fn agent_config(config: &Config) -> AgentConfig {
    let mut agent = AgentConfig::new(config.api.clone());
    agent.profile = Profile {
        client_version: config.client_version.clone(),
        ghost_mode: config.privacy,
        timezone: None,
    };
    agent.transport = match config.transport {
        config::Transport::Auto => Transport::Auto,
        config::Transport::H2 => Transport::Http2,
        config::Transport::H1 => Transport::Http1,
    };
    agent.pool = PoolConfig {
        max_streams: config.limits.upstream_streams,
        max_connections: config.limits.upstream_connections,
        connect_timeout: config.clocks.connect,
        ..PoolConfig::default()
    };
    agent
}

fn http_settings(config: &Config) -> api::Settings {
    api::Settings {
        bind: Some(config.listen.ip()),
        allowed_hosts: config.hosts.clone(),
        cors_origins: config.cors_origins.clone(),
        api_key: config.api_key.clone(),
        body_limit: config.limits.body,
        keep_alive: config.clocks.keep_alive,
        header_grace: config.clocks.header_grace,
    }
}

fn turn_settings(config: &Config) -> TurnSettings {
    let clocks = &config.clocks;
    TurnSettings {
        clocks: Clocks {
            heartbeat: clocks.heartbeat,
            no_frame: clocks.no_frame,
            heartbeat_only: clocks.heartbeats_only,
            whole_turn: clocks.turn,
            end_wait: clocks.end_wait,
            quiet_end: clocks.quiet_end,
            tool_batch: clocks.tool_batch,
        },
        backoff: config.retry,
        inline_context: config.inline_context,
        ..TurnSettings::default()
    }
}

/// What little the gateway knows about the place the client works in.
fn environment() -> Environment {
    Environment {
        os_version: os_version(),
        shell: std::env::var("SHELL").unwrap_or_default(),
        time_zone: std::env::var("TZ").unwrap_or_default(),
        workspace_paths: Vec::new(),
    }
}

/// As the backend's own client says it: `linux 6.8.0`.
fn os_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let words = [std::env::consts::OS, release.trim()];
    words.join(" ").trim_end().to_owned()
}

/// The live model list. The simulator's is not kept: it must never answer for a
/// real account.
fn catalog(
    config: &Config,
    driver: &Arc<dyn Driver>,
    backend: &str,
    token: Option<&SecretString>,
    registry: &Registry,
    tasks: &Tasks,
) -> Catalog {
    let (driver, token, registry) = (Arc::clone(driver), token.cloned(), registry.clone());
    let fetch: Fetch = Arc::new(move || {
        let (driver, token, registry) = (Arc::clone(&driver), token.clone(), registry.clone());
        Box::pin(async move {
            let token =
                token.ok_or_else(|| TurnError::new(ErrorCode::NotAuthenticated, NOT_SIGNED_IN))?;
            let models = driver.models(token).await;
            registry.note_credential(models.as_ref().map(|_| ()).map_err(|error| error.code));
            models.map(ModelList::new)
        })
    });
    let options = catalog::Options {
        ttl: config.models.cache_ttl,
        file: if backend == SIM { None } else { models_file(config) },
        unknown: config.models.unknown,
    };
    Catalog::new(fetch, options, tasks.clone())
}

/// Where this account's last good list is kept. Another account on the same
/// machine has another list, so the name carries a hash of the credential.
fn models_file(config: &Config) -> Option<std::path::PathBuf> {
    use secrecy::ExposeSecret as _;
    let token = config.access_token.as_ref()?;
    let host = config.api.authority.as_str();
    let parts = [b"models".as_slice(), host.as_bytes(), token.expose_secret().as_bytes()];
    Some(config::cache_dir()?.join(format!("models-{}.json", ids::uuid_from_content(parts))))
}
