//! All tasks of the program. Their names are in their logs, and shutdown waits for them.

use std::{future::Future, panic::resume_unwind, pin::Pin, thread, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

/// Starts tasks and knows when all have ended. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
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
        self.spawn_boxed(name, Box::pin(task))
    }

    /// Every task has one type, so that the runtime's code for tasks is compiled once for each
    /// output, and not once for each of the hundred futures that the program starts.
    fn spawn_boxed<T: Send + 'static>(
        &self,
        name: &'static str,
        task: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> JoinHandle<T> {
        self.tracker.spawn(task.instrument(tracing::debug_span!("task", name)))
    }

    /// Runs something that blocks or computes for long off the event loop.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        // Boxed for the same reason as tasks.
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
        self.tracker.spawn_blocking(work)
    }

    /// The same for work that needs much memory, on a thread of its own: when it ends, the
    /// allocator gets back all that the thread had. A thread that continues with other work would
    /// keep it.
    pub fn spawn_large<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
        self.spawn_blocking(move || {
            let thread = thread::Builder::new().name("large work".to_owned()).spawn(work);
            // A panic there continues here, and for the task that waits for the work.
            let thread = thread.unwrap_or_else(|error| resume_unwind(Box::new(error)));
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// For libraries that start tasks themselves: all of them under one name.
    #[must_use]
    pub fn executor(&self, name: &'static str) -> Executor {
        Executor { tasks: self.clone(), name }
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

    /// Asks background tasks to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits for [`Self::stop`].
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.clone().cancelled_owned()
    }

    /// Waits until all have ended.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// As [`Self::join`] with a limit. Returns how many still run.
    pub async fn join_within(&self, limit: Duration) -> usize {
        match tokio::time::timeout(limit, self.join()).await {
            Ok(()) => 0,
            Err(_elapsed) => self.len(),
        }
    }
}

/// Runs a library's background work where shutdown can see it.
#[derive(Clone, Debug)]
pub struct Executor {
    tasks: Tasks,
    name: &'static str,
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.tasks.spawn(self.name, future);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn join_waits_for_every_task() {
        let tasks = Tasks::new();
        let task = tasks.spawn("test", async { 7 });
        assert_eq!(tasks.spawn_blocking(|| 8).await.unwrap(), 8);
        tasks.join().await;
        assert!(tasks.is_empty());
        assert_eq!(task.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn large_work_has_a_thread_of_its_own_and_its_panics_arrive() {
        let tasks = Tasks::new();
        let name = || thread::current().name().map(str::to_owned);
        assert_eq!(tasks.spawn_large(name).await.unwrap().as_deref(), Some("large work"));
        let failed = tasks.spawn_large(|| -> u8 { panic!("on purpose") }).await;
        assert!(failed.unwrap_err().is_panic());
        tasks.join().await;
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_task_does_not_block_shutdown() {
        let tasks = Tasks::new();
        tasks.spawn("stuck", std::future::pending::<()>());
        tasks.spawn("polite", tasks.stopped());
        tasks.stop();
        assert_eq!(tasks.join_within(Duration::from_secs(3)).await, 1);
    }

    #[tokio::test]
    async fn tasks_of_an_executor_are_counted() {
        use hyper::rt::Executor as _;
        let tasks = Tasks::new();
        tasks.executor("test").execute(std::future::pending::<()>());
        assert_eq!(tasks.len(), 1);
    }
}
