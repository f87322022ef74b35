//! `RunSSE` with `BidiAppend`: the same conversation over HTTP/1.1. One long answer
//! carries what the server says, one small request each what we say.
//!
//! Of the wire forms seen to work we use those that one client ran together: Connect
//! framing on the long answer, JSON with hex data on the appends.
//!
//! *Invariant:* appends are sent one after the other and never twice. When an answer
//! is lost, nobody knows whether the message arrived, so the stream ends instead.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use ibeam_core::{codec::connect, model::ids, peer::LinkError};
use ibeam_proto::aiserver::BidiRequestId;
use secrecy::SecretString;
use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    agent::{AgentLink, AgentReceiver, AgentSender, OpenStream as Open},
    errors,
    fallback::Fallback,
    headers,
};
use crate::{
    auth::AccessTokens,
    net::{
        connect::Host,
        http::{Bounds, HttpClient, HttpError},
    },
    tasks::Tasks,
};

const RUN_SSE: &str = "/agent.v1.AgentService/RunSSE";
const BIDI_APPEND: &str = "/aiserver.v1.BidiService/BidiAppend";

/// Messages that wait for their append. A sender waits when it is full.
const APPENDS_CAP: usize = 16;
/// How long a message waits for a newer token than its stream has.
const FRESHEN: Duration = Duration::from_secs(1);
const APPEND: Bounds = Bounds { timeout: Duration::from_secs(30), max_body: 64 * 1024 };
/// How long a cancelled stream may still deliver what was sent before: the cancel
/// message is usually the last of it.
const DRAIN: Duration = Duration::from_secs(2);
/// How long the reader may take to find the end of a stream that the server no
/// longer knows.
const END_WAIT: Duration = Duration::from_secs(2);
/// The bytes of a frame before its message.
const FRAME_HEADER: usize = 5;

/// What is needed to open such streams.
#[derive(Clone, Debug)]
pub(super) struct Http1 {
    pub(super) client: HttpClient,
    pub(super) host: Host,
    pub(super) profile: Arc<headers::ClientProfile>,
    pub(super) tasks: Tasks,
    pub(super) streams: Arc<AtomicUsize>,
    pub(super) fallback: Arc<Fallback>,
}

#[derive(Debug)]
pub struct Http1Sender {
    queue: mpsc::Sender<Bytes>,
    cancelled: CancellationToken,
}

#[derive(Debug)]
pub struct Http1Receiver {
    state: Http1State,
    /// An append failed. Gone once there will be no more appends.
    failed: Option<oneshot::Receiver<LinkError>>,
    cancelled: CancellationToken,
    fallback: Arc<Fallback>,
    /// Ends the appends when nobody reads any more.
    reading: Option<DropGuard>,
}

#[derive(Debug)]
enum Http1State {
    Head(oneshot::Receiver<Result<Response<Incoming>, HttpError>>),
    /// The answer is a refusal; its body says why.
    Refusal {
        response: Box<Response<Incoming>>,
        text: BytesMut,
        until: Instant,
    },
    /// With the error that its head names, as long as nothing came.
    Body(Incoming, Option<Box<LinkError>>),
    /// There will be no answer, because an append failed; that failure is on its way.
    Lost,
    Over,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendBody<'a> {
    data: String,
    request_id: AppendId<'a>,
    /// 64-bit numbers are strings in the JSON form of protobuf.
    append_seqno: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendId<'a> {
    request_id: &'a str,
}

/// One stream's appends.
struct Appender {
    http1: Http1,
    token: SecretString,
    /// Newer tokens, as long as they are of the same account.
    tokens: Option<(AccessTokens, String)>,
    stream: String,
    original: String,
    allowed_tools: String,
    next: u64,
}

impl Http1 {
    pub(super) fn open(&self, open: Open) -> Result<AgentLink, LinkError> {
        let request = self.run_request(&open)?;
        let (queue, queued) = mpsc::channel(APPENDS_CAP);
        let (answer, head) = oneshot::channel();
        let (fail, failed) = oneshot::channel();
        let (cancelled, over) = (CancellationToken::new(), CancellationToken::new());
        let appender = Appender {
            http1: self.clone(),
            token: open.token,
            tokens: open.tokens.map(|tokens| (tokens.clone(), tokens.account())),
            stream: open.request_id,
            original: open.original_request_id,
            allowed_tools: open.peer.allowed_tools,
            next: 0,
        };
        let signals = StreamSignals { cancelled: cancelled.clone(), over: over.clone() };
        let open = CountedStream::new(&self.streams);
        let client = self.client.clone();
        self.tasks.spawn("http1 stream", async move {
            // Its own place in the count, until the appends are done as well.
            let _open = open;
            let run = async move {
                // Fails only when the receiver is gone.
                let _ = answer.send(client.send(request).await);
            };
            serve(run, appender, queued, fail, signals).await;
        });
        let sender = Http1Sender { queue, cancelled: cancelled.clone() };
        let receiver = Http1Receiver {
            state: Http1State::Head(head),
            failed: Some(failed),
            cancelled,
            fallback: Arc::clone(&self.fallback),
            reading: Some(over.drop_guard()),
        };
        Ok(AgentLink { tx: AgentSender::H1(sender), rx: AgentReceiver::H1(receiver) })
    }

