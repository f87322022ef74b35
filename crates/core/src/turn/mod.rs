//! One turn, from the first link to the one ending of its last leg, whatever backend it runs
//! on. The backend's messages are read and written by a [`Peer`]; everything else is here:
//! legs, tool calls, retries, clocks.
//!
//! A tool call ends the answer to one request but not the turn: the link stays open until
//! [`Turn::resume`] brings the results, and then gives the answer to that request.
//!
//! Feed it with `on_*`; after each call, carry out [`Turn::poll_command`] and pass on
//! [`Turn::poll_event`] until both give `None`, then call [`Turn::on_timeout`] no later than
//! [`Turn::poll_deadline`]. A caller that has much to send already may leave commands where they
//! are: the turn then reads no further in what it has heard until they are taken.

mod calls;
mod clocks;
mod command;
mod draws;
mod endings;
mod offer;
mod recovery;
mod results;
mod settings;
mod tape;
mod tools;
mod usage;

use bytes::Bytes;

use self::{
    calls::Calls,
    command::CommandQueue,
    draws::Draws,
    offer::{Offer, must_call, note_loops},
    recovery::Tried,
    tape::TurnTaping,
    usage::Counted,
};
pub use self::{
    command::{Command, OpenLink, TurnCommand},
    draws::TurnSeed,
    settings::Settings,
    tape::{TapeEntry, TurnTape},
    usage::Uncounted,
};
use crate::{
    answer::TurnAnswer,
    error::{ErrorCode, TurnError},
    guard::LoopGuard,
    history,
    model::{FinishReason, Millis, TurnEvent, TurnRequest, ids::SessionId},
    peer::{
        DriftReport, InMessage as _, LinkError, OutMessage as _, Peer, PeerEvent, PeerOutput,
        Shown, TurnView,
    },
};

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// No link is open, and none is opened before that time.
    Backoff {
        until: Millis,
    },
    Opening,
    Streaming,
    /// Calls are with the client; the link is kept open for their results.
    AwaitingTools,
    Done,
}

#[derive(Debug)]
pub struct Turn<P: Peer> {
    peer: P,
    settings: Settings,
    draws: Draws,
    state: TurnState,
    /// When the request came that is being answered.
    started: Millis,
    /// What the client had seen when the present link or leg began.
    visible_before: u64,
    answer: TurnAnswer,
    commands: CommandQueue<P::Open, P::Out>,
    /// The peer may have more to say, for which the commands have to be taken first.
    held: bool,
    /// The request that is being answered: it can be sent again.
    request: Option<Box<TurnRequest>>,
    calls: Calls<P::Call>,
    loops: LoopGuard,
    offer: Offer,
    /// `tool_choice` requires a call.
    must_call: bool,
    counted: Counted,
    /// The answer ended by [`Self::cut`].
    cut: bool,
    tried: Tried,
    /// Another token was requested: once in a turn, not in each leg.
    reauthorized: bool,
    /// There when the turn is recorded.
    tape: Option<Box<TurnTaping>>,
}

impl<P: Peer> Turn<P> {
    /// `seed` is the source of every id and of the back-off's jitter.
    #[must_use]
    pub fn new(
        mut request: TurnRequest,
        plan: P::Plan,
        session: SessionId,
        settings: Settings,
        seed: impl Into<TurnSeed>,
        now: Millis,
    ) -> Self {
        let new = history::split(&request.items);
        let past = request.items.get(..new).unwrap_or_default();
        let mut loops = LoopGuard::from_history(settings.max_repeat, past);
        note_loops(&mut loops, &mut request, new, |_| true);
        let mut turn = Self {
            peer: P::new(&request, plan),
            settings,
            draws: Draws::new(seed.into()),
            state: TurnState::Done,
            started: now,
            visible_before: 0,
            answer: TurnAnswer::default(),
            commands: CommandQueue::default(),
            held: false,
            request: None,
            calls: Calls::new(session),
            loops,
            offer: Offer::default(),
            must_call: false,
            counted: Counted::default(),
            cut: false,
            tried: Tried::default(),
            reauthorized: false,
            tape: None,
        };
        turn.demand(&request);
        turn.request = Some(Box::new(request));
        turn.open(false);
        turn
    }

