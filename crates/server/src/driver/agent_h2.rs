//! `Run`: one HTTP/2 stream, both ways at once.
//!
//! Neither half needs a task. Sending hands the message to `h2` once the peer's
//! window has any room, so at most one message waits in memory; receiving gives the
//! window back as the bytes are taken, so a reader that pauses stops the peer. What came until
//! then is held here: in the queue of `h2` a word of a model costs 250 bytes, and the connection
//! keeps the longest queue that it ever had.

use std::{
    convert::Infallible,
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use h2::{FlowControl, Reason, RecvStream, SendStream, client::ResponseFuture};
use http::{Method, Request, Version, response::Parts};
use ibeam_core::peer::LinkError;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    agent::{AgentLink, AgentReceiver, AgentSender, OpenStream as Open},
    errors,
    fallback::Fallback,
    headers,
};
use crate::net::{
    connect::{DialError, Host},
    pool::{Asleep, Beat, Lease, Pool, PoolError, PooledStream},
};

const RUN: &str = "/agent.v1.AgentService/Run";

/// Frames smaller than this are given out together, up to about so much at once.
const GATHER_BELOW: usize = 4 * 1024;
const GATHER_TO: usize = 16 * 1024;

/// As much may be unread before someone looks: two heartbeats of a peer that waits for us.
/// What it may ask for meanwhile is longer.
const SIGNS_OF_LIFE: usize = 18;

/// Why a stream did not even begin.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The host does not speak HTTP/2.
    NotH2(String),
    /// The connection did not open in time.
    TooSlow,
    /// There is no way to the host.
    Unreachable(LinkError),
    Link(LinkError),
}

/// What both halves share.
#[derive(Debug)]
struct Http2Shared {
    send: Mutex<SendStream<Bytes>>,
    /// `h2` wakes one waiter per stream, so senders wait in line here.
    line: tokio::sync::Mutex<()>,
    cancelled: CancellationToken,
    /// Last, so that the place is free only when the stream is gone.
    lease: Lease,
}

#[derive(Debug)]
pub struct Http2Sender {
    shared: Arc<Http2Shared>,
}

#[derive(Debug)]
pub struct Http2Receiver {
    state: Http2State,
    /// What came while nobody read. Its share of the window is not given back yet.
    held: BytesMut,
    shared: Arc<Http2Shared>,
    fallback: Arc<Fallback>,
}

#[derive(Debug)]
enum Http2State {
    Head(ResponseFuture),
    /// The answer is a refusal; its body says why.
    Refusal {
        head: Box<Parts>,
        body: RecvStream,
        text: BytesMut,
        until: Instant,
    },
    /// With the error that its head names, as long as nothing came.
    Body(RecvStream, Option<Box<LinkError>>),
    Over,
}

pub(super) async fn open(
    pool: &Pool,
    host: &Host,
    profile: &headers::ClientProfile,
    open: &Open,
    fallback: Arc<Fallback>,
) -> Result<AgentLink, OpenError> {
    let ids = headers::CallHeaders {
        request: &open.request_id,
        original: Some(&open.original_request_id),
        allowed_tools: Some(&open.peer.allowed_tools),
    };
    let headers = profile
        .headers(headers::CallKind::Bidi, &open.token, ids)
        .map_err(|error| OpenError::Link(LinkError::Connect(error.to_string())))?;
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = host.uri(RUN);
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    let PooledStream { response, send, lease } =
        pool.open(&request).await.map_err(|error| match error {
            PoolError::Dial(DialError::NotH2(why)) => OpenError::NotH2(why),
            PoolError::Dial(DialError::Timeout) => OpenError::TooSlow,
            PoolError::Dial(error) => OpenError::Unreachable(errors::dial_error(&error)),
            other @ (PoolError::Full(_) | PoolError::Request(_)) => {
                OpenError::Link(errors::pool_error(&other))
            }
        })?;
    let shared = Arc::new(Http2Shared {
        send: Mutex::new(send),
        line: tokio::sync::Mutex::new(()),
        cancelled: CancellationToken::new(),
        lease,
    });
    let sender = Http2Sender { shared: Arc::clone(&shared) };
    let receiver = Http2Receiver {
        state: Http2State::Head(response),
        held: BytesMut::new(),
        shared,
        fallback,
    };
    Ok(AgentLink { tx: AgentSender::H2(sender), rx: AgentReceiver::H2(receiver) })
}

