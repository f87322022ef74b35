//! Asks a gateway how it is.

use std::{net::SocketAddr, time::Duration};

use secrecy::SecretString;
use serde::Deserialize;

use ibeam_server::net::near::{self, Unproven};

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

/// This is a request like any other, so that one which is about to end for want of them stays.
///
/// # Errors
/// It does not answer, or another program answers in its place.
pub(super) async fn ask(url: &str, key: &SecretString) -> Result<Health, Unproven> {
    // Nothing but an address of this machine is ever written down.
    let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
    near::get_proven(address.ok_or(Unproven::Silent)?, "/health", key, PATIENCE).await
}

/// The same of a port whose gateway may only be started by the question.
pub(super) async fn wake(address: SocketAddr) -> Option<Health> {
    near::get(address, "/health", WAKING).await
}
