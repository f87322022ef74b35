//! Returns free memory to the system while a gateway runs.

use std::{cell::Cell, convert::Infallible, hint::black_box, time::Duration};

use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(5);

thread_local! {
    static COLLECTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// For a thread of the runtime that has nothing to do. Each has memory of its own, of which the
/// allocator returns what was freed only when more of it is freed later.
pub(crate) fn on_idle() {
    let now = Instant::now();
    if COLLECTED.get().is_none_or(|at| now.duration_since(at) >= EVERY) {
        COLLECTED.set(Some(now));
        collect();
    }
}

/// Wakes a thread now and then that would be idle for longer.
pub(crate) async fn return_free() -> Infallible {
    loop {
        tokio::time::sleep(EVERY).await;
        #[expect(clippy::disallowed_methods, reason = "it ends at once")]
        drop(tokio::spawn(async {}));
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
        collect();
        let after = own_memory();
        assert!(after < before + SLACK, "{before}, {full}, {freed}, {after}");
    }
}