impl Http2Shared {
    fn cancel(&self) {
        self.send.lock().send_reset(Reason::CANCEL);
        self.cancelled.cancel();
    }

    /// The peer is done, so nothing we could still say matters to it.
    fn finish(&self) {
        // It fails when the stream is closed already, which is as good.
        let _ = self.send.lock().send_data(Bytes::new(), true);
    }
}

impl Http2Sender {
    pub(super) async fn send(&self, framed: Bytes) -> Result<(), LinkError> {
        let _turn = self.shared.line.lock().await;
        let mut framed = Some(framed);
        let written = poll_fn(|cx| {
            let mut send = self.shared.send.lock();
            // A window that is shut hides a reset, so look for that as well.
            if let Poll::Ready(reset) = send.poll_reset(cx) {
                return Poll::Ready(Err(match reset {
                    Ok(reason) => LinkError::Reset(format!("stream is over: {reason:?}")),
                    Err(error) => errors::h2_after_answer(&error),
                }));
            }
            send.reserve_capacity(1);
            while send.capacity() == 0 {
                match ready!(send.poll_capacity(cx)) {
                    Some(Ok(0)) => {}
                    Some(Ok(_)) => break,
                    Some(Err(error)) => return Poll::Ready(Err(errors::h2_after_answer(&error))),
                    None => return Poll::Ready(Err(over())),
                }
            }
            let sent = framed.take().map_or(Ok(()), |framed| send.send_data(framed, false));
            Poll::Ready(sent.map_err(|error| errors::h2_after_answer(&error)))
        });
        tokio::select! {
            biased;
            written = written => written,
            // A reset of our own does not wake who waits for the window.
            () = self.shared.cancelled.cancelled() => Err(over()),
        }
    }

    pub(super) fn cancel(&self) {
        self.shared.cancel();
    }
}

/// What the connection does for a stream that nobody attends to.
#[derive(Debug)]
struct Pulse {
    shared: Weak<Http2Shared>,
    /// Sent again and again.
    framed: Bytes,
    unread: FlowControl,
    called: Arc<Notify>,
}

impl Beat for Pulse {
    fn beat(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        // Whoever waits to send looks for resets itself, and must not lose its place.
        let Ok(_turn) = shared.line.try_lock() else { return };
        let mut send = shared.send.lock();
        if send.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready()
            || self.unread.used_capacity() > SIGNS_OF_LIFE
        {
            self.called.notify_one();
            return;
        }
        send.reserve_capacity(1);
        // A peer that takes nothing has heard enough.
        if send.capacity() > 0 {
            let _ = send.send_data(self.framed.clone(), false);
        }
    }
}

impl Http2Receiver {
    /// Leaves the stream to the connection, which repeats this message, and says when
    /// there is more to read than a peer sends that only waits. Not before there is a body.
    pub(super) fn sleep(&mut self, framed: Bytes) -> Option<(Asleep, Arc<Notify>)> {
        let Http2State::Body(body, _) = &mut self.state else { return None };
        let (unread, called) = (body.flow_control().clone(), Arc::default());
        let shared = Arc::downgrade(&self.shared);
        let pulse = Pulse { shared, framed, unread, called: Arc::clone(&called) };
        Some((self.shared.lease.sleep(Arc::new(pulse)), called))
    }

    /// Takes what arrives out of the connection's queue, for [`Self::next`]. The window bounds how
    /// much that is.
    pub(super) async fn hold(&mut self) -> Infallible {
        poll_fn(|cx| {
            if let Http2State::Body(body, _) = &mut self.state {
                // An end or an error is not lost: `next` finds it again.
                while let Poll::Ready(Some(Ok(chunk))) = body.poll_data(cx) {
                    self.held.extend_from_slice(&chunk);
                }
            }
            Poll::Pending
        })
        .await
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        let item = self.advance().await;
        if !matches!(item, Some(Ok(_))) {
            self.state = Http2State::Over;
        }
        item
    }

