//! The end of the program: the first signal lets running requests finish, the second cancels them,
//! the third does not wait at all.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// Announces that the program ends. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
    forced: Arc<AtomicBool>,
}

impl Shutdown {
    /// A shutdown that only [`Shutdown::drain`] and [`Shutdown::abort`] trigger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuse new requests, finish running ones.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Drop everything.
    pub fn abort(&self) {
        self.drain.cancel();
        self.abort.cancel();
    }

    /// Handles a signal. False if everything was cancelled before.
    fn signal(&self) -> bool {
        if self.is_draining() {
            self.forced.store(true, Ordering::Relaxed);
        }
        if self.is_aborted() {
            return false;
        }
        if self.is_draining() {
            tracing::info!("stopping at once: cancelling running requests");
            self.abort();
        } else {
            tracing::info!("shutting down");
            self.drain();
        }
        true
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Whether a signal cut the waiting short.
    #[must_use]
    pub fn was_forced(&self) -> bool {
        self.forced.load(Ordering::Relaxed)
    }

    pub fn draining(&self) -> impl Future<Output = ()> + Send + 'static {
        self.drain.clone().cancelled_owned()
    }

    pub fn aborted(&self) -> impl Future<Output = ()> + Send + 'static {
        self.abort.clone().cancelled_owned()
    }

    /// For code that only knows tokens: cancelled when draining begins.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.drain
    }
}

/// SIGINT and SIGTERM, or Ctrl-C on systems without signals.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on a signal does not end the process.
    ///
    /// # Errors
    /// The operating system does not let us listen.
    pub fn new() -> std::io::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Passes signals on, for as long as it is polled. Ends when one comes after
    /// `shutdown` was aborted: then the user does not want to wait any more.
    pub async fn relay(mut self, shutdown: &Shutdown) {
        loop {
            self.next().await;
            if !shutdown.signal() {
                return;
            }
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn abort_implies_drain() {
        let shutdown = Shutdown::new();
        let other = shutdown.clone();
        assert!(!other.is_draining());
        shutdown.abort();
        other.draining().await;
        other.aborted().await;
    }

    #[test]
    fn each_further_signal_is_more_urgent() {
        let shutdown = Shutdown::new();
        assert!(shutdown.signal());
        assert!(shutdown.is_draining() && !shutdown.is_aborted() && !shutdown.was_forced());
        assert!(shutdown.signal());
        assert!(shutdown.is_aborted() && shutdown.was_forced());
        assert!(!shutdown.signal());
    }
}
