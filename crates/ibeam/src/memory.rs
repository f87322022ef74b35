//! Returns free memory to the system while a gateway runs.

use std::{convert::Infallible, hint::black_box, time::Duration};

const EVERY: Duration = Duration::from_secs(5);

/// Larger than what mimalloc takes from pages that it shares among smaller pieces.
const LARGE: usize = 32 << 20;

/// The allocator returns large pieces a while after they were freed, but looks for them only when
/// another one is freed. So this frees one now and then. Nothing is written to it, so it takes no
/// memory.
pub(crate) async fn return_free() -> Infallible {
    loop {
        tokio::time::sleep(EVERY).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}
