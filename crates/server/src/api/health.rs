//! `GET /health`: alive, and what it could answer with.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Serialize;

use super::{BodyHealth, Ctx, Service};
use crate::session::Fates;

/// A look at the running program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether there is a usable login.
    pub authenticated: bool,
    /// The name of the backend that answers.
    pub backend: String,
    pub sessions: Sessions,
    pub store: StoreHealth,
    pub mcp: Mcp,
    /// What the backend said that this version does not know, and how often.
    pub drift: BTreeMap<String, u64>,
    pub uptime_seconds: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sessions {
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
pub struct Mcp {
    pub enabled: bool,
    pub servers: u64,
    pub tools: u64,
}

#[derive(Serialize)]
pub(super) struct Report {
    status: &'static str,
    version: &'static str,
    auth: &'static str,
    backend: String,
    sessions: Sessions,
    bodies: BodyHealth,
    store: StoreHealth,
    mcp: Mcp,
    drift: BTreeMap<String, u64>,
    uptime_seconds: u64,
    /// For probes that were written for other gateways.
    ok: bool,
}

pub(super) async fn health<S: Service>(State(shared): Ctx<S>) -> Json<Report> {
    let health = shared.service.health();
    Json(Report {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        auth: if health.authenticated { "authenticated" } else { "not_authenticated" },
        backend: health.backend,
        sessions: health.sessions,
        bodies: shared.service.settings().bodies.health(),
        store: health.store,
        mcp: health.mcp,
        drift: health.drift,
        uptime_seconds: health.uptime_seconds,
        ok: true,
    })
}
