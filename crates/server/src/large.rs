//! Work on large requests. It takes a while, so it runs off the event loop and does not delay
//! running streams: a few requests at a time, and keys in turn.

use ibeam_core::error::{ErrorCode, TurnError};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use crate::{
    keys::KeyHash,
    limits::{Permit, Permits},
    tasks::Tasks,
};

/// Work on no more bytes than this takes a few milliseconds, and is done where it is.
const LARGE: usize = 1 << 20;

/// How many large requests are worked on at once.
const AT_ONCE: usize = 2;

/// How many requests load what they continue at once. What one loads counts for nothing until
/// it is there, so this number bounds that memory; and the store is free for others in between.
const LOADS_AT_ONCE: usize = 4;

/// Does the work of all large requests. Clones share the permits.
#[derive(Clone, Debug)]
pub struct LargeWork {
    permits: Permits,
    loads: Permits,
    tasks: Tasks,
    /// How many pieces of work were done outside the event loop.
    #[cfg(test)]
    pub(crate) done: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl LargeWork {
    #[must_use]
    pub fn new(tasks: Tasks) -> Self {
        Self {
            permits: Permits::new(AT_ONCE),
            loads: Permits::new(LOADS_AT_ONCE),
            tasks,
            #[cfg(test)]
            done: std::sync::Arc::default(),
        }
    }

    /// A permit to load what a request of the client with that key continues. It is held until
    /// that is decoded.
    pub(crate) async fn load(&self, key: &KeyHash) -> Option<Permit> {
        self.loads.acquire(key).await
    }

    /// Runs work on `bytes` bytes for the client with that key. A client that disconnects while it
    /// waits for a permit costs nothing more.
    ///
    /// # Errors
    /// The work panicked, or the program ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: &KeyHash,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TurnError> {
        if bytes <= LARGE {
            return Ok(work());
        }
        let permit = self.permits.acquire(key).await;
        #[cfg(test)]
        self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let done = self.tasks.spawn_large(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|error| {
            let text = "the request could not be processed";
            TurnError::new(ErrorCode::Internal, text).cause(error.to_string())
        })
    }

    /// Does work on `bytes` bytes of a turn that is running, where nothing can wait. If there are
    /// many, the runtime first moves the other tasks of this thread to another one.
    pub(crate) fn in_place<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        // A runtime of one thread, as most tests have, cannot do that.
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        if bytes <= LARGE || !matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
            return work();
        }
        #[cfg(test)]
        self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        block_in_place(work)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
        time::Duration,
    };

    use tokio::time::timeout;

    use super::*;

    const KEY: KeyHash = [1; 32];
    const OTHER: KeyHash = [2; 32];

    async fn place(large: &LargeWork, bytes: usize) -> ThreadId {
        large.run(&KEY, bytes, || thread::current().id()).await.unwrap()
    }

    #[tokio::test]
    async fn large_work_runs_off_the_event_loop_two_at_a_time() {
        let large = LargeWork::new(Tasks::new());
        let here = thread::current().id();
        assert_eq!(place(&large, LARGE).await, here);
        assert_ne!(place(&large, LARGE + 1).await, here);

        let (ends, ended): (Vec<_>, Vec<_>) = (0..AT_ONCE).map(|_| mpsc::channel::<()>()).unzip();
        let busy = ended.into_iter().map(|ended| {
            let large = large.clone();
            Tasks::new().spawn("test", async move {
                large.run(&KEY, LARGE + 1, move || ended.recv().is_err()).await
            })
        });
        let busy: Vec<_> = busy.collect();
        while large.permits.free() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(place(&large, LARGE).await, here, "small ones do not wait");
        let next = place(&large, LARGE + 1);
        assert!(timeout(Duration::from_millis(1), next).await.is_err(), "there are only two");
        drop(ends);
        for work in busy {
            assert!(work.await.unwrap().unwrap());
        }
        assert_ne!(place(&large, LARGE + 1).await, here);
    }

    #[tokio::test]
    async fn large_requests_of_one_key_do_not_block_another_key() {
        let large = LargeWork::new(Tasks::new());
        let mut held = Vec::new();
        for _ in 0..AT_ONCE {
            held.push(large.permits.acquire(&KEY).await);
        }
        let queue: Vec<_> = (0..8).map(|_| large.permits.acquire(&KEY)).collect();
        let mut queue: Vec<_> = queue.into_iter().map(Box::pin).collect();
        for request in &mut queue {
            assert!(timeout(Duration::ZERO, request.as_mut()).await.is_err());
        }
        let other = large.run(&OTHER, LARGE + 1, || 7);
        let mut other = std::pin::pin!(other);
        assert!(timeout(Duration::ZERO, other.as_mut()).await.is_err());
        drop(held);
        let other = timeout(Duration::from_secs(10), other).await;
        assert_eq!(other.expect("the keys take turns").unwrap(), 7);
    }
}