    fn run_request(&self, open: &Open) -> Result<Request<Bytes>, LinkError> {
        let stream = BidiRequestId { request_id: open.request_id.clone() };
        self.request(
            RUN_SSE,
            headers::CallKind::ServerStream,
            &open.token,
            headers::CallHeaders {
                request: &open.request_id,
                original: Some(&open.original_request_id),
                allowed_tools: Some(&open.peer.allowed_tools),
            },
            connect::encode(&stream),
        )
    }

    fn request(
        &self,
        path: &str,
        call: headers::CallKind,
        token: &SecretString,
        ids: headers::CallHeaders<'_>,
        body: Bytes,
    ) -> Result<Request<Bytes>, LinkError> {
        let headers = self
            .profile
            .headers(call, token, ids)
            .map_err(|error| LinkError::Connect(error.to_string()))?;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.host.uri(path);
        *request.headers_mut() = headers;
        Ok(request)
    }
}

struct StreamSignals {
    /// The turn is no longer wanted.
    cancelled: CancellationToken,
    /// Nobody reads the answer any more.
    over: CancellationToken,
}

/// Runs the long request and the appends beside it. The first is polled first, so
/// that the stream is asked for before anything is put on it.
async fn serve(
    run: impl Future<Output = ()>,
    mut appender: Appender,
    mut queued: mpsc::Receiver<Bytes>,
    fail: oneshot::Sender<LinkError>,
    signals: StreamSignals,
) {
    let StreamSignals { cancelled, over } = signals;
    let mut run = pin!(run);
    let mut appends = pin!(appender.pump(&mut queued, &cancelled));
    let mut answered = false;
    loop {
        tokio::select! {
            biased;
            () = &mut run, if !answered => answered = true,
            () = cancelled.cancelled() => break,
            () = over.cancelled() => break,
            result = &mut appends => {
                if let Err(error) = result {
                    let _ = fail.send(error);
                    return;
                }
                // No more input. The answer is still to come, or to be read.
                if !answered {
                    tokio::select! {
                        () = &mut run => {}
                        () = cancelled.cancelled() => {}
                        () = over.cancelled() => {}
                    }
                }
                return;
            }
        }
    }
    // Both may be set, one right after the other; the cancel message then counts.
    if cancelled.is_cancelled() {
        let _ = timeout(DRAIN, appends).await;
    }
}

impl Appender {
    /// Sends what is queued, in order, until there will be no more.
    async fn pump(
        &mut self,
        queued: &mut mpsc::Receiver<Bytes>,
        cancelled: &CancellationToken,
    ) -> Result<(), LinkError> {
        loop {
            let framed = tokio::select! {
                biased;
                framed = queued.recv() => framed,
                () = cancelled.cancelled() => None,
            };
            let Some(framed) = framed else { return Ok(()) };
            self.append(&framed).await?;
        }
    }

    /// A stream may run for longer than the token lives that it was opened with. A renewal
    /// that takes its time goes on by itself, and serves the next message.
    async fn freshen(&mut self) {
        let Some((tokens, account)) = &self.tokens else { return };
        // Without another one, the backend says what this one is worth.
        if let Ok(Ok(token)) = timeout(FRESHEN, tokens.current()).await
            && tokens.account() == *account
        {
            self.token = token;
        }
    }

