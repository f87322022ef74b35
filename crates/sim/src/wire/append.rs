//! `BidiAppend`: the client's direction of the HTTP/1.1 transport. Puts messages in order, drops
//! duplicates, and joins them with their RunSSE stream, whichever arrives first.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::Engine as _;
use bytes::Bytes;
use http::HeaderMap;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::Wire as _;
use ibeam_proto::aiserver::{BidiAppendRequest, BidiAppendResponse, BidiRequestId};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Sim,
    responses::{self, SimResponse},
};
use crate::{
    protobuf::unhex,
    record::{add, add_many},
    stream::BodyFormat,
};

/// The header with the tools that the model may use.
pub(super) const ALLOWED_TOOLS: &str = "x-cursor-agent-allowed-tools";
/// Messages that wait for the run to read them.
const MESSAGES_CAP: usize = 256;
/// Appends that may be ahead of the next one. Clients keep up to 16 in flight.
const AHEAD_CAP: usize = 64;
/// Streams and early appends known at the same time.
const SESSIONS_CAP: usize = 32_768;
/// Ids of finished streams that are remembered, so that a late append does not open a new one.
const FINISHED_CAP: usize = 4096;
/// How long appends wait for their stream.
const ORPHAN: Duration = Duration::from_secs(60);
/// How often appends that have waited too long are dropped.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Appends(Mutex<AppendState>);

#[derive(Debug, Default)]
struct AppendState {
    sessions: HashMap<String, AppendSession>,
    finished: HashSet<String>,
    /// The ids in `finished`, the oldest first.
    finished_order: VecDeque<String>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct AppendSession {
    next: i64,
    ahead: BTreeMap<i64, Bytes>,
    tx: mpsc::Sender<Bytes>,
    /// Until the stream arrives and takes it.
    rx: Option<mpsc::Receiver<Bytes>>,
    /// Bytes of all bodies.
    bytes: Arc<AtomicU64>,
    /// One came without the header with the allowed tools.
    unlisted: Arc<AtomicBool>,
    since: Instant,
}

/// What a stream gets of its appends.
#[derive(Debug)]
pub(crate) struct OpenAppends {
    pub(crate) rx: mpsc::Receiver<Bytes>,
    pub(crate) bytes: Arc<AtomicU64>,
    pub(crate) unlisted: Arc<AtomicBool>,
}

/// A message of the client, and what its request says about it.
#[derive(Debug)]
pub(crate) struct ReceivedAppend {
    pub(crate) seqno: i64,
    pub(crate) data: Bytes,
    /// The size of the request body.
    pub(crate) size: usize,
    /// The header with the allowed tools is there.
    pub(crate) listed: bool,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    New,
    Duplicate,
    /// Too many messages wait.
    Full,
    /// The stream is over.
    Gone,
}

impl AppendSession {
    fn new() -> Self {
        let (tx, rx) = mpsc::channel(MESSAGES_CAP);
        Self {
            next: 0,
            ahead: BTreeMap::new(),
            tx,
            rx: Some(rx),
            bytes: Arc::default(),
            unlisted: Arc::default(),
            since: Instant::now(),
        }
    }

    fn put(&mut self, seqno: i64, data: Bytes) -> Appended {
        if seqno < self.next || self.ahead.contains_key(&seqno) {
            return Appended::Duplicate;
        }
        if self.ahead.len() >= AHEAD_CAP {
            return Appended::Full;
        }
        self.ahead.insert(seqno, data);
        while let Some(data) = self.ahead.remove(&self.next) {
            match self.tx.try_send(data) {
                Ok(()) => self.next += 1,
                Err(mpsc::error::TrySendError::Full(data)) => {
                    self.ahead.insert(self.next, data);
                    return if seqno == self.next { Appended::Full } else { Appended::New };
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return Appended::Gone,
            }
        }
        Appended::New
    }
}

impl Appended {
    /// Whether it was accepted, as a duplicate or not.
    fn taken(self) -> bool {
        matches!(self, Self::New | Self::Duplicate)
    }
}

impl Appends {
    /// Takes a message, and passes on those that are in order now.
    pub(crate) fn append(&self, id: &str, append: ReceivedAppend) -> Appended {
        let ReceivedAppend { seqno, data, size, listed } = append;
        let mut state = self.0.lock();
        if state.finished.contains(id) {
            return Appended::Gone;
        }
        let Some(session) = state.session(id) else { return Appended::Full };
        if !listed {
            session.unlisted.store(true, Ordering::Relaxed);
        }
        let outcome = session.put(seqno, data);
        if outcome.taken() {
            add_many(&session.bytes, size);
        }
        outcome
    }

