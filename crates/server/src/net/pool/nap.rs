//! A connection on which every stream is asleep reads once a second, and not for every
//! sign of life that the peer sends on one of them. And one that has much to read lets the readers
//! of its streams have it in between: `h2` needs many times the memory for frames that wait, and
//! keeps it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::Gauge;
use crate::net::connect::Io;

/// The peer's pings wait no longer than this for their answer.
const LENGTH: Duration = Duration::from_secs(1);

/// How much is read before other streams get their turn.
const BURST: usize = 64 * 1024;

/// The bytes of a connection, read only now and then while it naps.
#[derive(Debug)]
pub(super) struct Napping<T = Io> {
    io: T,
    gauge: Arc<Gauge>,
    /// All naps of a pool end together: one wake-up serves hundreds of connections.
    epoch: Instant,
    nap: Pin<Box<Sleep>>,
    /// Bytes since the last pause.
    burst: usize,
}

impl<T: AsyncRead + Unpin> Napping<T> {
    pub(super) fn new(io: T, gauge: Arc<Gauge>, epoch: Instant) -> Self {
        Self { io, gauge, epoch, nap: Box::pin(tokio::time::sleep(Duration::ZERO)), burst: 0 }
    }

    /// Looks once per nap, and asks the socket for no wake-up in between.
    fn poll_now_and_then(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.nap.as_mut().poll(cx));
        let read = Pin::new(&mut self.io).poll_read(&mut Context::from_waker(Waker::noop()), buf);
        if read.is_pending() {
            let naps = self.epoch.elapsed().as_secs() / LENGTH.as_secs() + 1;
            let end = self.epoch + Duration::from_secs(naps * LENGTH.as_secs());
            self.nap.as_mut().reset(end);
            // A timer wakes its task only after it was polled.
            let _ = self.nap.as_mut().poll(cx);
        }
        read
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Napping<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.gauge.naps(cx.waker()) {
            return self.poll_now_and_then(cx, buf);
        }
        if self.burst >= BURST {
            self.burst = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        self.burst = if read.is_ready() { self.burst + buf.filled().len() - before } else { 0 };
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Napping<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    use super::{
        super::beats::{Asleep, Beat},
        *,
    };

    #[derive(Debug)]
    struct Silent;

    impl Beat for Silent {
        fn beat(&self) {}
    }

    fn asleep(gauge: &Arc<Gauge>) -> Asleep {
        Asleep::new(gauge, Arc::new(Silent))
    }

    #[tokio::test]
    async fn read_yields_after_a_burst() {
        let (ours, mut theirs) = tokio::io::duplex(4 * BURST);
        theirs.write_all(&vec![7; 2 * BURST]).await.unwrap();
        let mut io = Napping::new(ours, Arc::default(), Instant::now());
        let mut piece = vec![0; BURST / 2];
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = || {
            let mut piece = ReadBuf::new(&mut piece);
            Pin::new(&mut io).poll_read(&mut cx, &mut piece).map(|_| piece.filled().len())
        };
        for _ in 0..2 {
            assert_eq!(read(), Poll::Ready(BURST / 2));
            assert_eq!(read(), Poll::Ready(BURST / 2));
            assert_eq!(read(), Poll::Pending);
        }
        assert_eq!(read(), Poll::Pending, "there is no more");
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_paced_while_all_streams_sleep() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let gauge = Arc::new(Gauge::default());
        gauge.load.store(2, std::sync::atomic::Ordering::Relaxed);
        let epoch = Instant::now();
        let mut io = Napping::new(ours, Arc::clone(&gauge), epoch);
        let mut byte = [0];

        let one = asleep(&gauge);
        theirs.write_all(b"a").await.unwrap();
        io.read_exact(&mut byte).await.unwrap();
        assert_eq!(epoch.elapsed(), Duration::ZERO, "one is awake");

        let two = asleep(&gauge);
        assert!(timeout(Duration::from_millis(1), io.read(&mut byte)).await.is_err());
        theirs.write_all(b"b").await.unwrap();
        io.read_exact(&mut byte).await.unwrap();
        assert_eq!(epoch.elapsed(), LENGTH);

        assert!(timeout(Duration::from_millis(1), io.read(&mut byte)).await.is_err());
        theirs.write_all(b"c").await.unwrap();
        let wake = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(two);
        };
        let (read, ()) = tokio::join!(io.read_exact(&mut byte), wake);
        read.unwrap();
        assert_eq!(epoch.elapsed(), LENGTH + Duration::from_millis(301));
        drop(one);
    }
}
