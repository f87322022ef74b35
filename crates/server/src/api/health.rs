//! `GET /health`: how the gateway is and what it could answer with. `GET /health/live` and
//! `GET /health/ready`: the same as a status, for programs that restart it or send requests
//! to it.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use ibeam_core::challenge::{CHALLENGE, PROOF};
use serde::Serialize;

use super::{BodyHealth, Ctx, GatewayService, Shared};
use crate::session::Fates;

/// A look at the running program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether there is a usable login.
    pub authenticated: bool,
    /// The name of the backend that answers.
    pub backend: String,
    pub sessions: SessionHealth,
    pub store: StoreHealth,
    pub mcp: McpHealth,
    /// Protocol messages that this version does not know, and how often they came.
    pub drift: BTreeMap<String, u64>,
    /// The form in which histories are rebuilt, for models of which one was learned.
    pub history: BTreeMap<String, &'static str>,
    pub uptime_seconds: u64,
    /// New requests are refused.
    pub shutting_down: bool,
    /// The last request got no answer from the backend, less than a minute ago, and none succeeded
    /// since.
    pub backend_unreachable: bool,
    /// A store file was configured but cannot be used, so memory is used instead.
    pub store_unusable: bool,
    /// The last conversation could not be saved, because the disk is full for example.
    pub store_failing: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionHealth {
    /// Turns that run, also those whose client has just left.
    pub active: u64,
    /// Turns that wait for tool results, what they hold, and how much may be.
    pub parked: u64,
    pub parked_bytes: u64,
    pub max_parked: u64,
    pub max_parked_bytes: u64,
    pub ttl_seconds: u64,
    /// Since the program started.
    #[serde(flatten)]
    pub fates: Fates,
}

/// What is kept of conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreHealth {
    pub conversations: u64,
    pub bytes: u64,
    /// It ends with the program.
    pub in_memory: bool,
    pub failed_saves: u64,
}

/// The MCP bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct McpHealth {
    pub enabled: bool,
    pub servers: u64,
    pub tools: u64,
}

/// The state of the gateway, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum HealthStatus {
    #[default]
    Ok,
    /// Something is wrong, and requests may work all the same.
    Degraded,
    /// No request can work.
    Error,
}

/// A reason why the status is not `ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HealthProblem {
    ShuttingDown,
    NotSignedIn,
    BackendUnreachable,
    StoreUnusable,
    StoreFailing,
}

#[derive(Serialize)]
struct HealthReason {
    code: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
pub(super) struct HealthReport {
    status: HealthStatus,
    version: &'static str,
    auth: &'static str,
    backend: String,
    sessions: SessionHealth,
    bodies: BodyHealth,
    store: StoreHealth,
    mcp: McpHealth,
    drift: BTreeMap<String, u64>,
    history: BTreeMap<String, &'static str>,
    uptime_seconds: u64,
    /// For probes that were written for other gateways.
    ok: bool,
    reasons: Vec<HealthReason>,
}

#[derive(Serialize)]
pub(super) struct LivenessReport {
    status: HealthStatus,
}

#[derive(Serialize)]
struct ReadinessReport {
    ready: bool,
    status: HealthStatus,
    reasons: Vec<HealthReason>,
}

impl HealthProblem {
    fn all(health: &Health) -> Vec<Self> {
        [
            (health.shutting_down, Self::ShuttingDown),
            (!health.authenticated, Self::NotSignedIn),
            (health.backend_unreachable, Self::BackendUnreachable),
            (health.store_unusable, Self::StoreUnusable),
            (health.store_failing, Self::StoreFailing),
        ]
        .into_iter()
        .filter_map(|(is, trouble)| is.then_some(trouble))
        .collect()
    }

    fn status(self) -> HealthStatus {
        match self {
            Self::ShuttingDown | Self::NotSignedIn => HealthStatus::Error,
            Self::BackendUnreachable | Self::StoreUnusable | Self::StoreFailing => {
                HealthStatus::Degraded
            }
        }
    }

    /// Whether requests should go elsewhere. No request needs the store.
    fn prevents_requests(self) -> bool {
        match self {
            Self::ShuttingDown | Self::NotSignedIn | Self::BackendUnreachable => true,
            Self::StoreUnusable | Self::StoreFailing => false,
        }
    }

    fn reason(self) -> HealthReason {
        let (code, message) = match self {
            Self::ShuttingDown => ("shutting_down", "the gateway is shutting down"),
            Self::NotSignedIn => {
                ("not_signed_in", "not signed in to Cursor, or Cursor rejected the sign-in")
            }
            Self::BackendUnreachable => (
                "backend_unreachable",
                "Cursor did not answer when it was last asked, less than a minute ago",
            ),
            Self::StoreUnusable => (
                "store_unusable",
                "the store file cannot be used; conversations are kept in memory only",
            ),
            Self::StoreFailing => (
                "store_failing",
                "the last conversation could not be saved; the disk may be full, see the log",
            ),
        };
        HealthReason { code, message }
    }
}

fn status(troubles: &[HealthProblem]) -> HealthStatus {
    troubles.iter().map(|trouble| trouble.status()).max().unwrap_or_default()
}

fn reasons(troubles: &[HealthProblem]) -> Vec<HealthReason> {
    troubles.iter().map(|trouble| trouble.reason()).collect()
}

/// With the header [`CHALLENGE`], the answer also proves that it comes from the gateway that the
/// caller's key belongs to.
pub(super) async fn health<S: GatewayService>(
    State(shared): Ctx<S>,
    headers: HeaderMap,
) -> impl IntoResponse {
    // A gateway that is shutting down has given up its port, and a program that took it could
    // relay the challenge over an old connection.
    let challenge = headers.get(CHALLENGE).filter(|_| !shared.service.health().shutting_down);
    let challenge = challenge.and_then(|value| value.to_str().ok());
    let proof = challenge.and_then(|challenge| shared.service.settings().keys.prove(challenge));
    (proof.map(|proof| [(PROOF, proof)]), report(&shared))
}

fn report<S: GatewayService>(shared: &Shared<S>) -> Json<HealthReport> {
    let health = shared.service.health();
    let troubles = HealthProblem::all(&health);
    let status = status(&troubles);
    Json(HealthReport {
        status,
        version: env!("CARGO_PKG_VERSION"),
        auth: if health.authenticated { "authenticated" } else { "not_authenticated" },
        backend: health.backend,
        sessions: health.sessions,
        bodies: shared.service.settings().bodies.health(),
        store: health.store,
        mcp: health.mcp,
        drift: health.drift,
        history: health.history,
        uptime_seconds: health.uptime_seconds,
        ok: status != HealthStatus::Error,
        reasons: reasons(&troubles),
    })
}

/// The process serves. Nothing else is checked, since a restart would not fix anything else.
pub(super) async fn live() -> Json<LivenessReport> {
    Json(LivenessReport { status: HealthStatus::Ok })
}

pub(super) async fn ready<S: GatewayService>(State(shared): Ctx<S>) -> Response {
    let troubles = HealthProblem::all(&shared.service.health());
    let ready = !troubles.iter().any(|trouble| trouble.prevents_requests());
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = ReadinessReport { ready, status: status(&troubles), reasons: reasons(&troubles) };
    (code, Json(body)).into_response()
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
