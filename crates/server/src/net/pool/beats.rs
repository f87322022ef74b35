//! Heartbeats of sleeping streams. The connection sends those of all its streams at once, so
//! thousands of parked turns need not wake up.

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Gauge;

/// Something that is sent again and again, for as long as its stream is asleep.
pub trait Beat: fmt::Debug + Send + Sync {
    /// Sends it, if that takes no waiting.
    fn beat(&self);
}

/// A stream that is asleep, until this is dropped.
#[derive(Debug)]
pub struct Asleep {
    gauge: Arc<Gauge>,
    /// Held, so that it continues.
    _beat: Arc<dyn Beat>,
}

impl Asleep {
    pub(super) fn new(gauge: &Arc<Gauge>, beat: Arc<dyn Beat>) -> Self {
        gauge.asleep.fetch_add(1, Ordering::Relaxed);
        gauge.beats.add(&beat);
        Self { gauge: Arc::clone(gauge), _beat: beat }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.gauge.asleep.fetch_sub(1, Ordering::Relaxed);
        self.gauge.stir();
    }
}

#[derive(Debug, Default)]
pub(super) struct Beats {
    list: Mutex<Vec<Weak<dyn Beat>>>,
    some: Notify,
}

impl Beats {
    fn add(&self, beat: &Arc<dyn Beat>) {
        self.list.lock().push(Arc::downgrade(beat));
        self.some.notify_one();
    }

    /// Sends them without an end. Costs nothing while there are none.
    pub(super) async fn run(&self, every: Duration) {
        loop {
            if self.list.lock().is_empty() {
                self.some.notified().await;
            }
            tokio::time::sleep(every).await;
            self.list.lock().retain(|beat| beat.upgrade().inspect(|beat| beat.beat()).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Debug, Default)]
    struct Counter(AtomicU32);

    impl Beat for Counter {
        fn beat(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_continue_until_their_stream_wakes() {
        let gauge = Arc::new(Gauge::default());
        let (one, two) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
        let _asleep = Asleep::new(&gauge, Arc::clone(&one) as _);
        let woken = Asleep::new(&gauge, Arc::clone(&two) as _);
        let wait = |seconds: u64| Duration::from_millis(seconds * 1000 + 500);
        let mut run = std::pin::pin!(gauge.beats.run(Duration::from_secs(5)));
        assert!(tokio::time::timeout(wait(10), run.as_mut()).await.is_err());
        let count = |counter: &Counter| counter.0.load(Ordering::Relaxed);
        assert_eq!((count(&one), count(&two)), (2, 2));
        drop((two, woken));
        assert!(tokio::time::timeout(wait(5), run.as_mut()).await.is_err());
        assert_eq!((count(&one), gauge.beats.list.lock().len()), (3, 1));
    }
}
