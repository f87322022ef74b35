//! One turn that a child runs, from its start to the one ending, over as many runs as it
//! takes.
//!
//! A tool call ends the answer to one request but not the turn: the child waits for the
//! result of its MCP call until [`Turn::resume`] brings it, and then gives the answer to
//! that request.
//!
//! Feed it with `on_*`; after each call, carry out [`Turn::poll_command`] and pass on
//! [`Turn::poll_event`] until both give `None`, then call [`Turn::on_timeout`] no later
//! than [`Turn::poll_deadline`].

mod call;
mod clocks;
mod endings;
mod inbound;
mod name;
mod recovery;
mod results;
mod run;
mod tools;
mod usage;

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use self::{
    call::Call,
    recovery::{Tried, from_link},
    run::{Link, Run},
};
use super::{
    FromChild, Speaker,
    prompt::{Rules, Telling},
};
use crate::{
    agent::{DriftReport, Kept, LinkError, Settings},
    answer::Answer,
    error::{ErrorCode, TurnError},
    guard::LoopGuard,
    history,
    model::{Millis, Tool, TurnEvent, TurnRequest, ids::SessionId},
    turn::{
        Command, Phase,
        draws::Draws,
        results::{Offer, note_loops, offered},
    },
};

/// What a turn needs besides the client's request.
#[derive(Debug)]
pub struct Plan {
    /// Makes the speaker of each run.
    pub speaker: fn() -> Box<dyn Speaker>,
    /// The model as the child spells it.
    pub model: String,
    pub conversation_id: String,
    /// Names the turn in the ids of its tool calls.
    pub session: SessionId,
    /// The child can look at images.
    pub images: bool,
    /// So much text of one result is told.
    pub result_bytes: usize,
    /// Go on from here instead of telling the history again.
    pub kept: Option<Kept>,
}

/// What of an answer its client did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    All,
    /// The child was stopped half-way.
    Cut,
    /// The answer came in another way than the child remembers.
    Other,
}

#[derive(Debug)]
pub struct Turn {
    speaker: fn() -> Box<dyn Speaker>,
    model: String,
    conversation_id: String,
    workspace: Option<String>,
    rules: Rules,
    settings: Settings,
    draws: Draws,
    /// When the request came that is being answered.
    started: Millis,
    link: Link,
    answer: Answer,
    commands: VecDeque<Command>,
    /// What a run that begins now is told.
    telling: Telling,
    /// The child's name for the conversation.
    name: Option<String>,
    shown: Shown,
    /// The request that is being answered.
    request: Option<Box<TurnRequest>>,
    /// It tells nothing of what came before.
    bare: bool,
    /// The next one may not contain it either: it names its conversation.
    named: bool,

    session: SessionId,
    call_count: u32,
    calls: Vec<Call>,
    loops: LoopGuard,
    /// The tools that are hosted for the child.
    tools: Arc<[Tool]>,
    /// The client has calls to answer.
    awaiting: bool,
    offer: Offer,
    one_by_one: bool,
    /// `tool_choice` leaves the model no other way.
    must_call: bool,
    /// Tokens of the legs before, and what this one adds to them.
    counted: Option<u64>,
    new_texts: Vec<String>,

