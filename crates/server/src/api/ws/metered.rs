//! Counts what comes in as the bodies of requests are counted, so that messages that never
//! end cannot have more memory than those.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    api::bodies::{Bodies, BodyShare},
    keys::KeyHash,
};

/// The most bytes of an answer to a ping, which is not a message.
const SIGN: usize = 512;

pub(super) struct MeteredIo<I> {
    io: I,
    bodies: Arc<Bodies>,
    /// Of the client.
    key: KeyHash,
    coming: Option<PendingMessage>,
}

/// What came since the last message was whole.
struct PendingMessage {
    share: BodyShare,
    bytes: usize,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<I> MeteredIo<I> {
    pub(super) fn new(io: I, bodies: Arc<Bodies>, key: KeyHash) -> Self {
        Self { io, bodies, key, coming: None }
    }

    /// A message of that length is whole. Returns its share of the memory, or none if it was
    /// evicted.
    pub(super) fn whole(&mut self, length: usize) -> Option<BodyShare> {
        // Two that come together are counted with the first.
        if self.coming.is_none() {
            self.count(length).ok()?;
        }
        let PendingMessage { mut share, .. } = self.coming.take()?;
        share.complete().is_ok().then_some(share)
    }

    /// Something came that is not part of a message.
    pub(super) fn sign(&mut self) {
        if self.coming.as_ref().is_some_and(|coming| coming.bytes <= SIGN) {
            self.coming = None;
        }
    }

    fn count(&mut self, bytes: usize) -> io::Result<()> {
        let (bodies, key) = (&self.bodies, self.key);
        let coming = self.coming.get_or_insert_with(|| {
            let share = bodies.begin(key);
            let evicted = Box::pin(share.eviction());
            PendingMessage { share, bytes: 0, evicted }
        });
        coming.bytes += bytes;
        coming.share.grow(bytes).map_err(|_| no_room())
    }
}

fn no_room() -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

impl<I: AsyncRead + Unpin> AsyncRead for MeteredIo<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(coming) = &mut this.coming
            && coming.evicted.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(no_room()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buffer))?;
        match buffer.filled().len().saturating_sub(before) {
            0 => Poll::Ready(Ok(())),
            bytes => Poll::Ready(this.count(bytes)),
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for MeteredIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const KEY: KeyHash = [1; 32];

    #[tokio::test]
    async fn received_bytes_count_until_the_message_is_used() {
        let bodies = Bodies::new(2000);
        let (mut client, server) = duplex(4096);
        let mut metered = MeteredIo::new(server, Arc::clone(&bodies), KEY);
        client.write_all(&[0; 1000]).await.unwrap();
        metered.read_exact(&mut [0; 1000]).await.unwrap();
        assert_eq!((bodies.health().reading, bodies.health().bytes), (1, 1000));
        let share = metered.whole(990).unwrap();
        assert_eq!((bodies.health().reading, bodies.health().bytes), (0, 1000));
        // The same again does not fit while the first is in use.
        client.write_all(&[0; 1001]).await.unwrap();
        let error = metered.read_exact(&mut [0; 1001]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(metered.whole(1001).is_none());
        let second = metered.whole(20).unwrap();
        assert_eq!(bodies.health().bytes, 1020);
        drop((share, second));
        assert_eq!(bodies.health().bytes, 0);
    }

    #[tokio::test]
    async fn idle_evicted_socket_is_notified() {
        let bodies = Bodies::new(1000);
        let (mut client, server) = duplex(4096);
        let mut metered = MeteredIo::new(server, Arc::clone(&bodies), KEY);
        client.write_all(&[0; 900]).await.unwrap();
        metered.read_exact(&mut [0; 900]).await.unwrap();
        let mut other = bodies.begin(KEY);
        let mut byte = [0];
        let (error, grown) = tokio::join!(metered.read(&mut byte), async { other.grow(200) });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(grown, Ok(()));
    }

    #[tokio::test]
    async fn pong_is_not_a_message() {
        let bodies = Bodies::new(1000);
        let (mut client, server) = duplex(4096);
        let mut metered = MeteredIo::new(server, Arc::clone(&bodies), KEY);
        client.write_all(&[0; 6]).await.unwrap();
        metered.read_exact(&mut [0; 6]).await.unwrap();
        metered.sign();
        assert_eq!(bodies.health().reading, 0);
    }
}
