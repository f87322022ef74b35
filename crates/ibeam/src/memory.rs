//! Returns free memory to the system while a gateway runs.

use std::{
    cell::Cell,
    convert::Infallible,
    hint::black_box,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

const EVERY: Duration = Duration::from_secs(5);

/// How long threads wait for each other, so that each gets a task. Only a busy one makes the others
/// wait that long.
const MEETING: Duration = Duration::from_millis(2);

/// Threads that became idle without returning their memory.
static UNCOLLECTED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COLLECTED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether this thread is counted in [`UNCOLLECTED`].
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// For a thread of the runtime that has nothing to do. Each has memory of its own, of which the
/// allocator returns what was freed only when more of it is freed later.
pub(crate) fn on_idle() {
    idle_thread(EVERY);
}

fn idle_thread(every: Duration) {
    let now = Instant::now();
    let is_due = COLLECTED.get().is_none_or(|at| now.duration_since(at) >= every);
    if is_due {
        COLLECTED.set(Some(now));
        collect();
    }
    match (IS_COUNTED.replace(!is_due), is_due) {
        (false, false) => drop(UNCOLLECTED.fetch_add(1, Ordering::Relaxed)),
        (true, true) => drop(UNCOLLECTED.fetch_sub(1, Ordering::Relaxed)),
        _ => {}
    }
}

/// Wakes the threads of the runtime while one of them is idle and has not returned its memory. One
/// task would not do: the runtime gives it to the thread that became idle last.
pub(crate) async fn return_free() -> Infallible {
    wake_threads(EVERY).await
}

async fn wake_threads(every: Duration) -> Infallible {
    loop {
        tokio::time::sleep(every).await;
        if UNCOLLECTED.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let threads = Handle::current().metrics().num_workers();
        let meeting = Arc::new(ThreadMeeting::default());
        for _ in 0..threads {
            let meeting = Arc::clone(&meeting);
            #[expect(clippy::disallowed_methods, reason = "it ends at once")]
            drop(tokio::spawn(async move { meeting.attend(threads) }));
        }
    }
}

/// Keeps a thread with its task until each thread has one.
#[derive(Debug, Default)]
struct ThreadMeeting {
    present: Mutex<usize>,
    complete: Condvar,
}

impl ThreadMeeting {
    fn attend(&self, all: usize) {
        let Ok(mut present) = self.present.lock() else { return };
        *present += 1;
        if *present >= all {
            self.complete.notify_all();
            return;
        }
        drop(self.complete.wait_timeout_while(present, MEETING, |present| *present < all));
    }
}

/// mimalloc returns what is free in this thread's memory, in that of threads that have ended, and in
/// what all share before it refuses a request for memory. No crate offers that as a safe function,
/// so this requests more than there can be. It must have a piece already: a first one of that size
/// is refused at once.
fn collect() {
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        let mut piece = black_box(Vec::<u8>::with_capacity(1));
        let refused = piece.try_reserve_exact(isize::MAX.unsigned_abs());
        black_box((&piece, refused.is_err()));
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// As the program has it.
    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    /// Bytes of this process that no file backs.
    fn own_memory() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn freed_memory_is_returned() {
        const PIECES: usize = 300;
        const BYTES: usize = 100_000;
        const SLACK: usize = 4 << 20;
        collect();
        let before = own_memory();
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; BYTES]).collect();
        let full = own_memory();
        assert!(full > before + PIECES * BYTES - SLACK, "{before}, {full}");
        // What they share with the rest stays in use.
        pieces.truncate(1);
        let freed = own_memory();
        assert!(
            freed > full - PIECES * BYTES / 4,
            "returned without it: {before}, {full}, {freed}"
        );
        collect();
        let after = own_memory();
        assert!(after < before + SLACK, "{before}, {full}, {freed}, {after}");
    }

    /// The runtime wakes the thread that became idle last, so others may never be woken.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the tasks are awaited here")]
    fn threads_that_stay_idle_return_their_memory() {
        const SHORT: Duration = Duration::from_millis(300);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .on_thread_park(|| idle_thread(SHORT))
            .build()
            .unwrap();
        runtime.block_on(async {
            // Twice: the second time, each of them collected a moment ago.
            for _ in 0..2 {
                let meeting = Arc::new(std::sync::Barrier::new(4));
                let tasks = (0..4).map(|_| {
                    let meeting = Arc::clone(&meeting);
                    tokio::spawn(async move {
                        meeting.wait();
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
                tokio::time::sleep(SHORT / 10).await;
            }
            let left = || UNCOLLECTED.load(Ordering::Relaxed);
            assert!(left() >= 3, "{}", left());
            tokio::select! {
                never = wake_threads(SHORT) => match never {},
                () = async {
                    while left() > 0 {
                        tokio::time::sleep(SHORT / 10).await;
                    }
                } => {}
                () = tokio::time::sleep(SHORT * 40) => panic!("{} are left", left()),
            }
        });
    }
}
