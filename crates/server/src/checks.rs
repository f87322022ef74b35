//! Work on schemas that clients send. Its size depends on them, so only some of it runs at a time,
//! and callers wait for a limited time.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinError, time};

use crate::tasks::Tasks;

/// How many are worked on at once.
const AT_ONCE: usize = 2;

/// How long one may take, with the time until its turn comes.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct SchemaChecks {
    places: Arc<Semaphore>,
    tasks: Tasks,
}

impl SchemaChecks {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), tasks }
    }

    /// Does some work off the async threads. `None`: it takes too long. Work that was started then
    /// keeps its slot until it ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Result<T, JoinError>> {
        let done = async {
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            let done = self.tasks.spawn_blocking(move || {
                let done = work();
                drop(place);
                done
            });
            Some(done.await)
        };
        time::timeout(PATIENCE, done).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Work that does not end in time.
    async fn late<T: Send + 'static>(
        checks: &SchemaChecks,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> bool {
        let pass = time::advance(PATIENCE + Duration::from_millis(1));
        tokio::join!(checks.run(work), pass).0.is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn timed_out_work_keeps_its_slot_until_it_ends() {
        let checks = SchemaChecks::new(Tasks::new());
        assert_eq!(checks.run(|| 8).await.unwrap().unwrap(), 8);

        let (ends, ended): (Vec<_>, Vec<_>) = (0..AT_ONCE).map(|_| mpsc::channel::<()>()).unzip();
        for ended in ended {
            assert!(late(&checks, move || ended.recv().is_err()).await);
        }
        assert_eq!(checks.places.available_permits(), 0);
        assert!(late(&checks, || 8).await, "there is no place");

        drop(ends);
        checks.tasks.join().await;
        assert_eq!(checks.places.available_permits(), AT_ONCE);
    }
}