    /// Every step leaves its result in `self` before the next wait, so that this may
    /// be dropped at any of them.
    async fn advance(&mut self) -> Option<Result<Bytes, LinkError>> {
        loop {
            match &mut self.state {
                Http2State::Head(response) => match response.await {
                    Ok(response) if response.status() == http::StatusCode::OK => {
                        let silent = errors::silent_error(response.headers()).map(Box::new);
                        self.state = Http2State::Body(response.into_body(), silent);
                    }
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        let until = Instant::now() + errors::REFUSAL_WAIT;
                        let text = BytesMut::new();
                        self.state =
                            Http2State::Refusal { head: Box::new(head), body, text, until };
                    }
                    Err(error) => {
                        if errors::wants_http1(&error) {
                            self.fallback.remember("HTTP_1_1_REQUIRED");
                        }
                        return Some(Err(errors::h2_before_answer(&error)));
                    }
                },
                Http2State::Refusal { head, body, text, until } => {
                    if let Ok(Some(Ok(chunk))) = timeout_at(*until, body.data()).await
                        && text.len() + chunk.len() <= errors::REFUSAL_BODY
                    {
                        let _ = body.flow_control().release_capacity(chunk.len());
                        text.extend_from_slice(&chunk);
                        continue;
                    }
                    let error = refusal(head, text, &self.fallback);
                    self.shared.cancel();
                    return Some(Err(error));
                }
                Http2State::Body(body, silent) if !self.held.is_empty() => {
                    *silent = None;
                    let chunk = self.held.split_to(self.held.len().min(GATHER_TO)).freeze();
                    if self.held.is_empty() {
                        self.held = BytesMut::new();
                    }
                    let _ = body.flow_control().release_capacity(chunk.len());
                    return Some(Ok(chunk));
                }
                Http2State::Body(body, silent) => {
                    return match poll_fn(|cx| gather(body, cx)).await {
                        Some(Ok(chunk)) => {
                            *silent = None;
                            Some(Ok(chunk))
                        }
                        // "I need no more input", after an answer that is complete.
                        Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
                        Some(Err(error)) => Some(Err(errors::h2_after_answer(&error))),
                        None => {
                            self.shared.finish();
                            silent.take().map(|error| Err(*error))
                        }
                    };
                }
                Http2State::Over => return None,
            }
        }
    }
}

/// The next bytes, together with what else has arrived. A model's text comes in tiny
/// frames; taken one by one, each would cost its reader a whole round.
fn gather(body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
    let first = match ready!(take(body, cx)) {
        Some(Ok(chunk)) if chunk.len() < GATHER_BELOW => chunk,
        other => return Poll::Ready(other),
    };
    let mut all = BytesMut::new();
    // An end or an error is not lost: the next call finds it again.
    while all.len() < GATHER_TO
        && let Poll::Ready(Some(Ok(chunk))) = take(body, cx)
    {
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&chunk);
    }
    Poll::Ready(Some(Ok(if all.is_empty() { first } else { all.freeze() })))
}

/// Takes one frame, and gives its share of the window back.
fn take(body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
    let taken = ready!(body.poll_data(cx));
    if let Some(Ok(chunk)) = &taken {
        // Fails only when the stream is closed, and then it is moot.
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    Poll::Ready(taken)
}

impl Drop for Http2Receiver {
    fn drop(&mut self) {
        if !matches!(self.state, Http2State::Over) {
            self.shared.cancel();
        }
    }
}

fn refusal(head: &Parts, text: &[u8], fallback: &Fallback) -> LinkError {
    let why = format!("HTTP status {}", head.status.as_u16());
    if errors::wrong_protocol(head.status) && fallback.remember(&why) {
        return LinkError::Refused(why);
    }
    errors::status_error(head.status, &head.headers, text)
}

fn over() -> LinkError {
    LinkError::Reset("stream is over".to_owned())
}

#[cfg(test)]
#[path = "agent_h2_tests.rs"]
mod tests;
