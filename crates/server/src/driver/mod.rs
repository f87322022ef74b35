//! Ways to run a turn upstream. A driver opens a link and returns its two halves; a peer in `core`
//! defines what is said on it.
//!
//! A backend is one driver: it implements [`Driver`] and [`Dial`], and [`open`] opens it.

mod agent;
mod agent_config;
mod agent_h1;
mod agent_h2;
mod agent_hosts;
mod agent_plan;
pub mod child;
mod errors;
mod fallback;
mod headers;
mod link;
mod machine;
pub mod probing;
mod surroundings;
#[cfg(test)]
mod testing;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use ibeam_core::{
    backend::{BackendKind, Needs},
    error::TurnError,
    models::ModelInfo,
};
use secrecy::SecretString;

pub use agent::AgentDriver;
pub use agent_config::{AgentConfig, connector, in_memory};
pub use futures_util::future::BoxFuture;
pub use headers::ClientProfile;
pub use link::{Dial, Link, LinkPeer, LinkReceiver, LinkSender, Open};
pub use machine::{Machine, NewTurn, RunMachine, TurnDriver, TurnMachine, TurnSetup};

pub use crate::config::Transport;

use crate::{
    auth::{self, AccessTokens},
    config::{Config, Sim},
    net::pool::PoolStats,
    store::Scope,
    tasks::Tasks,
};

/// Opens the backend of these settings: its driver, and the sign-in that it uses. `sim` is there
/// when a simulator answers.
pub fn open<R: RunMachine>(
    config: &Config,
    sim: Option<&Sim>,
    tasks: &Tasks,
) -> (Arc<dyn TurnDriver<R>>, AccessTokens) {
    match config.backend_kind() {
        BackendKind::Agent => opened(agent_config::open(config, sim, tasks)),
        BackendKind::Cli => opened(child::cli::open(config, sim.is_some(), tasks)),
        BackendKind::Acp => opened(child::acp::open(config, sim.is_some(), tasks)),
    }
}

/// The command that signs in to the backend of these settings.
#[must_use]
pub fn login_command(config: &Config) -> String {
    match config.backend_kind().needs() {
        Needs::Account => auth::tokens::login_command(&config.account.profile),
        needs @ Needs::CursorAgent => {
            format!("ibeam login --backend {}", needs.default_backend().name())
        }
    }
}

fn opened<R: RunMachine>(
    (driver, tokens): (impl Dial, AccessTokens),
) -> (Arc<dyn TurnDriver<R>>, AccessTokens) {
    (Arc::new(driver), tokens)
}

/// One backend.
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// The models this account may use.
    fn models(&self, token: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>>;

    fn kind(&self) -> BackendKind;

    /// Prepares for turns in the background. For a program that serves.
    fn warm_up(&self) {}

    /// Sets how to evict a turn that only waits, for when there is no room for another one.
    fn on_crowded(&self, _: MakeRoom) {}

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    /// The form in which histories are rebuilt, for models of which one was learned.
    fn history_forms(&self) -> BTreeMap<String, &'static str> {
        BTreeMap::new()
    }

    /// A call that waits for longer is lost with its stream, where that is known.
    fn longest_hold(&self) -> Option<Duration> {
        None
    }
}

/// Evicts a turn that waits for its client: one of that scope, or of any. False: there is none.
#[derive(Clone)]
pub struct MakeRoom(Arc<dyn Fn(Option<Scope>) -> bool + Send + Sync>);

impl MakeRoom {
    pub fn new(make_room: impl Fn(Option<Scope>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(make_room))
    }

    #[must_use]
    pub fn now(&self, scope: Option<Scope>) -> bool {
        (self.0)(scope)
    }
}

impl fmt::Debug for MakeRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeRoom")
    }
}

/// What is open upstream, for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    pub http2: PoolStats,
    /// Streams open over HTTP/1.1.
    pub http1_streams: usize,
    /// Whether new streams go over HTTP/1.1 because HTTP/2 was refused.
    pub fallen_back: bool,
    /// Whether the server's configuration asks for it.
    pub http2_forbidden: bool,
    /// Processes, with or without a turn.
    pub children: usize,
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod sim_tests;
