//! Messages in and out, and all the ways in which a connection ends.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::metered::MeteredIo;
use crate::{
    api::bodies::{Bodies, BodyShare},
    keys::KeyHash,
};

/// Between two pings while nothing is asked. A client that answers none of two is gone.
const PING: Duration = Duration::from_secs(30);

/// How long the other side may take to close, too.
const CLOSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct SocketLimits {
    /// Bytes of one message.
    pub(super) message: usize,
    /// Without a request.
    pub(super) idle: Duration,
    /// A client that takes nothing.
    pub(super) stall: Duration,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketEnd {
    /// The client closed it, or is not there any more.
    Left,
    /// It takes nothing.
    Stalled,
    Idle,
    /// The program ends, or others need the place.
    Asked,
    TooLarge,
    /// Too much is being sent by all together.
    NoRoom,
    /// It sent a message that is not text.
    NoText,
}

/// One message.
pub(super) struct SocketRequest {
    pub(super) text: Utf8Bytes,
    /// What it counts for in memory. It can be evicted.
    pub(super) share: BodyShare,
}

enum SocketInput {
    Text(SocketRequest),
    /// It is alive.
    Sign,
}

/// What waits for the answer before it.
enum QueuedRequest {
    Nothing,
    Request(SocketRequest),
    /// A request that was evicted from memory meanwhile.
    Evicted,
}

pub(super) struct RequestSocket {
    socket: WebSocketStream<MeteredIo<TokioIo<Upgraded>>>,
    limits: SocketLimits,
    /// A request that came while another was answered. While there is one, nothing is read.
    queued: QueuedRequest,
}

impl RequestSocket {
    pub(super) async fn new(
        io: TokioIo<Upgraded>,
        limits: SocketLimits,
        bodies: Arc<Bodies>,
        key: KeyHash,
    ) -> Self {
        let io = MeteredIo::new(io, bodies, key);
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits.message))
            .max_frame_size(Some(limits.message));
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Self { socket, limits, queued: QueuedRequest::Nothing }
    }

    /// The next request. `leave` ends when there should be none.
    pub(super) async fn next(
        &mut self,
        leave: impl Future<Output = ()>,
    ) -> Result<SocketRequest, SocketEnd> {
        match std::mem::replace(&mut self.queued, QueuedRequest::Nothing) {
            QueuedRequest::Nothing => {}
            QueuedRequest::Request(queued) => return Ok(queued),
            QueuedRequest::Evicted => return Err(SocketEnd::NoRoom),
        }
        let mut leave = pin!(leave);
        let mut idle = pin!(sleep(self.limits.idle));
        let mut ping = pin!(sleep(PING));
        let mut silent = false;
        loop {
            tokio::select! {
                heard = self.hear() => match heard? {
                    SocketInput::Text(said) => return Ok(said),
                    SocketInput::Sign => silent = false,
                },
                () = leave.as_mut() => return Err(SocketEnd::Asked),
                () = idle.as_mut() => return Err(SocketEnd::Idle),
                () = ping.as_mut() => {
                    if silent {
                        return Err(SocketEnd::Left);
                    }
                    silent = true;
                    self.ping().await?;
                    ping.as_mut().reset(Instant::now() + PING);
                }
            }
        }
    }

    /// Waits for a future, and notices if the client disconnects meanwhile.
    pub(super) async fn until<F: Future>(&mut self, wait: F) -> Result<F::Output, SocketEnd> {
        let mut wait = pin!(wait);
        loop {
            match &self.queued {
                QueuedRequest::Nothing => tokio::select! {
                    biased;
                    done = wait.as_mut() => return Ok(done),
                    heard = self.hear() => match heard? {
                        SocketInput::Text(said) => self.queued = QueuedRequest::Request(said),
                        SocketInput::Sign => {}
                    },
                },
                QueuedRequest::Request(said) => tokio::select! {
                    biased;
                    done = wait.as_mut() => return Ok(done),
                    () = said.share.evicted() => self.queued = QueuedRequest::Evicted,
                },
                QueuedRequest::Evicted => return Ok(wait.await),
            }
        }
    }

    async fn hear(&mut self) -> Result<SocketInput, SocketEnd> {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let share = self.socket.get_mut().whole(text.len());
                // A message that waits must not keep others from being read.
                let share = share.and_then(|mut share| share.wait(text.len()).ok().map(|()| share));
                let share = share.ok_or(SocketEnd::NoRoom)?;
                Ok(SocketInput::Text(SocketRequest { text, share }))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                self.socket.get_mut().sign();
                Ok(SocketInput::Sign)
            }
            Some(Ok(Message::Binary(_))) => Err(SocketEnd::NoText),
            Some(Err(Error::Capacity(_))) => Err(SocketEnd::TooLarge),
            Some(Err(Error::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                Err(SocketEnd::NoRoom)
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => Err(SocketEnd::Left),
        }
    }

    /// Sends messages.
    pub(super) async fn say(
        &mut self,
        texts: impl IntoIterator<Item = String>,
    ) -> Result<(), SocketEnd> {
        let socket = &mut self.socket;
        let said = async {
            for text in texts {
                socket.feed(Message::text(text)).await?;
            }
            socket.flush().await
        };
        taken(timeout(self.limits.stall, said).await)
    }

    pub(super) async fn ping(&mut self) -> Result<(), SocketEnd> {
        let ping = self.socket.send(Message::Ping(bytes::Bytes::new()));
        taken(timeout(self.limits.stall, ping).await)
    }

    /// Sends the reason, and waits a moment for the other side to read it.
    pub(super) async fn close(mut self, gone: SocketEnd) {
        let (code, reason) = match gone {
            SocketEnd::Left | SocketEnd::Stalled => return,
            SocketEnd::Idle => (CloseCode::Normal, "the connection was idle for too long"),
            SocketEnd::Asked => {
                (CloseCode::Away, "the gateway needs the connection for other clients")
            }
            SocketEnd::TooLarge => (CloseCode::Size, "the message is too large"),
            SocketEnd::NoRoom => (CloseCode::Again, "the memory for request bodies is full"),
            SocketEnd::NoText => (CloseCode::Unsupported, "send JSON as text messages"),
        };
        let frame = CloseFrame { code, reason: reason.into() };
        let until = Instant::now() + CLOSE;
        let closed = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        tokio::select! {
            () = closed => {}
            () = sleep_until(until) => {}
        }
    }
}

fn taken<E>(sent: Result<Result<(), Error>, E>) -> Result<(), SocketEnd> {
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(SocketEnd::Left),
        Err(_elapsed) => Err(SocketEnd::Stalled),
    }
}
