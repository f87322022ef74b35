//! WebSockets beside the event streams: one message is one request, and each event of its
//! answer is one message back. The same encoders write them; here their bytes are taken
//! apart at the borders of events.

mod chat;
mod handshake;
mod metered;
mod responses;
mod socket;

use std::{future::Future, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use ibeam_core::{error::TurnError, model::ids};
use serde::Serialize;
use tokio::time::sleep;
use tracing::{Instrument as _, debug};

use self::socket::{RequestSocket, SocketEnd, SocketLimits, SocketRequest};
pub(super) use self::{chat::chat, responses::responses};
use super::{
    ConnectionHandle, GatewayService, Shared, body_reader, decode,
    error::ResponseFailure,
    log::RequestLog,
    turn::{IncomingRequest, RequestHead},
};
use crate::keys::Caller;

/// How long a connection may take to say goodbye after the turns were ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// Headers of the handshake that are about one request, where many may follow.
const ONCE: [&str; 2] = ["idempotency-key", "x-stainless-retry-count"];

/// A dialect, as it is spoken over one connection.
trait SocketDialect<S: GatewayService>: Send + 'static {
    /// The answer to a message: an event stream. None: it needs none.
    fn answer(
        &mut self,
        shared: &Shared<S>,
        incoming: IncomingRequest,
    ) -> impl Future<Output = Result<Option<Body>, TurnError>> + Send;

    /// A request that failed before it had an answer.
    fn failure(&self, error: &TurnError) -> String;

    /// The answer went out to its last byte.
    fn answered(&mut self) {}

    /// What the data of an event is as a message.
    fn message<'a>(&self, data: &'a str) -> &'a str {
        data
    }
}

/// The headers that the failure would have in an HTTP response.
#[derive(Serialize)]
struct FailureHeaders {
    #[serde(rename = "retry-after")]
    retry_after: String,
}

impl FailureHeaders {
    /// None if the error has no retry time.
    fn of(error: &TurnError) -> Option<Self> {
        let wait = error.retry_after_header()?;
        Some(Self { retry_after: wait.as_secs().max(1).to_string() })
    }
}

/// What all requests of one connection have in common.
struct SocketHead {
    path: String,
    headers: HeaderMap,
    /// The client that opened it.
    caller: Caller,
}

impl SocketHead {
    /// A request of its own, as far as the log and the turn are concerned. The hash of its
    /// message takes a while, and is put in later.
    fn asked<S: GatewayService>(&self, shared: &Shared<S>) -> RequestHead {
        let id = format!("req_{}", ids::hex(&shared.service.random()));
        let log = RequestLog::new(id, Method::GET, &self.path);
        if let Some(name) = &self.caller.name {
            log.key(name);
        }
        RequestHead {
            headers: self.headers.clone(),
            log: Arc::new(log),
            caller: self.caller.clone(),
            digest: [0; 32],
            share: None,
        }
    }
}

/// Switches protocols, and starts the task of the WebSocket.
fn begin<S: GatewayService>(
    shared: Shared<S>,
    caller: Caller,
    log: Arc<RequestLog>,
    mut request: Request,
    talk: impl SocketDialect<S>,
) -> Response {
    let settings = shared.service.settings();
    let accept = match handshake::check(settings.websocket, &request) {
        Ok(accept) => accept,
        Err(response) => return *response,
    };
    let Some(line) = request.extensions_mut().remove::<ConnectionHandle>() else {
        return handshake::impossible();
    };
    let mut headers = request.headers().clone();
    for name in ONCE {
        headers.remove(name);
    }
    let caption = SocketHead { path: request.uri().path().to_owned(), headers, caller };
    let limits = SocketLimits {
        message: settings.body_limit,
        idle: settings.websocket_idle,
        stall: settings.client_stall,
    };
    let bodies = Arc::clone(&settings.bodies);
    let upgrade = hyper::upgrade::on(&mut request);
    let tasks = shared.service.tasks().clone();
    let stopped = tasks.stopped();
    let talked = async move {
        let io = match upgrade.await {
            Ok(io) => TokioIo::new(io),
            Err(error) => return debug!(%error, "a WebSocket upgrade failed"),
        };
        let wire = RequestSocket::new(io, limits, bodies, caption.caller.id).await;
        let connection = SocketConnection { shared, caption, line, wire, talk };
        tokio::select! {
            () = connection.run() => {}
            () = async {
                stopped.await;
                sleep(GOODBYE).await;
            } => {}
        }
        log.streamed("closed");
    };
    tasks.spawn("websocket", talked);
    handshake::accepted(&accept)
}

