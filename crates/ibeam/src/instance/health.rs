//! Asks a gateway how it is.

use std::{net::SocketAddr, time::Duration};

use serde::Deserialize;

use ibeam_server::net::near;

/// A gateway on this machine that does not say in this time how it is, is in no state to
/// answer anything.
const PATIENCE: Duration = Duration::from_secs(3);

/// One that the system starts for this may first have to ask Cursor's CLI who is signed in.
const WAKING: Duration = Duration::from_secs(10);

/// What `/health` says, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Health {
    pub(super) version: String,
    auth: String,
    pub(super) sessions: Sessions,
    pub(super) uptime_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Sessions {
    pub(super) active: u64,
    pub(super) parked: u64,
}

impl Health {
    pub(super) fn authenticated(&self) -> bool {
        self.auth == "authenticated"
    }
}

/// None: it does not answer. This is a request like any other, so that one which is about
/// to end for want of them stays.
pub(super) async fn ask(url: &str) -> Option<Health> {
    // Nothing but an address of this machine is ever written down.
    near::get(url.strip_prefix("http://")?.parse().ok()?, "/health", PATIENCE).await
}

/// The same of a port whose gateway may only be started by the question.
pub(super) async fn wake(address: SocketAddr) -> Option<Health> {
    near::get(address, "/health", WAKING).await
}
