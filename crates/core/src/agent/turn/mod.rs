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

mod call;
mod clocks;
mod endings;
mod half_read;
mod inbound;
mod outbound;
mod recovery;
mod results;
mod since;
mod stream;
mod tools;
mod usage;

use std::collections::VecDeque;

use bytes::Bytes;

pub use self::usage::Uncounted;
use self::{
    call::Call,
    half_read::HalfRead,
    recovery::{Tried, cut_short},
    since::{Anchor, Shown, Since},
    stream::{Link, OpenLink, Purpose, upload_time},
};
use super::{
    classify,
    drift::{Drift, DriftReport},
    link::LinkError,
    request::{Plan, RunSpec},
    settings::Settings,
};
use crate::{
    answer::Answer,
    codec::connect::Envelope,
    error::{ErrorCode, TurnError},
    guard::LoopGuard,
    history,
    model::{Millis, TurnEvent, TurnRequest, ids::SessionId},
    turn::{
        Command, Phase,
        draws::Draws,
        results::{Offer, note_loops},
    },
};

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
    draws: Draws,
    /// When the request came that is being answered.
    started: Millis,
    link: Link,
    /// The first message of the first stream, until that is open. It is made with the machine: for
    /// a large request that takes long, and is not to be done where streams are read.
    first: Option<Bytes>,
    answer: Answer,
    commands: VecDeque<Command>,
    drift: Drift,
    checkpoint: Option<Checkpoint>,
    since: Since,
    /// The state before the present leg, where the client may be shown less than is said.
    anchor: Option<Box<Anchor>>,
    shown: Option<Shown>,
    /// The request that is being answered: it can be told anew.
    request: Option<Box<TurnRequest>>,

    session: SessionId,
    call_count: u32,
    calls: Vec<Call>,
    loops: LoopGuard,
    half_read: HalfRead,
    /// The stream is parked: the client has calls to answer.
    awaiting: bool,
    offer: Offer,
    one_by_one: bool,
    /// `tool_choice` leaves the model no other way.
    must_call: bool,
    /// Tokens of the legs before, and what this one adds to them.
    counted: Option<u64>,
    new_texts: Vec<String>,

    tried: Tried,
    /// Another token was asked for: once in a turn, not in each leg.
    reauthorized: bool,
}

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
        note_loops(&mut loops, &mut request, new, |_| true);
        let mut turn = Self {
            spec: RunSpec::new(&request, plan),
            loops,
            settings,
            draws: Draws::new(seed),
            started: now,
            link: Link::Done,
            first: None,
            answer: Answer::default(),
            commands: VecDeque::new(),
            drift: Drift::default(),
            checkpoint: None,
            since: Since::default(),
            anchor: None,
            shown: None,
            request: None,
            session,
            call_count: 0,
            calls: Vec::new(),
            half_read: HalfRead::default(),
            awaiting: false,
            offer: Offer::default(),
            one_by_one: false,
            must_call: false,
            counted: None,
            new_texts: Vec::new(),
            tried: Tried::default(),
            reauthorized: false,
        };
        turn.demand(&request);
        turn.since.begin(&request);
        turn.request = Some(Box::new(request));
        turn.open(Purpose::Start, false);
        turn.first = Some(turn.spec.first_frame(turn.settings.inline_context, None));
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

    /// The stream that [`Command::Open`] asked for is there.
    pub fn on_opened(&mut self, now: Millis) {
        let Link::Opening { purpose, prefer_h1 } = self.link else { return };
        let checkpoint = match purpose {
            Purpose::Start => None,
            Purpose::Resume => self.checkpoint.as_ref().map(|checkpoint| &checkpoint.bytes[..]),
        };
        let first = self.first.take();
        let first = first
            .unwrap_or_else(|| self.spec.first_frame(self.settings.inline_context, checkpoint));
        self.link = Link::Open(Box::new(OpenLink {
            seen_before: self.answer.visible(),
            upload: upload_time(first.len()),
            next_heartbeat: Some(now + self.settings.clocks.heartbeat),
            ..OpenLink::new(purpose, prefer_h1, now)
        }));
        self.commands.push_back(Command::Send(first));
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
        let told = self.spec.memory() + self.answer.memory() + self.since.memory();
        size_of::<Self>() + told + checkpoint + self.held_bytes()
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
}

#[cfg(test)]
mod tests;
