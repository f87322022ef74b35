//! One turn of the Agent API, from the first connection to the one ending, over
//! as many connections as it takes.
//!
//! A tool call ends the answer to one request but not the turn: the stream stays open
//! until [`Turn::resume`] brings the results, and then gives the answer to that
//! request.
//!
//! Feed it with `on_*`; after each call, carry out [`Turn::poll_command`] and pass
//! on [`Turn::poll_event`] until both give `None`, then call
//! [`Turn::on_timeout`] no later than [`Turn::poll_deadline`].

mod endings;
mod inbound;
mod results;
mod since;
mod tools;

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, ClientHeartbeat, agent_client_message::Message as ToServer,
};

use self::{
    results::{Offer, note_loops},
    since::Since,
    tools::Call,
};
use super::{
    answer::Answer,
    classify::{self, Failure, Remedy},
    drift::{Drift, DriftReport},
    link::LinkError,
    request::{Plan, RunSpec},
    settings::Settings,
};
use crate::{
    codec::connect::{self, Decoder, Envelope},
    error::{ErrorCode, TurnError},
    guard::LoopGuard,
    history,
    model::{Millis, TurnEvent, TurnRequest, ids::SessionId},
};

/// The slowest upload that is still waited for: 100 kB/s.
const UPLOAD_BYTES_PER_MS: u64 = 100;

/// What the caller must do for the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Open a stream, dropping any earlier one.
    Open(OpenSpec),
    /// Send this framed message on the open stream.
    Send(Bytes),
    /// The stream is no longer needed. `cancel` resets it, so that the backend
    /// stops working; otherwise it has already ended.
    Close { cancel: bool },
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Self::Send(frame) => frame.len(),
            Self::Open(_) | Self::Close { .. } => 0,
        }
    }
}

/// How to open a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSpec {
    /// Fresh for every stream.
    pub request_id: String,
    /// The same for all streams of one turn.
    pub original_request_id: String,
    /// Resuming over HTTP/2 after an internal-error reset gives an empty turn.
    pub prefer_h1: bool,
    /// The token of the last stream was refused: this one needs another.
    pub fresh_token: bool,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No stream yet, or waiting to try again.
    Opening,
    Streaming,
    /// Calls are with the client; the stream is kept open for their results.
    AwaitingTools,
    Done,
}

/// What the next stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Start,
    Resume,
}

#[derive(Debug)]
enum Link {
    Waiting { until: Millis, purpose: Purpose, prefer_h1: bool },
    Opening { purpose: Purpose, prefer_h1: bool },
    Open(Box<OpenLink>),
    Done,
}

/// The state of one open stream.
#[derive(Debug)]
struct OpenLink {
    purpose: Purpose,
    prefer_h1: bool,
    /// Whether the backend said anything on this stream.
    heard: bool,
    /// What the client had seen when the stream opened.
    seen_before: u64,
    /// Extra patience while a large request is still on its way.
    upload: Duration,
    decoder: Decoder,
    /// None: somebody else sends them.
    next_heartbeat: Option<Millis>,
    last_frame: Millis,
    last_progress: Millis,
    /// False while back-pressure keeps us from reading: silence is then our own.
    reading: bool,
    /// Set by `turn_ended`: wait until then for the end frame.
    ended_until: Option<Millis>,
    /// Set by a tool call: its siblings may come until then.
    batch_until: Option<Millis>,
    open_steps: u32,
    server_tools: HashSet<String>,
    stored: Stored,
    heartbeats: u32,
}

/// What the backend put into our store since the last piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stored {
    Nothing,
    Something,
    /// The assistant's message itself: the model has said its piece.
    Answer,
}

/// The newest state of the conversation.
#[derive(Debug)]
struct Checkpoint {
    bytes: Bytes,
    /// What the client had seen by then. A resume starts from here, so anything
    /// beyond it would come a second time.
    seen: u64,
    /// Results were sent since, which it knows nothing of.
    before_results: bool,
}

