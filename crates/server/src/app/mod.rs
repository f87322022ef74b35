//! The running program: what every request needs, put together once.

mod build;
mod count;
mod start;

use std::sync::Arc;

use ibeam_core::{
    error::TurnError,
    model::{TurnEvent, TurnRequest},
    tokens::Count,
};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};

use crate::{
    api::{
        self, CountedBody, DatedModelList, EventSource, GatewayService, Health, McpHealth,
        SessionHealth, StoreHealth, ToolList,
    },
    auth::AccessTokens,
    catalog::Catalog,
    clock,
    config::Config,
    driver::{Driver, TurnDriver},
    keys::Caller,
    large::LargeWork,
    mcp::bridge::Bridge,
    random,
    session::{Actor, Admission, Hub, MatchedConversation, RequestContext, Snapshot, TurnStream},
    store::{Scope, Store},
    tasks::Tasks,
};

/// The backend's name when the simulator answers.
const SIM: &str = "sim";

/// `created` of every listed model: the backend does not say, and a value that
/// changes with the time of day would defeat clients' caches.
const MODELS_CREATED: u64 = 1_735_689_600;

#[derive(Debug)]
pub struct App {
    config: Arc<Config>,
    http: api::ApiSettings,
    hub: Arc<Hub>,
    driver: Arc<dyn TurnDriver<Actor>>,
    backend: &'static str,
    catalog: Catalog,
    bridge: Bridge,
    admission: Admission,
    started: Instant,
}

impl App {
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn signed_in(&self) -> bool {
        self.hub.tokens.signed_in()
    }

    #[must_use]
    pub fn tokens(&self) -> &AccessTokens {
        &self.hub.tokens
    }

    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    #[must_use]
    pub fn sessions(&self) -> Snapshot {
        self.hub.registry.snapshot()
    }

    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The MCP servers of the user.
    #[must_use]
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// The same program with other MCP servers.
    #[must_use]
    pub fn with_bridge(self, bridge: Bridge) -> Self {
        Self { bridge, ..self }
    }

    fn mcp(&self) -> McpHealth {
        McpHealth {
            enabled: self.bridge.is_enabled(),
            servers: self.bridge.connected() as u64,
            tools: self.bridge.tools().len() as u64,
        }
    }

    /// Turns that could start now without waiting.
    #[must_use]
    pub fn free_turns(&self) -> usize {
        self.hub.slots.free()
    }

    /// The program is shutting down: running turns may finish, no turn is parked any more. The
    /// conversations of parked turns are in the store.
    pub fn drain_turns(&self) {
        self.hub.drain.cancel();
    }

    /// Ends every turn with an error.
    pub fn stop_turns(&self) {
        self.hub.stop.cancel();
    }

    /// The models of the account.
    ///
    /// # Errors
    /// There is no list, neither from the backend nor from an earlier run.
    pub async fn model_list(&self) -> Result<DatedModelList, TurnError> {
        let list = self.catalog.get().await?;
        Ok(DatedModelList { list, created: MODELS_CREATED })
    }
}

impl GatewayService for App {
    type Turn = TurnStream;

    fn settings(&self) -> &api::ApiSettings {
        &self.http
    }

    async fn start_turn(
        &self,
        request: TurnRequest,
        context: RequestContext,
    ) -> Result<TurnStream, TurnError> {
        let span = info_span!("turn", request_id = %context.request_id);
        self.start(request, context).instrument(span).await
    }

    async fn models(&self) -> Result<DatedModelList, TurnError> {
        self.model_list().await
    }

    async fn count_tokens(
        &self,
        request: TurnRequest,
        body: CountedBody,
        caller: &Caller,
    ) -> Result<Count, TurnError> {
        self.count(request, body, &caller.id).await
    }

    fn health(&self) -> Health {
        let now = self.hub.registry.snapshot();
        let limits = &self.config.sessions;
        let store = self.admission.store.stats();
        Health {
            authenticated: self.signed_in() && !self.hub.registry.credential_refused(),
            backend: self.backend.to_owned(),
            sessions: SessionHealth {
                active: now.active as u64,
                parked: now.parked as u64,
                parked_bytes: now.parked_bytes as u64,
                max_parked: limits.max_parked as u64,
                max_parked_bytes: limits.parked_bytes as u64,
                ttl_seconds: limits.ttl.as_secs(),
                fates: now.fates,
            },
            store: StoreHealth {
                conversations: store.conversations,
                bytes: store.bytes,
                in_memory: store.in_memory,
                failed_saves: store.failed_saves,
            },
            mcp: self.mcp(),
            drift: now.drift,
            history: self.driver.history_forms(),
            uptime_seconds: self.started.elapsed().as_secs(),
            shutting_down: self.hub.drain.is_cancelled() || self.hub.stop.is_cancelled(),
            backend_unreachable: self.hub.registry.backend_unreachable(),
            store_failing: store.failing,
            store_unusable: store.in_memory && build::store_file(&self.config).is_some(),
        }
    }

    fn tools(&self) -> ToolList {
        let data = self.bridge.tools();
        ToolList { servers: self.bridge.connected(), data }
    }

    fn store(&self) -> &Store {
        &self.admission.store
    }

    async fn scope(&self, caller: &Caller) -> Result<Scope, TurnError> {
        // The scope depends on the account.
        self.hub.tokens.current().await?;
        Ok(self.scope_of(&caller.id))
    }

    fn tasks(&self) -> &Tasks {
        &self.hub.tasks
    }

    fn large_work(&self) -> &LargeWork {
        &self.hub.large_work
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

    fn matched(&self) -> Option<&MatchedConversation> {
        Self::matched(self)
    }
}
