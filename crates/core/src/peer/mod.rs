//! The other side of a turn: a backend's wire, as the turn machine sees it. A [`Peer`] reads and
//! writes the messages of one protocol and reports what they mean; it decides nothing about
//! clients, retries or clocks of the whole turn. Each wire is a folder of its own.

pub mod acp;
pub mod agent;
mod blocks;
mod cap;
pub mod child;
pub(crate) mod classify;
pub mod cli;
pub(crate) mod conversation;
mod drift;
mod link;
mod recorded;
#[cfg(test)]
pub(crate) mod testing;
mod words;

use std::{fmt, time::Duration};

use bytes::Bytes;

pub(crate) use self::drift::Drift;
pub use self::{
    classify::{PeerFailure, Remedy, SIGN_IN},
    drift::DriftReport,
    link::LinkError,
    recorded::{AgentPlanRecord, ChildPlanRecord, LinkMessage, OpenRecord, PlanRecord},
};
use crate::error::TurnError;
use crate::model::{FinishReason, Millis, Part, ToolCall, ToolResult, TurnRequest, Usage};

/// One protocol that turns are run over. It lives as long as the turn, over all its links.
///
/// The turn feeds it with `on_*` and then calls [`Peer::poll`] until that gives nothing. What a
/// peer may have to know of the turn comes with each call, as a [`TurnView`].
pub trait Peer: fmt::Debug + Send + Sized + 'static {
    /// What the peer needs besides the client's request.
    type Plan: fmt::Debug + Send;
    /// What a link is opened with.
    type Open: Clone + fmt::Debug + Send + 'static;
    /// A message to the backend.
    type Out: OutMessage;
    /// What comes from the backend.
    type In: InMessage;
    /// What the backend needs to recognise the result of a call.
    type Call: fmt::Debug + Send;

    /// How long the backend may be silent about calls that it said would come, while others
    /// are there. Then the client gets those.
    const CALL_PATIENCE: Duration = Duration::from_secs(10);

    fn new(request: &TurnRequest, plan: Self::Plan) -> Self;

    // === the link ===

    /// A link is about to be opened; returns what it is opened with.
    fn open(&mut self) -> Self::Open;
    /// The link is open.
    fn on_opened(&mut self, clocks: &TurnClocks, now: Millis);
    fn on_message(&mut self, message: Self::In, now: Millis);
    /// The link is gone: it broke, or, without an error, it ended. `None`: the run had already
    /// ended, so nothing is lost.
    fn on_lost(&mut self, error: Option<&LinkError>) -> Option<PeerFailure>;
    /// The turn releases the link. Pushes the messages that are still to be sent, and returns
    /// whether the link must be reset so that the backend stops working.
    fn leave(&mut self, how: LinkRelease, out: &mut Vec<Self::Out>) -> bool;
    /// Whether the backend said anything that concerns the turn on this link.
    fn heard(&self) -> bool;

    // === what it says ===

    /// The next message or event of the peer.
    fn poll(
        &mut self,
        turn: &TurnView<'_>,
        clocks: &TurnClocks,
        now: Millis,
    ) -> Option<PeerOutput<Self::Out, Self::Call>>;
    /// When [`Self::on_timeout`] is due at the latest.
    fn deadline(&self, turn: &TurnView<'_>, clocks: &TurnClocks) -> Option<Millis>;
    fn on_timeout(&mut self, turn: &TurnView<'_>, clocks: &TurnClocks, now: Millis);
    /// Whether the caller reads the link; while it does not, silence proves nothing about
    /// the backend.
    fn set_reading(&mut self, reading: bool, now: Millis);
    /// When the backend last did something other than send heartbeats.
    fn last_progress(&self) -> Millis;

    // === another run: the defaults are those of a wire that cannot resume one ===

    /// Whether the link that is open, or opened next, resumes an interrupted run.
    fn resumes(&self) -> bool {
        false
    }
    /// Whether an interrupted run can be resumed so that the client sees nothing twice.
    fn can_resume(&self, _: &TurnView<'_>) -> bool {
        false
    }
    /// The next link resumes the interrupted run.
    fn resume_run(&mut self) {}
    /// The next link repeats the run from its beginning.
    fn repeat_run(&mut self) {}
    /// Whether the first message of a run lacks results that came later, so that a repeated
    /// run would not know them.
    fn lacks_results(&self) -> bool {
        false
    }
    /// Whether the whole conversation can be sent again.
    fn can_rebuild(&self) -> bool {
        true
    }
    /// Applies the remedy to the request, if it can. Returns which run is then worthwhile. Each
    /// change is made at most once.
    fn adapt(&mut self, _remedy: Remedy, _error: &TurnError) -> Adapted {
        Adapted::Not
    }
    /// The next link sends the whole conversation, under this id if there is one.
    fn rebuild(&mut self, conversation_id: Option<String>, turn: &TurnView<'_>);
    /// The next link asks for something beyond the request. `answered`: the model's answer to it
    /// that the client saw.
    fn ask_more(&mut self, text: &str, answered: Option<&str>, turn: &TurnView<'_>);

    // === legs ===

    /// Whether the link can stay open while the client runs its tools.
    fn can_park(&self) -> bool {
        true
    }
    /// The leg ends with calls, and the link waits for their results.
    fn end_leg(&mut self, _text: &str) {}
    /// A request brings the results of these calls in its items from `new` on.
    fn begin_leg(
        &mut self,
        request: &TurnRequest,
        new: usize,
        calls: Vec<ToolCall>,
        clocks: &TurnClocks,
        now: Millis,
    );
    /// The client has this call.
    fn on_handed_out(&mut self, _call: &Self::Call) {}
    /// Sends the result of a call, and after it the user's messages next to the results. Returns
    /// the texts that the model reads.
    fn send_result(
        &mut self,
        call_id: &str,
        call: &Self::Call,
        result: Option<&ToolResult>,
        beside: Vec<Part>,
    ) -> Vec<String>;

    // === what is kept ===

    /// What the client saw of the leg, if that differs from the backend's output.
    fn set_shown(&mut self, shown: Shown);
    /// The state from which this conversation can continue, if there is one that lacks
    /// nothing. This may add blobs, so ask for those afterwards.
    fn checkpoint(&mut self, turn: &TurnView<'_>) -> Option<Bytes>;
    /// The blobs (ids and contents) that came since the last call.
    fn take_new_blobs(&mut self) -> Vec<(Bytes, Bytes)> {
        Vec::new()
    }
    fn conversation_id(&self) -> &str;
    /// What the model reads, for counting tokens when the backend does not: texts, and the
    /// number of images. `None`: the request that is needed for it is gone.
    fn prompt_texts(&self, turn: &TurnView<'_>) -> Option<(Vec<String>, usize)>;
    /// The approximate number of bytes that it holds.
    fn memory(&self) -> usize {
        0
    }
    /// Unknown messages and fields so far.
    fn drift(&self) -> DriftReport;

    /// What keeps a parked link alive, if that is needed.
    fn heartbeat() -> Option<Bytes> {
        None
    }
    /// The connection sends the heartbeats of this parked link until it is used again.
    fn relieve(&mut self) {}

    // === recordings ===

    /// What a recording keeps of a plan, and the plan of a recorded turn. `None`: it is that of
    /// another peer.
    fn record_plan(plan: &Self::Plan) -> PlanRecord;
    fn recorded_plan(record: PlanRecord, request: &TurnRequest) -> Option<Self::Plan>;
    /// What a recording keeps of how a link is opened.
    fn record_open(open: &Self::Open) -> OpenRecord;
}

/// What follows from [`Peer::adapt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapted {
    /// Nothing was changed.
    Not,
    /// The same run once more, changed.
    Repeat,
    /// The whole conversation once more, under another id.
    Rebuild,
}

/// A message on its way to the backend.
pub trait OutMessage: Clone + fmt::Debug + Send + Sync + 'static {
    /// About how many bytes wait while it does.
    fn bytes(&self) -> usize;
    fn to_link(&self) -> LinkMessage;
}

/// A message from the backend.
pub trait InMessage: fmt::Debug + Send + Sized + 'static {
    /// About how much of it the turn may have to hold.
    fn bytes(&self) -> usize;
    fn to_link(&self) -> LinkMessage;
    /// `None`: it is a message of another peer.
    fn from_link(message: LinkMessage) -> Option<Self>;
}

impl OutMessage for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::Bytes(self.clone())
    }
}