struct SocketConnection<S, T> {
    shared: Shared<S>,
    caption: SocketHead,
    line: ConnectionHandle,
    wire: RequestSocket,
    talk: T,
}

impl<S: GatewayService, T: SocketDialect<S>> SocketConnection<S, T> {
    async fn run(mut self) {
        let ConnectionHandle(line) = self.line.clone();
        loop {
            let message = match self.wire.next(line.asked_to_leave()).await {
                Ok(message) => message,
                Err(gone) => return self.goodbye(gone).await,
            };
            let busy = line.begin();
            let answered = self.answer(message).await;
            drop(busy);
            if let Err(gone) = answered {
                return self.goodbye(gone).await;
            }
        }
    }

    async fn answer(&mut self, message: SocketRequest) -> Result<(), SocketEnd> {
        let mut asked = self.caption.asked(&self.shared);
        let log = Arc::clone(&asked.log);
        let span = tracing::info_span!("request", request_id = %log.id);
        let start = async {
            // A key may be revoked while its connection is open.
            self.shared.rules.caller(&self.caption.headers)?;
            let SocketRequest { text, share } = message;
            let body = Bytes::from(text);
            let digest = decode::digest(&self.shared, &asked.caller, body.clone());
            asked.digest = share.unless_evicted(digest).await??;
            let incoming = IncomingRequest { body, asked, share };
            self.talk.answer(&self.shared, incoming).await
        };
        match self.wire.until(start.instrument(span)).await? {
            Ok(None) => log.status(204),
            Ok(Some(mut body)) => {
                log.status(200);
                while let Some(frame) = self.wire.until(body.frame()).await? {
                    let Ok(Ok(data)) = frame.map(http_body::Frame::into_data) else { continue };
                    self.pass_on(&data).await?;
                }
                self.talk.answered();
            }
            Err(failure) => {
                let text = self.talk.failure(&failure);
                log.status(failure.code.row().status);
                log.failed(ResponseFailure::from(&failure));
                self.wire.say([text]).await?;
            }
        }
        Ok(())
    }

    /// A piece of an event stream has whole events in it, as its body writes them.
    async fn pass_on(&mut self, data: &[u8]) -> Result<(), SocketEnd> {
        let text = std::str::from_utf8(data).unwrap_or_default();
        let mut silent = true;
        let mut messages = Vec::new();
        for event in text.split("\n\n") {
            for data in event.lines().filter_map(|line| line.strip_prefix("data: ")) {
                silent = false;
                messages.push(self.talk.message(data).to_owned());
            }
        }
        if silent { self.wire.ping().await } else { self.wire.say(messages).await }
    }

    async fn goodbye(mut self, gone: SocketEnd) {
        debug!(?gone, "a WebSocket closed");
        let failure = match gone {
            SocketEnd::TooLarge => {
                Some(body_reader::too_large(self.shared.service.settings().body_limit))
            }
            SocketEnd::NoRoom => Some(body_reader::no_room()),
            SocketEnd::Left
            | SocketEnd::Stalled
            | SocketEnd::Idle
            | SocketEnd::Asked
            | SocketEnd::NoText => None,
        };
        if let Some(failure) = failure {
            let _ = self.wire.say([self.talk.failure(&failure)]).await;
        }
        self.wire.close(gone).await;
    }
}

#[cfg(test)]
mod tests;