    async fn append(&mut self, framed: &Bytes) -> Result<(), LinkError> {
        let message = framed.get(FRAME_HEADER..).unwrap_or_default();
        let seqno = self.next;
        self.next += 1;
        let body = AppendBody {
            data: ids::hex(message),
            request_id: AppendId { request_id: &self.stream },
            append_seqno: seqno.to_string(),
        };
        let body = serde_json::to_vec(&body)
            .map_err(|error| LinkError::Reset(format!("append cannot be written: {error}")))?;
        self.freshen().await;
        let request = self.http1.request(
            BIDI_APPEND,
            headers::CallKind::Json,
            &self.token,
            headers::CallHeaders {
                request: &crate::random::uuid(),
                original: Some(&self.original),
                allowed_tools: Some(&self.allowed_tools),
            },
            body.into(),
        )?;
        match self.http1.client.call(request, APPEND).await {
            Ok(response) if response.status() == StatusCode::OK => Ok(()),
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers());
                // The run itself was accepted, so later ones say something about the
                // stream only, unless they are about the account.
                if seqno == 0 || matches!(status.as_u16(), 401 | 403 | 429) {
                    return Err(errors::status_error(status, headers, response.body()));
                }
                if status == StatusCode::NOT_FOUND {
                    // The stream may have ended meanwhile. Its reader then finds the
                    // end, and this is not waited for any longer.
                    sleep(END_WAIT).await;
                }
                Err(LinkError::Reset(format!("append {seqno}: HTTP status {}", status.as_u16())))
            }
            // Only of the first one is it certain that the turn has not begun.
            Err(error) if seqno == 0 => Err(errors::http_error(&error)),
            Err(error) => Err(LinkError::Reset(format!("append {seqno}: {error}"))),
        }
    }
}

impl Http1Sender {
    pub(super) async fn send(&self, framed: Bytes) -> Result<(), LinkError> {
        let over = || LinkError::Reset("stream is over".to_owned());
        if self.cancelled.is_cancelled() {
            return Err(over());
        }
        self.queue.send(framed).await.map_err(|_| over())
    }

    pub(super) fn cancel(&self) {
        self.cancelled.cancel();
    }
}

impl Http1Receiver {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        let (cancel, running) = (self.cancelled.clone(), !matches!(self.state, Http1State::Over));
        let item = tokio::select! {
            biased;
            () = cancel.cancelled(), if running => {
                Some(Err(LinkError::Reset("cancelled by us".to_owned())))
            }
            item = advance(&mut self.state, &self.fallback) => item,
            error = failure(&mut self.failed), if running => Some(Err(error)),
        };
        if !matches!(item, Some(Ok(_))) {
            // Drops the answer's body, and with it the connection.
            self.state = Http1State::Over;
            self.reading = None;
        }
        item
    }
}

/// Waits for a failed append, for ever when there is none.
async fn failure(failed: &mut Option<oneshot::Receiver<LinkError>>) -> LinkError {
    if let Some(waiting) = failed {
        let told = waiting.await;
        // It must not be asked again, whatever it said.
        *failed = None;
        if let Ok(error) = told {
            return error;
        }
    }
    std::future::pending().await
}

/// Every step leaves its result in `state` before the next wait, so that this may be
/// dropped at any of them.
async fn advance(state: &mut Http1State, fallback: &Fallback) -> Option<Result<Bytes, LinkError>> {
    loop {
        match state {
            Http1State::Head(head) => match head.await {
                Ok(Ok(response)) if response.status() == StatusCode::OK => {
                    let silent = errors::silent_error(response.headers()).map(Box::new);
                    *state = Http1State::Body(response.into_body(), silent);
                }
                Ok(Ok(response)) => {
                    let until = Instant::now() + errors::REFUSAL_WAIT;
                    let (response, text) = (Box::new(response), BytesMut::new());
                    *state = Http1State::Refusal { response, text, until };
                }
                Ok(Err(error)) => {
                    // Then it is not HTTP/2 that the network does not let through.
                    if matches!(error, HttpError::Dial(_)) {
                        fallback.forget();
                    }
                    return Some(Err(errors::http_error(&error)));
                }
                Err(_) => *state = Http1State::Lost,
            },
            Http1State::Refusal { response, text, until } => {
                let frame = timeout_at(*until, response.body_mut().frame()).await;
                if let Ok(Some(Ok(frame))) = frame
                    && let Ok(chunk) = frame.into_data()
                    && text.len() + chunk.len() <= errors::REFUSAL_BODY
                {
                    text.extend_from_slice(&chunk);
                    continue;
                }
                let status = response.status();
                if errors::wrong_protocol(status) && fallback.forget() {
                    let why = format!("HTTP status {}", status.as_u16());
                    return Some(Err(LinkError::Refused(why)));
                }
                return Some(Err(errors::status_error(status, response.headers(), text)));
            }
            Http1State::Body(body, silent) => match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        *silent = None;
                        return Some(Ok(chunk));
                    }
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Some(Err(LinkError::Reset(crate::net::chain(&error)))),
                None => return silent.take().map(|error| Err(*error)),
            },
            Http1State::Lost => return std::future::pending().await,
            Http1State::Over => return None,
        }
    }
}

/// An open stream, in the count.
struct CountedStream(Arc<AtomicUsize>);

impl CountedStream {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "agent_h1_tests.rs"]
mod tests;
