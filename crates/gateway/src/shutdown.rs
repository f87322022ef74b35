//! The end of the program: the first signal asks it to finish what runs, the second
//! to stop at once.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// Tells everyone that the end has come. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Shutdown {
    /// One that nothing triggers but [`Shutdown::drain`] and [`Shutdown::abort`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens for SIGINT and SIGTERM, or Ctrl-C where there are no signals.
    ///
    /// # Errors
    /// The operating system does not let us listen.
    pub fn on_signals(tasks: &Tasks) -> std::io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::new()?;
        let told = shutdown.clone();
        tasks.spawn("signals", async move {
            tokio::select! {
                () = signals.next() => {}
                // Ended by other means; nobody needs a signal any more.
                () = told.drain.cancelled() => return,
            }
            tracing::info!("shutting down; signal again to stop at once");
            told.drain();
            tokio::select! {
                () = signals.next() => told.abort(),
                () = told.abort.cancelled() => {}
            }
        });
        Ok(shutdown)
    }

    /// Take nothing new, finish what runs.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Drop everything.
    pub fn abort(&self) {
        self.drain.cancel();
        self.abort.cancel();
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
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

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

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
}
