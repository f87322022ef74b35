//! The last part of what a child writes to its standard error. It is always read, because a child
//! with a full pipe would stop.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    task::JoinHandle,
    time::timeout,
};

use crate::tasks::Tasks;

/// How much is kept.
const KEPT: usize = 16 * 1024;
/// How long to wait for the last output of a dead child.
const LAST_WORDS: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Tail {
    pub(super) fn of(pipe: impl AsyncRead + Unpin + Send + 'static, tasks: &Tasks) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reader = tasks.spawn("cursor-agent errors", read(pipe, Arc::clone(&kept)));
        Self { kept, reader }
    }

    /// The last lines. The child is dead.
    pub(super) async fn last(&mut self) -> String {
        if !self.reader.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.reader).await;
        }
        let kept = self.kept.lock();
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock();
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_the_text_is_kept() {
        let tasks = Tasks::new();
        let mut said = vec![b'x'; 3 * KEPT];
        said.extend_from_slice(b"the end");
        let mut tail = Tail::of(std::io::Cursor::new(said), &tasks);
        let kept = tail.last().await;
        assert_eq!(kept.len(), KEPT);
        assert!(kept.ends_with("xthe end"));
    }
}