    /// Gives a new stream its messages. `None` if another stream has taken them.
    pub(crate) fn open(&self, id: &str) -> Option<OpenAppends> {
        let mut state = self.0.lock();
        if state.finished.contains(id) {
            return None;
        }
        let session = state.session(id)?;
        Some(OpenAppends {
            rx: session.rx.take()?,
            bytes: Arc::clone(&session.bytes),
            unlisted: Arc::clone(&session.unlisted),
        })
    }

    /// The stream has ended; later appends fail.
    pub(crate) fn close(&self, id: &str) {
        let mut state = self.0.lock();
        state.sessions.remove(id);
        if state.finished.insert(id.to_owned()) {
            state.finished_order.push_back(id.to_owned());
        }
        if state.finished.len() > FINISHED_CAP
            && let Some(oldest) = state.finished_order.pop_front()
        {
            state.finished.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().sessions.len()
    }
}

impl AppendState {
    fn session(&mut self, id: &str) -> Option<&mut AppendSession> {
        if !self.sessions.contains_key(id) {
            let now = Instant::now();
            if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP) {
                self.swept = Some(now);
                self.sessions.retain(|_, s| s.rx.is_none() || now.duration_since(s.since) < ORPHAN);
            }
            if self.sessions.len() >= SESSIONS_CAP {
                return None;
            }
            self.sessions.insert(id.to_owned(), AppendSession::new());
        }
        self.sessions.get_mut(id)
    }
}

/// Answers one `BidiAppend` call.
pub(crate) fn answer(sim: &Sim, headers: &HeaderMap, body: &[u8]) -> SimResponse {
    let Some(form) = BodyFormat::of(headers) else { return responses::unsupported() };
    if let Err(error) = sim.service.auth.check(headers) {
        return responses::error_in(form, &error);
    }
    let parsed = match form {
        BodyFormat::Json => parse_json(body),
        _ => BidiAppendRequest::from_wire(Bytes::copy_from_slice(form.payload(body))).ok(),
    };
    let message = parsed.as_ref().and_then(|request| {
        let id = request.request_id.as_ref()?.request_id.as_str();
        Some((id, request.append_seqno.unwrap_or_default(), payload(request)?))
    });
    let Some((id, seqno, data)) = message else {
        sim.counters().violation("BidiAppend that cannot be read".to_owned());
        let error = ConnectError::new(Code::InvalidArgument, "Invalid append");
        return responses::error_in(form, &error);
    };
    let counters = sim.counters();
    let listed = headers.contains_key(ALLOWED_TOOLS);
    let append = ReceivedAppend { seqno, data, size: body.len(), listed };
    let outcome = sim.service.appends.append(id, append);
    if outcome.taken() {
        add_many(&counters.bytes_in, body.len());
    }
    match outcome {
        Appended::New => add(&counters.appends),
        Appended::Duplicate => add(&counters.duplicate_appends),
        Appended::Full => {
            let error = ConnectError::new(Code::ResourceExhausted, "Too many appends");
            return responses::error_in(form, &error);
        }
        Appended::Gone => {
            let error = ConnectError::new(Code::NotFound, "Request not found");
            return responses::error_in(form, &error);
        }
    }
    responses::unary(form, &BidiAppendResponse {}, &json!({}), false)
}

fn payload(request: &BidiAppendRequest) -> Option<Bytes> {
    if request.data.is_empty() {
        Some(request.data_binary.clone())
    } else {
        let plain = request.data.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        unhex(&request.data).filter(|_| plain).map(Bytes::from)
    }
}

/// The proto3 JSON form, in which 64-bit numbers are text.
fn parse_json(body: &[u8]) -> Option<BidiAppendRequest> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let seqno = match body.get("appendSeqno") {
        None => 0,
        Some(Value::String(text)) => text.parse().ok()?,
        Some(value) => value.as_i64()?,
    };
    Some(BidiAppendRequest {
        data: text("data"),
        request_id: Some(BidiRequestId {
            request_id: body.get("requestId")?.get("requestId")?.as_str()?.to_owned(),
        }),
        append_seqno: Some(seqno),
        data_binary: base64::engine::general_purpose::STANDARD
            .decode(text("dataBinary"))
            .ok()?
            .into(),
    })
}

#[cfg(test)]
#[path = "append_tests.rs"]
mod tests;