    tried: Tried,
    /// What the speakers of earlier runs did not understand.
    unknown: u64,
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
        let Plan { speaker, model, conversation_id, session, images, result_bytes, kept } = plan;
        let new = history::split(&request.items);
        let past = request.items.get(..new).unwrap_or_default();
        let mut loops = LoopGuard::from_history(settings.max_repeat, past);
        note_loops(&mut loops, &mut request, new, |_| true);
        let known = kept.and_then(|kept| Some((name::read(&kept.checkpoint)?, kept)));
        let telling = known.map(|(name, kept)| Telling {
            resume: Some(name),
            covers: kept.covers,
            calls: kept.calls,
            new_setup: kept.new_setup,
            ..Telling::default()
        });
        let mut turn = Self {
            speaker,
            model,
            conversation_id,
            workspace: request.hints.workspace.clone(),
            rules: Rules { result_bytes, images },
            settings,
            draws: Draws::new(seed),
            started: now,
            link: Link::Done,
            answer: Answer::default(),
            commands: VecDeque::new(),
            telling: telling.unwrap_or_default(),
            name: None,
            shown: Shown::All,
            request: None,
            bare: new == 0,
            named: request.hints.session.is_some(),
            session,
            call_count: 0,
            calls: Vec::new(),
            loops,
            tools: offered(&request).into_owned().into(),
            awaiting: false,
            offer: Offer::default(),
            one_by_one: false,
            must_call: false,
            counted: None,
            new_texts: Vec::new(),
            tried: Tried::default(),
            unknown: 0,
        };
        turn.demand(&request);
        turn.request = Some(Box::new(request));
        turn.open();
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
            Link::Waiting { .. } | Link::Opening => Phase::Opening,
            Link::Open(_) if self.awaiting => Phase::AwaitingTools,
            Link::Open(_) => Phase::Streaming,
            Link::Done => Phase::Done,
        }
    }

    /// Somebody looks after the child that [`Command::Open`] asked for.
    pub fn on_opened(&mut self, now: Millis) {
        if matches!(self.link, Link::Opening) {
            self.link = Link::Open(Box::new(Run::new((self.speaker)(), now)));
        }
    }

    /// News of the child.
    pub fn on_child(&mut self, heard: FromChild, now: Millis) {
        let Link::Open(run) = &mut self.link else { return };
        run.last_heard = now;
        match heard {
            FromChild::Ready(ready) => self.begin_run(&ready, now),
            FromChild::Output(bytes) => {
                run.speaker.on_output(bytes);
                self.hear(now);
            }
            FromChild::Call(call) => self.on_hosted_call(call, now),
            FromChild::Dropped(id) => self.on_dropped(id),
            FromChild::Exited(exit) => {
                run.speaker.on_exit(&exit);
                self.hear(now);
                // Its speaker had said before that it is over, or says nothing at all.
                self.on_eof(now);
            }
        }
    }

    /// There is no child, or none any more.
    pub fn on_link_error(&mut self, error: &LinkError, now: Millis) {
        if matches!(self.link, Link::Opening | Link::Open(_)) && !self.settle() {
            self.recover(from_link(error), now);
        }
    }

    /// Whoever looked after the child is gone.
    pub fn on_eof(&mut self, now: Millis) {
        let gone = LinkError::Reset("its process exited".to_owned());
        if matches!(self.link, Link::Open(_)) {
            self.on_link_error(&gone, now);
        }
    }

    /// The client is gone: tell the child to stop.
    pub fn cancel(&mut self) {
        self.abort(TurnError::new(ErrorCode::Cancelled, "The client disconnected."));
    }

    /// Ends the turn with this error and tells the child to stop.
    pub fn abort(&mut self, error: TurnError) {
        match self.phase() {
            Phase::Opening | Phase::Streaming => self.fail(error),
            // The client has its ending already.
            Phase::AwaitingTools => self.let_go(true),
            Phase::Done => {}
        }
    }

    /// The name by which the child goes on with this conversation, if that leaves nothing
    /// out.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Bytes> {
        let whole = match self.shown {
            Shown::All => true,
            Shown::Cut => false,
            // A client that sends only what is new has no other way to continue.
            Shown::Other => self.bare || self.named,
        };
        self.name.as_deref().filter(|_| whole).map(name::write)
    }

    /// About how many bytes the turn holds.
    #[must_use]
    pub fn memory(&self) -> usize {
        let request =
            self.request.as_ref().map_or(0, |request| request.texts().map(str::len).sum());
        size_of::<Self>() + request + self.answer.memory() + self.held_bytes()
    }

    /// What was not understood so far.
    #[must_use]
    pub fn drift(&self) -> DriftReport {
        let present = match &self.link {
            Link::Open(run) => run.speaker.unknown(),
            Link::Waiting { .. } | Link::Opening | Link::Done => 0,
        };
        DriftReport { unknown_arms: self.unknown + present, ..DriftReport::default() }
    }

    #[must_use]
    pub fn conversation_id(&self) -> &str {
        &self.conversation_id
    }
}

#[cfg(test)]
mod tests;