impl InMessage for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::Bytes(self.clone())
    }

    fn from_link(message: LinkMessage) -> Option<Self> {
        match message {
            LinkMessage::Bytes(bytes) => Some(bytes),
            LinkMessage::FromChild(_) | LinkMessage::ToChild(_) => None,
        }
    }
}

/// What a peer may know of its turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnView<'a> {
    /// The request that is being answered.
    pub request: Option<&'a TurnRequest>,
    /// The turn is parked: the client has calls to answer.
    pub parked: bool,
    /// Grows with everything the client sees, from leg to leg.
    pub visible: u64,
    /// The text of the present leg so far.
    pub text: &'a str,
    /// There is an answer to give, streamed or stored.
    pub has_answer: bool,
    /// There are calls that the client has yet to see or to answer.
    pub has_calls: bool,
    /// Much waits to be sent. A peer gives what it has, but reads no further message that may need
    /// an answer; it is polled again once there is room.
    pub congested: bool,
}

/// What a peer has for its turn.
#[derive(Debug)]
pub enum PeerOutput<M, C> {
    Send(M),
    Event(PeerEvent<C>),
}

/// What the backend's messages mean.
#[derive(Debug)]
pub enum PeerEvent<C> {
    /// The backend is at work on the leg.
    Started,
    Text(String),
    Reasoning(String),
    /// Something that the backend did by itself, in one line.
    Did(String),
    /// The answer as the backend stored it; it may not have been streamed.
    StoredText(String),
    /// More tokens of output.
    OutputTokens(i32),
    /// The size of the context.
    ContextTokens(u64),
    /// The numbers of the whole run.
    RunTokens(RunTokens),
    /// One more call will come; nothing else is known of it.
    CallExpected,
    /// This many more calls will come before the backend waits for results.
    CallsAhead(usize),
    /// The backend waits for the result of this call.
    Call(Box<PeerCall<C>>),
    /// The backend no longer wants the call with this key.
    CallWithdrawn(u64),
    /// The backend gave up waiting for the call with this key. If the client has it, its
    /// result can only be sent in a new run.
    CallLost(u64),
    /// No more calls come before the results of those that are there.
    BatchComplete,
    /// Something the backend asked for was refused.
    Refused,
    /// The answer is complete.
    Ended(FinishReason),
    /// There will be no answer, or no more of it.
    Failed(Box<PeerFailure>),
}

