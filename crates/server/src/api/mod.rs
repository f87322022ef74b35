//! The HTTP API: thin handlers between the clients' APIs and the [`GatewayService`] that runs
//! turns.
//!
//! *Invariant:* nothing in here knows which backend answers.

mod answer_stream;
mod anthropic_models;
mod bodies;
mod body_buffer;
mod body_reader;
mod chat;
mod completions;
mod connection;
mod count;
mod decode;
mod error;
mod guard;
mod health;
mod log;
mod messages;
mod models;
mod not_found;
mod openapi;
mod responses;
mod sse_body;
mod tools;
mod turn;
mod workspace;
mod ws;

use std::{
    future::Future,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    middleware,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, any, get, post},
};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{TurnEvent, TurnRequest},
    models::ModelList,
    tokens::Count,
};
use serde::Serialize;

pub use bodies::{Bodies, BodyHealth};
pub(crate) use body_reader::amount;
pub(crate) use connection::{ClientConnection, ConnectionHandle, KeylessPermit};
pub use guard::OPEN_PATHS;
pub use health::{Health, McpHealth, SessionHealth, StoreHealth};
pub use sse_body::FRAME_CAP;
pub use tools::ToolList;
pub use workspace::WorkspaceRule;

pub use crate::{counter::CountedBody, large::LargeWork};

use self::{
    error::{ApiDialect, RouteDialect},
    guard::RouteGuard,
};
use crate::{
    keys::{Caller, Keys},
    session::{MatchedConversation, RequestContext},
    store::{Scope, Store},
    tasks::Tasks,
};

/// What the handlers need from the program.
pub trait GatewayService: Send + Sync + 'static {
    /// A running turn. Dropping it means that the client has left.
    type Turn: EventSource;

    fn settings(&self) -> &ApiSettings;

    /// Starts (or resumes, or attaches to) the turn of a request. May take as long
    /// as the queue's clock allows: until then a client gets not even headers.
    fn start_turn(
        &self,
        request: TurnRequest,
        context: RequestContext,
    ) -> impl Future<Output = Result<Self::Turn, TurnError>> + Send;

    fn models(&self) -> impl Future<Output = Result<DatedModelList, TurnError>> + Send;

    /// How many tokens the model would read. `body` is the request as it came.
    fn count_tokens(
        &self,
        request: TurnRequest,
        body: CountedBody,
        caller: &Caller,
    ) -> impl Future<Output = Result<Count, TurnError>> + Send;

    fn health(&self) -> Health;

    /// The tools of the user's MCP servers.
    fn tools(&self) -> ToolList {
        ToolList::default()
    }

    /// Where responses are kept.
    fn store(&self) -> &Store;

    /// The owner of everything that is stored for this caller.
    fn scope(&self, caller: &Caller) -> impl Future<Output = Result<Scope, TurnError>> + Send;

    /// Starts tasks that outlive a request.
    fn tasks(&self) -> &Tasks;

    /// Runs work that takes long.
    fn large_work(&self) -> &LargeWork;

    /// Seconds since the Unix epoch.
    fn unix_now(&self) -> u64;

    /// Unguessable bytes, for ids.
    fn random(&self) -> [u8; 16];
}

/// The events of one turn: an optional `Started`, whatever comes, one terminal
/// event, then `None`.
pub trait EventSource: Send + Unpin + 'static {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>>;

    /// How the request was matched with what is known.
    fn matched(&self) -> Option<&MatchedConversation> {
        None
    }
}

/// The models of the account, and when the list was made.
#[derive(Clone, Debug)]
pub struct DatedModelList {
    pub list: Arc<ModelList>,
    /// Unix seconds.
    pub created: u64,
}

