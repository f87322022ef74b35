//! The simulated service on the wire: connections, routes, sign-in and unary calls.

mod append;
mod auth;
mod connections;
mod headers;
mod hosts;
mod login;
mod model_calls;
mod responses;
mod routes;
mod usage;

use std::sync::Arc;

use self::{append::Appends, auth::Auth, login::Logins};
use crate::{
    config::{self, SimConfig},
    engine::SimState,
    record::{PromptReport, RunReport, SimCounters, Stats},
};

/// The simulator. Clones share everything.
#[derive(Clone, Debug)]
pub struct Sim {
    service: Arc<SimService>,
}

#[derive(Debug)]
struct SimService {
    state: Arc<SimState>,
    auth: Auth,
    appends: Appends,
    logins: Logins,
}

impl Sim {
    /// An access token that the default configuration accepts: shaped like the real ones, valid
    /// until the year 2100. It is also a refresh token.
    pub const TOKEN: &str = config::TOKEN;
    /// An API key that the default configuration exchanges for a token. It is good for nothing
    /// else.
    pub const API_KEY: &str = config::API_KEY;
    /// The last part of every token that is handed out, by which tests find leaked tokens.
    pub const SIGNATURE: &str = auth::SIGNATURE;

    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        let service = SimService {
            auth: Auth::new(&config),
            appends: Appends::default(),
            logins: Logins::default(),
            state: Arc::new(SimState::new(config)),
        };
        Self { service: Arc::new(service) }
    }

    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.service.state.config
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.service.state.records.stats()
    }

    /// The newest runs, the oldest of them first, open ones included.
    #[must_use]
    pub fn runs(&self) -> Vec<RunReport> {
        self.service.state.records.runs()
    }

    /// What the models of the newest runs know, the oldest of them first.
    #[must_use]
    pub fn prompts(&self) -> Vec<PromptReport> {
        self.service.state.records.prompts()
    }

    /// From now on this token is refused, as if it had expired.
    pub fn revoke(&self, token: &str) {
        self.service.auth.revoke(token);
    }

    /// How many tasks are alive: connections and runs.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.service.state.tasks.len()
    }

    fn counters(&self) -> &SimCounters {
        self.service.state.counters()
    }
}

impl Default for Sim {
    fn default() -> Self {
        Self::new(SimConfig::default())
    }
}
