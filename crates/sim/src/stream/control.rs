//! The handle by which a run can break its connection.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Breaks a connection; shared by the connection and its runs.
#[derive(Debug, Default)]
pub(crate) struct ConnectionControl {
    goaway: CancellationToken,
    kill: CancellationToken,
    frozen: AtomicBool,
}

impl ConnectionControl {
    /// Sends GOAWAY; open streams continue.
    pub(crate) fn goaway(&self) {
        self.goaway.cancel();
    }

    /// Closes the connection at once.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }

    pub(crate) async fn killed(&self) {
        self.kill.cancelled().await;
    }

    /// Stops all reading and writing, and closes nothing.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn leaving(&self) {
        self.goaway.cancelled().await;
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }
}