/// The part of the configuration that concerns HTTP.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Where the listener is bound. On an address that is not loopback, a `Host`
    /// that is an IP address is accepted too.
    pub bind: Option<IpAddr>,
    /// Names beside the loopback ones that a `Host` header may have.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call; `*` means all. Empty: no CORS.
    pub cors_origins: Vec<String>,
    /// The keys of the clients that may call.
    pub keys: Arc<Keys>,
    /// Largest request body in bytes.
    pub body_limit: usize,
    /// All of them that are being read.
    pub bodies: Arc<Bodies>,
    /// How long a request body may pause.
    pub body_pause: Duration,
    /// Silence after which a stream gets a comment.
    pub keep_alive: Duration,
    /// How long the response headers of a stream wait for the first event of a turn
    /// that has started, so that an early failure can still have its own status.
    pub header_grace: Duration,
    /// Off: a request to upgrade is refused.
    pub websocket: bool,
    /// How long a WebSocket may be without a request.
    pub websocket_idle: Duration,
    /// How long a WebSocket's client may read nothing.
    pub client_stall: Duration,
    /// Off: no response is kept, whatever its client asks for.
    pub keep_responses: bool,
    /// Refuse parameters that no backend honours, unless the client says otherwise.
    pub strict: bool,
    /// Server tools and modes that the backend has, by the names that lists of parameters have.
    pub served: Vec<&'static str>,
    pub workspaces: WorkspaceRule,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            bind: None,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            keys: Arc::default(),
            body_limit: 64 * 1024 * 1024,
            bodies: Bodies::new(256 * 1024 * 1024),
            body_pause: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            header_grace: Duration::from_secs(10),
            websocket: true,
            websocket_idle: Duration::from_secs(15 * 60),
            client_stall: Duration::from_secs(60),
            keep_responses: true,
            strict: false,
            served: Vec::new(),
            workspaces: WorkspaceRule::Named,
        }
    }
}

/// The response to a client when too many connections are open, as raw bytes.
pub(crate) fn no_room() -> Vec<u8> {
    error::raw(&TurnError::new(
        ErrorCode::Unavailable,
        "too many connections are open; try again shortly, or raise `limits.connections`",
    ))
}

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";
const GET_POST: &str = "GET, POST, OPTIONS";
const GET_DELETE: &str = "GET, HEAD, DELETE, OPTIONS";

const OPENAI: RouteDialect = RouteDialect::Is(ApiDialect::OpenAi);
const ANTHROPIC: RouteDialect = RouteDialect::Is(ApiDialect::Anthropic);

/// A path, the methods that it allows, the dialect of its errors, and its handlers. `openapi`
/// describes each.
type ApiRoute<S> = (&'static str, &'static str, RouteDialect, MethodRouter<Shared<S>>);

/// Paths that are served with and without `/v1`.
fn versioned<S: GatewayService>(websocket: bool) -> Vec<ApiRoute<S>> {
    // An upgrade is answered in any case, and offered only if it works.
    let upgradable = if websocket { GET_POST } else { POST };
    vec![
        ("/chat/completions", upgradable, OPENAI, post(chat::completions::<S>).get(ws::chat::<S>)),
        ("/completions", POST, OPENAI, post(completions::completions::<S>)),
        ("/responses", upgradable, OPENAI, post(responses::create::<S>).get(ws::responses::<S>)),
        ("/responses/compact", POST, OPENAI, post(responses::compact::<S>)),
        ("/responses/input_tokens", POST, OPENAI, post(count::input_tokens::<S>)),
        (
            "/responses/{id}",
            GET_DELETE,
            OPENAI,
            get(responses::get::<S>).delete(responses::delete::<S>),
        ),
        ("/responses/{id}/cancel", POST, OPENAI, post(responses::cancel::<S>)),
        ("/responses/{id}/input_items", GET, OPENAI, get(responses::input_items::<S>)),
        ("/messages", POST, ANTHROPIC, post(messages::create::<S>)),
        ("/messages/count_tokens", POST, ANTHROPIC, post(count::tokens::<S>)),
        ("/models", GET, RouteDialect::ByHeader, get(models::list::<S>)),
        // Ids may have slashes in them, as `anthropic/claude-…`.
        ("/models/{*id}", GET, RouteDialect::ByHeader, get(models::one::<S>)),
        ("/tools", GET, OPENAI, get(tools::list::<S>)),
    ]
}