/// A call that the backend waits for.
#[derive(Debug)]
pub struct PeerCall<C> {
    /// Names the call in [`PeerEvent::CallWithdrawn`] and [`PeerEvent::CallLost`].
    pub key: u64,
    /// The client's name for its tool.
    pub name: String,
    /// JSON text.
    pub arguments: String,
    /// The model called the client's own tool, rather than a built-in one that the client's
    /// stands in for. Only such a result has room for words beside it.
    pub is_client_tool: bool,
    /// What the peer needs for the result.
    pub call: C,
}

/// How a turn releases a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRelease {
    /// The backend has finished its work in order.
    Finished,
    /// The backend has finished its answer, and another run follows.
    Answered,
    /// The backend is still at work and must stop.
    Working,
    /// Another link takes over.
    Replaced,
}

/// What the client saw of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    All,
    /// The backend was stopped half-way. The text, if it is known.
    Cut(Option<String>),
    /// The answer came in another form than the backend remembers. The text, if it is known.
    Other(Option<String>),
}

/// What was kept of a conversation: its newest state, and every blob that this names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    pub checkpoint: Bytes,
    /// Ids and contents.
    pub blobs: Vec<(Bytes, Bytes)>,
    /// How many items of the request, from its start, the state covers.
    pub covers: usize,
    /// Calls that were handed out after the checkpoint was made; their results are new.
    pub calls: Vec<ToolCall>,
    /// The request has another system prompt or other tools than the state was made with.
    pub new_setup: bool,
}

/// The tokens of a whole run, as far as the backend reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTokens {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
}

impl From<Usage> for RunTokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: Some(usage.input),
            output: Some(usage.output),
            cache_read: Some(usage.cache_read),
            cache_write: Some(usage.cache_write),
            reasoning: Some(usage.reasoning),
        }
    }
}

/// The timeouts of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnClocks {
    /// Our own heartbeat.
    pub heartbeat: Duration,
    /// No frame at all, heartbeats included: the connection is dead.
    pub no_frame: Duration,
    /// Only heartbeats: the model is quiet. Five minutes before the first token
    /// have been seen on healthy turns.
    pub heartbeat_only: Duration,
    /// The whole turn, whatever happens.
    pub whole_turn: Duration,
    /// How long to wait for the end frame once the turn said it is over: an error
    /// may still follow.
    pub end_wait: Duration,
    /// Some hosts neither end the turn nor the stream. After text, then storage
    /// messages, then only heartbeats for this long, the answer is complete.
    pub quiet_end: Duration,
    /// How long to wait for further parallel tool calls.
    pub tool_batch: Duration,
}

impl Default for TurnClocks {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            no_frame: Duration::from_secs(45),
            heartbeat_only: Duration::from_secs(600),
            whole_turn: Duration::from_secs(1800),
            end_wait: Duration::from_secs(2),
            quiet_end: Duration::from_secs(25),
            tool_batch: Duration::from_millis(25),
        }
    }
}
