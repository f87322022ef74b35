//! Every task of the program. They have names, their logs carry them, and shutdown
//! waits for all.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Starts tasks and knows when all have ended. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
}

impl Tasks {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts `task` under a name.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(task.instrument(tracing::debug_span!("task", name)))
    }

    /// Runs something that blocks or computes for long off the event loop.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.tracker.spawn_blocking(work)
    }

    /// For code that only knows trackers.
    #[must_use]
    pub fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// How many are running.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until all have ended.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn join_waits_for_all() {
        let tasks = Tasks::new();
        let task = tasks.spawn("test", async { 7 });
        assert_eq!(tasks.spawn_blocking(|| 8).await.unwrap(), 8);
        tasks.join().await;
        assert!(tasks.is_empty());
        assert_eq!(task.await.unwrap(), 7);
    }
}