#[derive(Debug)]
pub struct Turn {
    spec: RunSpec,
    settings: Settings,
    seed: [u8; 16],
    drawn: u64,
    /// When the request came that is being answered.
    started: Millis,
    link: Link,
    answer: Answer,
    commands: VecDeque<Command>,
    drift: Drift,
    checkpoint: Option<Checkpoint>,
    since: Since,
    /// The request that is being answered: it can be told anew.
    request: Option<Box<TurnRequest>>,

    session: SessionId,
    call_count: u32,
    calls: Vec<Call>,
    loops: LoopGuard,
    /// Calls whose file was read in part.
    half_read: HashSet<String>,
    /// The stream is parked: the client has calls to answer.
    awaiting: bool,
    offer: Offer,
    one_by_one: bool,
    /// `tool_choice` leaves the model no other way.
    must_call: bool,
    insisted: bool,
    /// Tokens of the legs before, and what this one adds to them.
    counted: Option<u64>,
    new_texts: Vec<String>,

    /// Streams in a row on which the backend said nothing.
    tries: u32,
    renewed: bool,
    resumed: bool,
    rebuilt: bool,
    /// Requests of the backend that were refused in this leg.
    refusals: u32,
    /// Another token was asked for.
    reauthorized: bool,
}

// === public surface ===

impl Turn {
    /// `seed` is the source of every id and of the back-off's jitter.
    #[must_use]
    pub fn new(
        mut request: TurnRequest,
        plan: Plan,
        settings: Settings,
        seed: [u8; 16],
        now: Millis,
    ) -> Self {
        let session = plan.session;
        let new = history::split(&request.items);
        let past = request.items.get(..new).unwrap_or_default();
        let mut loops = LoopGuard::from_history(settings.max_repeat, past);
        note_loops(&mut loops, &[], &mut request, new);
        let mut turn = Self {
            spec: RunSpec::new(&request, plan),
            loops,
            settings,
            seed,
            drawn: 0,
            started: now,
            link: Link::Done,
            answer: Answer::default(),
            commands: VecDeque::new(),
            drift: Drift::default(),
            checkpoint: None,
            since: Since::default(),
            request: None,
            session,
            call_count: 0,
            calls: Vec::new(),
            half_read: HashSet::new(),
            awaiting: false,
            offer: Offer::default(),
            one_by_one: false,
            must_call: false,
            insisted: false,
            counted: None,
            new_texts: Vec::new(),
            tries: 0,
            renewed: false,
            resumed: false,
            rebuilt: false,
            refusals: 0,
            reauthorized: false,
        };
        turn.demand(&request);
        turn.since.begin(&request);
        turn.request = Some(Box::new(request));
        turn.open(Purpose::Start, false);
        turn
    }

    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    pub fn poll_event(&mut self) -> Option<TurnEvent> {
        self.answer.pop()
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.link {
            Link::Waiting { .. } | Link::Opening { .. } => Phase::Opening,
            Link::Open(_) if self.awaiting => Phase::AwaitingTools,
            Link::Open(_) => Phase::Streaming,
            Link::Done => Phase::Done,
        }
    }