    /// Takes down everything from here on.
    pub fn record(&mut self, tape: Box<dyn TurnTape>) {
        self.tape = Some(Box::new(TurnTaping::new(tape)));
    }

    pub fn poll_command(&mut self) -> Option<TurnCommand<P>> {
        let command = self.commands.pop()?;
        if let Some(tape) = &mut self.tape {
            tape.note(match &command {
                Command::Open(link) => TapeEntry::Open {
                    fresh_token: link.fresh_token,
                    open: P::record_open(&link.peer),
                },
                Command::Send(message) => TapeEntry::Send(message.to_link()),
                Command::Close { cancel } => TapeEntry::Close { cancel: *cancel },
            });
        }
        Some(command)
    }

    /// Whether the next command cannot wait for the messages that were taken before it to be sent:
    /// the link is given up, and they with it.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.commands.has_more_than_messages()
    }

    /// Whether so many commands wait that nothing should be read before they are taken.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.held || self.commands.is_full()
    }

    pub fn poll_event(&mut self) -> Option<TurnEvent> {
        let event = self.answer.pop()?;
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Event(event.clone()));
        }
        Some(event)
    }

    /// Takes down an event that the client gets in place of the turn's own.
    pub(crate) fn record_client(&mut self, event: &TurnEvent) {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Client(event.clone()));
        }
    }

    #[must_use]
    pub fn state(&self) -> TurnState {
        self.state
    }

    /// The link that [`Command::Open`] asked for is open.
    pub fn on_opened(&mut self, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::Opened);
        }
        if self.state == TurnState::Opening {
            self.state = TurnState::Streaming;
            self.visible_before = self.answer.visible();
            self.calls.begin_run();
            self.peer.on_opened(&self.settings.clocks, now);
            self.pump(now);
        }
    }

    /// A message came over the open link.
    pub fn on_message(&mut self, message: P::In, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::Heard(message.to_link()));
        }
        if self.is_open() {
            self.peer.on_message(message, now);
            self.pump(now);
        }
    }

    /// The link could not be opened, or broke.
    pub fn on_link_error(&mut self, error: &LinkError, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::LinkError(error.clone()));
        }
        if self.is_open() || self.state == TurnState::Opening {
            self.on_lost(Some(error), now);
        }
    }

    /// The link ended without an error of the transport.
    pub fn on_eof(&mut self, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::Eof);
        }
        if self.is_open() {
            self.on_lost(None, now);
        }
    }

    /// The client is gone: stops the backend.
    pub fn cancel(&mut self) {
        self.abort(client_left());
    }

    /// Ends the turn with this error and stops the backend.
    pub fn abort(&mut self, error: TurnError) {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Aborted(error.clone()));
        }
        self.stop(error);
    }

    fn stop(&mut self, error: TurnError) {
        match self.state {
            TurnState::Backoff { .. } | TurnState::Opening | TurnState::Streaming => {
                self.fail(error);
            }
            // The client has its ending already.
            TurnState::AwaitingTools => self.hang_up(),
            TurnState::Done => {}
        }
    }

    /// The state from which this conversation can continue, if there is one that lacks
    /// nothing. This may add blobs, so ask for those afterwards.
    #[must_use]
    pub fn checkpoint(&mut self) -> Option<Bytes> {
        self.peer.checkpoint(&view(self.state, &self.answer, &self.calls, self.request.as_deref()))
    }

    /// The blobs (ids and contents) that came since the last call.
    pub fn take_new_blobs(&mut self) -> Vec<(Bytes, Bytes)> {
        self.peer.take_new_blobs()
    }

    /// The highest number in the ids of its calls, or 0.
    #[must_use]
    pub fn highest_call(&self) -> u32 {
        self.calls.highest()
    }

    /// The client saw only this text of the present leg, or the answer to it came in
    /// another way than the backend remembers.
    pub fn show_only(&mut self, text: Option<String>) {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Shown(text.clone()));
        }
        self.cut = false;
        self.peer.set_shown(Shown::Other(text));
    }

    /// The connection sends the heartbeats of this parked link until it is used again.
    pub fn relieve(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Relieved);
        }
        if self.state == TurnState::AwaitingTools {
            self.peer.relieve();
        }
    }

    /// About how many bytes the turn holds.
    #[must_use]
    pub fn memory(&self) -> usize {
        let request =
            self.request.as_ref().map_or(0, |request| request.texts().map(str::len).sum());
        let held = self.answer.memory() + self.calls.bytes();
        size_of::<Self>() + request + self.peer.memory() + held
    }

    /// Unknown messages and fields so far.
    #[must_use]
    pub fn drift(&self) -> DriftReport {
        self.peer.drift()
    }

    #[must_use]
    pub fn conversation_id(&self) -> &str {
        self.peer.conversation_id()
    }

    #[cfg(test)]
    pub(crate) fn peer(&mut self) -> &mut P {
        &mut self.peer
    }

    fn is_open(&self) -> bool {
        matches!(self.state, TurnState::Streaming | TurnState::AwaitingTools)
    }

    /// Processes everything that the peer has, in both directions.
    fn pump(&mut self, now: Millis) {
        while self.is_open() {
            let congested = self.commands.is_full();
            let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
            let view = TurnView { congested, ..view };
            match self.peer.poll(&view, &self.settings.clocks, now) {
                Some(PeerOutput::Send(message)) => self.commands.push(Command::Send(message)),
                Some(PeerOutput::Event(event)) => self.on_event(event, now),
                None => {
                    self.held = congested;
                    return;
                }
            }
        }
        self.held = false;
    }

    fn on_event(&mut self, event: PeerEvent<P::Call>, now: Millis) {
        match event {
            PeerEvent::Started => self.answer.started(),
            PeerEvent::Text(text) => self.answer.text(text),
            PeerEvent::Reasoning(text) => self.answer.reasoning(text),
            PeerEvent::Did(line) => self.answer.did(&line),
            PeerEvent::StoredText(text) => self.answer.blob_text(text),
            PeerEvent::OutputTokens(tokens) => self.answer.output_tokens(tokens),
            PeerEvent::ContextTokens(used) => self.answer.context_tokens(used),
            PeerEvent::RunTokens(tokens) => self.answer.run_ended(tokens),
            PeerEvent::CallExpected => {
                self.calls.expect();
                self.calls.extend_batch(now);
            }
            PeerEvent::CallsAhead(count) => {
                self.calls.expect_just(count);
                self.calls.extend_batch(now);
            }
            PeerEvent::Call(call) => self.on_call(*call, now),
            PeerEvent::CallWithdrawn(key) => self.on_withdrawn(key),
            PeerEvent::CallLost(key) => self.calls.lose(key),
            PeerEvent::BatchComplete => self.flush_batch(),
            PeerEvent::Refused => self.on_refused(),
            PeerEvent::Ended(reason) => self.on_ended(reason, now),
            PeerEvent::Failed(failure) => self.on_failed(*failure, now),
        }
        let held = self.answer.waiting() + self.calls.bytes();
        if self.state == TurnState::AwaitingTools && held > self.settings.parked_bytes {
            // The limit for a client that may never come back.
            self.hang_up();
        }
    }

    fn on_lost(&mut self, error: Option<&LinkError>, now: Millis) {
        match self.peer.on_lost(error) {
            None => self.on_ended(FinishReason::Stop, now),
            Some(failure) => self.on_failed(failure, now),
        }
    }

    /// Notes how `request` wants its tools to be called.
    fn demand(&mut self, request: &TurnRequest) {
        self.offer = Offer::of(request);
        self.calls.one_by_one = !request.parallel_tool_calls;
        self.must_call = must_call(request);
        if self.must_call {
            self.answer.hold();
        }
    }
}

/// The error of a leg whose client is gone.
pub(crate) fn client_left() -> TurnError {
    TurnError::new(ErrorCode::Cancelled, "The client disconnected.")
}

/// What the peer may know. A function over the fields, so that the peer can be borrowed as well.
fn view<'a, C>(
    state: TurnState,
    answer: &'a TurnAnswer,
    calls: &Calls<C>,
    request: Option<&'a TurnRequest>,
) -> TurnView<'a> {
    TurnView {
        request,
        parked: state == TurnState::AwaitingTools,
        visible: answer.visible(),
        text: answer.words(),
        has_answer: answer.has_answer(),
        has_calls: !calls.is_empty(),
        congested: false,
    }
}