/// Paths about the gateway itself.
fn unversioned<S: GatewayService>() -> Vec<ApiRoute<S>> {
    vec![
        ("/health", GET, OPENAI, get(health::health::<S>)),
        ("/healthz", GET, OPENAI, get(health::health::<S>)),
        ("/health/live", GET, OPENAI, get(health::live)),
        ("/health/ready", GET, OPENAI, get(health::ready::<S>)),
        ("/", GET, OPENAI, get(index::<S>)),
        // Claude Code's liveness check.
        ("/api/hello", GET, ANTHROPIC, get(async || StatusCode::OK)),
        ("/openapi.json", GET, OPENAI, get(openapi::document)),
        ("/docs", GET, OPENAI, get(openapi::docs)),
    ]
}

/// The whole API over `service`.
pub fn router<S: GatewayService>(service: Arc<S>) -> Router {
    let rules = Arc::new(guard::AccessRules::new(service.settings()));
    let websocket = service.settings().websocket;
    let shared = Shared {
        service,
        rules,
        background: Arc::default(),
        remembered: responses::RecentBytes::default(),
    };
    let guarded = |dialect, methods: MethodRouter<Shared<S>>| {
        let gate = RouteGuard { shared: shared.clone(), dialect };
        methods.layer(middleware::from_fn_with_state(gate, guard::guard::<S>))
    };
    let mut router = Router::new();
    for (path, allow, dialect, methods) in versioned::<S>(websocket) {
        let methods = guarded(dialect, only(allow, methods));
        router = router.route(path, methods.clone()).route(&format!("/v1{path}"), methods);
    }
    for (path, allow, dialect, methods) in unversioned::<S>() {
        router = router.route(path, guarded(dialect, only(allow, methods)));
    }
    // Unknown paths below `/messages` get errors in Anthropic's dialect.
    for path in ["/messages/", "/messages/{*rest}"] {
        let absent = guarded(ANTHROPIC, any(not_found::not_found::<S>));
        router = router.route(path, absent.clone()).route(&format!("/v1{path}"), absent);
    }
    let absent = guarded(RouteDialect::ByHeader, any(not_found::not_found::<S>));
    router.fallback_service(absent.with_state(shared.clone())).with_state(shared)
}

/// What every handler gets.
struct Shared<S> {
    service: Arc<S>,
    rules: Arc<guard::AccessRules>,
    background: Arc<responses::Background>,
    remembered: responses::RecentBytes,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            rules: Arc::clone(&self.rules),
            background: Arc::clone(&self.background),
            remembered: Arc::clone(&self.remembered),
        }
    }
}

type Ctx<S> = State<Shared<S>>;

/// Answers the other methods of a route: `OPTIONS` with what is allowed, the rest with a 405 that
/// lists them, too.
fn only<S: GatewayService>(
    allow: &'static str,
    route: MethodRouter<Shared<S>>,
) -> MethodRouter<Shared<S>> {
    route.fallback(move |method: Method, uri: Uri| async move {
        if method == Method::OPTIONS {
            (StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response()
        } else {
            not_allowed(&method, &uri, allow)
        }
    })
}

fn not_allowed(method: &Method, uri: &Uri, allow: &'static str) -> Response {
    let mut response = error::response(&TurnError::new(
        ErrorCode::MethodNotAllowed,
        format!("{method} is not allowed on {}; use {allow}", short(uri.path())),
    ));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

#[derive(Serialize)]
struct IndexPage {
    name: &'static str,
    version: &'static str,
    description: &'static str,
    endpoints: &'static [String],
}

async fn index<S: GatewayService>(State(shared): Ctx<S>) -> Json<IndexPage> {
    Json(IndexPage {
        name: "ibeam",
        version: env!("CARGO_PKG_VERSION"),
        description: env!("CARGO_PKG_DESCRIPTION"),
        endpoints: openapi::endpoints(shared.service.settings().websocket),
    })
}

/// A path, shortened for an error message.
fn short(path: &str) -> &str {
    path.get(..path.floor_char_boundary(200)).unwrap_or(path)
}

#[cfg(test)]
#[path = "api_tests/mod.rs"]
mod tests;