    /// When [`Self::on_timeout`] is due at the latest.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let clocks = &self.settings.clocks;
        let whole = self.started + clocks.whole_turn;
        match &self.link {
            Link::Done => None,
            // Nobody waits for an answer: only the stream itself can be late.
            Link::Open(link) if self.awaiting => {
                let silence = link.reading.then(|| link.last_frame + clocks.no_frame);
                [silence, link.next_heartbeat].into_iter().flatten().min()
            }
            Link::Waiting { until, .. } => Some(whole.min(*until)),
            Link::Opening { .. } => Some(whole),
            Link::Open(link) => {
                let silence = link.reading.then(|| {
                    (link.last_frame + clocks.no_frame + link.upload)
                        .min(link.last_progress + clocks.heartbeat_only)
                });
                let quiet =
                    self.looks_complete(link).then(|| link.last_progress + clocks.quiet_end);
                [silence, quiet, link.ended_until, link.batch_until, link.next_heartbeat]
                    .into_iter()
                    .flatten()
                    .fold(whole, Millis::min)
                    .into()
            }
        }
    }

    /// The stream that [`Command::Open`] asked for is there.
    pub fn on_opened(&mut self, now: Millis) {
        let Link::Opening { purpose, prefer_h1 } = self.link else { return };
        let checkpoint = match purpose {
            Purpose::Start => None,
            Purpose::Resume => self.checkpoint.as_ref().map(|checkpoint| &checkpoint.bytes[..]),
        };
        let first = self.spec.first_frame(self.settings.inline_context, checkpoint);
        let upload = Duration::from_millis(first.len() as u64 / UPLOAD_BYTES_PER_MS);
        self.commands.push_back(Command::Send(first));
        self.link = Link::Open(Box::new(OpenLink {
            purpose,
            prefer_h1,
            heard: false,
            seen_before: self.answer.visible(),
            upload,
            decoder: Decoder::new(),
            next_heartbeat: Some(now + self.settings.clocks.heartbeat),
            last_frame: now,
            last_progress: now,
            reading: true,
            ended_until: None,
            batch_until: None,
            open_steps: 0,
            server_tools: HashSet::new(),
            stored: Stored::Nothing,
            heartbeats: 0,
        }));
    }

    /// Bytes of the open stream, split anyhow.
    pub fn on_bytes(&mut self, chunk: Bytes, now: Millis) {
        let Link::Open(link) = &mut self.link else { return };
        link.decoder.push(chunk);
        loop {
            let Link::Open(link) = &mut self.link else { return };
            match link.decoder.next() {
                Ok(Some(Envelope::Message(bytes))) => self.on_message(&bytes, now),
                Ok(Some(Envelope::End(error))) => self.on_end(error.as_ref(), now),
                Ok(None) => return,
                Err(error) => {
                    let text = format!("Cursor sent a stream that ibeam cannot read: {error}");
                    self.fail(TurnError::new(ErrorCode::UpstreamError, text), true);
                }
            }
        }
    }

    /// The stream could not be opened, or broke.
    pub fn on_link_error(&mut self, error: &LinkError, now: Millis) {
        let internal = matches!(error, LinkError::Reset(why) if why.contains("INTERNAL_ERROR"));
        let prefer_h1 = match &self.link {
            Link::Open(link) => link.prefer_h1 || internal,
            Link::Opening { prefer_h1, .. } => *prefer_h1,
            Link::Waiting { .. } | Link::Done => return,
        };
        if !self.settle(now) {
            self.recover(classify::link_error(error), prefer_h1, now);
        }
    }

    /// The stream ended without an error of the transport.
    pub fn on_eof(&mut self, now: Millis) {
        let Link::Open(link) = &self.link else { return };
        let prefer_h1 = link.prefer_h1;
        if !self.settle(now) {
            self.recover(cut_short(), prefer_h1, now);
        }
    }

    /// Whether the caller reads the stream; while it does not, silence proves
    /// nothing about the backend.
    pub fn set_reading(&mut self, reading: bool, now: Millis) {
        if let Link::Open(link) = &mut self.link
            && link.reading != reading
        {
            link.reading = reading;
            link.last_frame = now;
            link.last_progress = now;
        }
    }

    pub fn on_timeout(&mut self, now: Millis) {
        let clocks = self.settings.clocks;
        let running = matches!(self.phase(), Phase::Opening | Phase::Streaming);
        if running && now >= self.started + clocks.whole_turn {
            self.fail_by_clock("The turn took longer than the `whole_turn` clock allows.");
            return;
        }
        match &mut self.link {
            Link::Waiting { until, purpose, prefer_h1 } if now >= *until => {
                let (purpose, prefer_h1) = (*purpose, *prefer_h1);
                self.open(purpose, prefer_h1);
            }
            Link::Open(link) => {
                if link.next_heartbeat.is_some_and(|at| now >= at) {
                    link.next_heartbeat = Some(now + clocks.heartbeat);
                    self.commands.push_back(Command::Send(Self::heartbeat()));
                }
                self.on_stream_timeout(now);
            }
            Link::Waiting { .. } | Link::Opening { .. } | Link::Done => {}
        }
    }

    /// The framed heartbeat of a stream.
    #[must_use]
    pub fn heartbeat() -> Bytes {
        let beat = ToServer::ClientHeartbeat(ClientHeartbeat {});
        connect::encode(&AgentClientMessage { message: Some(beat) })
    }

    /// Somebody else sends the heartbeats of this parked stream, until it goes on.
    pub fn relieve(&mut self) {
        if let Link::Open(link) = &mut self.link
            && self.awaiting
        {
            link.next_heartbeat = None;
        }
    }

    /// The client is gone: tell the backend to stop.
    pub fn cancel(&mut self) {
        self.abort(TurnError::new(ErrorCode::Cancelled, "The client left."));
    }

    /// Ends the turn with this error and tells the backend to stop.
    pub fn abort(&mut self, error: TurnError) {
        match self.phase() {
            Phase::Opening | Phase::Streaming => self.fail(error, true),
            // The client has its ending already.
            Phase::AwaitingTools => self.hang_up(true),
            Phase::Done => {}
        }
    }

    /// The blobs (ids and contents) that came since the last time this was asked.
    pub fn take_new_blobs(&mut self) -> Vec<(Bytes, Bytes)> {
        self.spec.blobs.take_fresh()
    }

    /// About how many bytes the turn holds.
    #[must_use]
    pub fn memory(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes.len());
        let calls = self.held_bytes();
        size_of::<Self>() + self.spec.memory() + self.answer.memory() + checkpoint + calls
    }

    /// Tells the turn how many tokens its answer so far was counted at, prompt included,
    /// so that the next estimate only counts what is new.
    pub fn note_usage(&mut self, total: u64) {
        self.counted = Some(total);
    }

    /// What was not understood so far.
    #[must_use]
    pub fn drift(&self) -> DriftReport {
        self.drift.report()
    }

    #[must_use]
    pub fn conversation_id(&self) -> &str {
        &self.spec.conversation_id
    }

    /// What to count when the backend did not: the leg that just ended.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        let (answer, output) = self.answer.produced();
        let (prompt, images) = match self.counted {
            None => self.spec.prompt_texts(),
            Some(_) => (std::mem::take(&mut self.new_texts), 0),
        };
        Uncounted { before: self.counted.unwrap_or(0), prompt, images, answer, output }
    }
}

/// The texts of a leg whose usage nobody reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Tokens of the prompt that are counted already.
    pub before: u64,
    pub prompt: Vec<String>,
    pub images: usize,
    pub answer: String,
    /// The output, where only that was counted.
    pub output: Option<u64>,
}

/// A stream that ended before its turn did.
fn cut_short() -> Failure {
    let text = "Cursor closed the stream before the answer was complete.";
    Failure { error: TurnError::new(ErrorCode::UpstreamClosed, text), remedy: Remedy::Resume }
}

impl Turn {
    /// An answer came, it was stored, and since then only heartbeats, with nothing
    /// under way that could bring more.
    fn looks_complete(&self, link: &OpenLink) -> bool {
        let settled = match link.stored {
            Stored::Nothing => false,
            Stored::Something => link.open_steps == 0,
            Stored::Answer => true,
        };
        let idle = link.server_tools.is_empty() && !self.has_open_calls();
        self.answer.has_answer() && settled && link.heartbeats >= 2 && idle
    }
}

#[cfg(test)]
mod tests;
