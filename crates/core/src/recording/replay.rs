//! Runs the turn machine on a recording, step by step, and says where it does something else than
//! it did.
//!
//! The machine is given what it was given, at the same times, and asked for what it does exactly
//! as often as then. So a recording from a machine with a bug gives the same with that bug, and
//! something else once the bug is fixed.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::{
    event::EventRecord,
    frame::{self, FrameRecord},
    line::{LineBody, RecordingLine},
    mask::Mask,
    read::Recording,
    request::RequestRecord,
    tree::WireTree,
};
use crate::{
    backend::BackendKind,
    model::{Millis, ids::SessionId},
    peer::{InMessage as _, OutMessage as _, Peer, agent::AgentPeer, child::ChildPeer},
    turn::{Command, Turn, TurnCommand},
};

/// What a replay came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    pub steps: Vec<ReplayStep>,
    /// How many of them differ from the recording.
    pub differences: usize,
    /// The turn was over when the recording ended.
    pub over: bool,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayStep {
    /// Milliseconds since the turn began.
    pub t: u64,
    pub what: ReplayWhat,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReplayWhat {
    /// The machine was given this.
    Given(LineBody),
    /// It did this, as in the recording: a command, or an event for the client.
    Did(LineBody),
    /// It did not do this, which is in the recording.
    Missing(LineBody),
    /// It did this, which is not in the recording.
    Extra(LineBody),
    /// A note about the recording itself, or what only the client side knows.
    Note(LineBody),
}

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRefused {
    #[error("the recording of the backend `{0}` has the plan of another one")]
    OtherPlan(String),
    #[error("the start of the recording is not valid: {0}")]
    Start(&'static str),
    #[error("the recording has more than {} GiB of requests, which a replay does not read", MOST_READ >> 30)]
    TooLarge,
}

/// All requests of a recording together, each as a whole. Each is short in the file, and is read
/// when it is its turn.
const MOST_READ: usize = 4 << 30;

/// Replays a recording.
///
/// # Errors
/// Its start is not that of a turn.
pub fn replay(recording: &Recording) -> Result<Replay, ReplayRefused> {
    replay_within(recording, MOST_READ)
}

/// `left`: so much is read of requests.
fn replay_within(recording: &Recording, left: usize) -> Result<Replay, ReplayRefused> {
    let backend = recording.header.backend().unwrap_or(BackendKind::Agent);
    match backend {
        BackendKind::Agent => run::<AgentPeer>(recording, backend, left),
        BackendKind::Cli | BackendKind::Acp => run::<ChildPeer>(recording, backend, left),
    }
}

fn run<P: Peer>(
    recording: &Recording,
    backend: BackendKind,
    left: usize,
) -> Result<Replay, ReplayRefused> {
    let Recording { header, start, lines, .. } = recording;
    let request = start.request.request();
    let plan = P::recorded_plan(start.plan.plan(backend, header.own_tools), &request);
    let plan = plan.ok_or_else(|| ReplayRefused::OtherPlan(header.backend.clone()))?;
    let session = SessionId::parse(&start.session).ok_or(ReplayRefused::Start("its session"))?;
    let seed = start.turn_seed().ok_or(ReplayRefused::Start("its seed"))?;
    let settings = start.settings.settings();
    let turn = Turn::<P>::new(request, plan, session, settings, seed, Millis(0));
    let mut player = Player {
        turn,
        texts: header.texts,
        request: start.request.clone(),
        left,
        out: VecDeque::new(),
        events: VecDeque::new(),
        ids: HashMap::new(),
        steps: Vec::new(),
    };
    player.step(Millis(0), ReplayWhat::Given(LineBody::Start(Box::new(start.clone()))));
    for line in lines {
        player.play(line)?;
    }
    player.finish(lines.last().map_or(Millis(0), |line| Millis(line.t)), recording.is_complete());
    let differs =
        |step: &&ReplayStep| matches!(step.what, ReplayWhat::Missing(_) | ReplayWhat::Extra(_));
    let differences = player.steps.iter().filter(differs).count();
    let over = player.turn.state() == crate::turn::TurnState::Done;
    Ok(Replay { steps: player.steps, differences, over })
}

/// A turn on a recording.
struct Player<P: Peer> {
    turn: Turn<P>,
    texts: bool,
    /// The last request as a whole.
    request: RequestRecord,
    /// So much may still be read of requests.
    left: usize,
    /// What the machine did and the recording has not come to yet.
    out: VecDeque<LineBody>,
    events: VecDeque<LineBody>,
    /// Ids of blobs in the recording, and what this machine calls them: an id is a hash of the
    /// content, and a placeholder has another one.
    ids: HashMap<Bytes, Bytes>,
    steps: Vec<ReplayStep>,
}

impl<P: Peer> Player<P> {
    fn step(&mut self, at: Millis, what: ReplayWhat) {
        self.steps.push(ReplayStep { t: at.0, what });
    }

    fn play(&mut self, line: &RecordingLine) -> Result<(), ReplayRefused> {
        let at = Millis(line.t);
        match &line.body {
            LineBody::Out(_) | LineBody::Open { .. } | LineBody::Close { .. } => {
                self.expect(at, &line.body, true);
            }
            LineBody::Event(_) => self.expect(at, &line.body, false),
            LineBody::Client(_)
            | LineBody::Lost { .. }
            | LineBody::Full
            | LineBody::End
            | LineBody::Unknown => self.step(at, ReplayWhat::Note(line.body.clone())),
            given => {
                self.step(at, ReplayWhat::Given(given.clone()));
                self.give(given, at)?;
            }
        }
        Ok(())
    }

    fn give(&mut self, given: &LineBody, now: Millis) -> Result<(), ReplayRefused> {
        let turn = &mut self.turn;
        match given {
            LineBody::Opened => turn.on_opened(now),
            LineBody::In(frame) => {
                let ids = &self.ids;
                let renamed = |mut tree: WireTree| {
                    tree.rename_ids(ids);
                    tree
                };
                let message = frame.message_heard(renamed).and_then(P::In::from_link);
                if let Some(message) = message {
                    turn.on_message(message, now);
                }
            }
            LineBody::LinkError { error } => turn.on_link_error(&error.error(), now),
            LineBody::Eof => turn.on_eof(now),
            LineBody::Timeout => turn.on_timeout(now),
            LineBody::Reading { reading } => turn.set_reading(*reading, now),
            LineBody::Aborted(error) => turn.abort(error.error()),
            LineBody::Resumed(request) => {
                let before = std::mem::replace(&mut self.request, RequestRecord::clone(request));
                self.request.complete(before);
                let left = self.left.checked_sub(self.request.size());
                self.left = left.ok_or(ReplayRefused::TooLarge)?;
                let request = self.request.request();
                // A turn that cannot be resumed says so by what it does not do.
                let _ = turn.resume(request, now);
            }
            LineBody::Retries { left } => turn.allow_retries(*left),
            LineBody::Relieved => turn.relieve(),
            LineBody::Cut { shown } => {
                let _ = turn.cut(shown.clone());
            }
            LineBody::AskedAgain { text } => {
                let _ = turn.ask_again(text);
            }
            LineBody::Shown { text } => turn.show_only(text.clone()),
            LineBody::UsageNoted(usage) => turn.note_usage(&usage.usage()),
            _ => {}
        }
        Ok(())
    }

    /// The recording says that the machine did this.
    fn expect(&mut self, at: Millis, expected: &LineBody, command: bool) {
        let Some(first) = self.next(command) else {
            return self.step(at, ReplayWhat::Missing(expected.clone()));
        };
        if self.agrees(expected, &first) {
            return self.did(at, expected, first);
        }
        // Something was added, or something is missing: the next one shows which.
        match self.next(command) {
            Some(second) if self.agrees(expected, &second) => {
                self.step(at, ReplayWhat::Extra(first));
                self.did(at, expected, second);
            }
            second => {
                self.step(at, ReplayWhat::Missing(expected.clone()));
                let waiting = if command { &mut self.out } else { &mut self.events };
                second.into_iter().for_each(|second| waiting.push_front(second));
                waiting.push_front(first);
            }
        }
    }

    fn did(&mut self, at: Millis, expected: &LineBody, done: LineBody) {
        if let (LineBody::Out(expected), LineBody::Out(done)) = (expected, &done) {
            self.learn(expected, done);
        }
        self.step(at, ReplayWhat::Did(done));
    }

    /// Learns what the recording calls the blobs of this machine.
    fn learn(&mut self, recorded: &FrameRecord, done: &FrameRecord) {
        if let (Some(recorded), Some(done)) = (recorded.tree(), done.tree()) {
            let ids = &mut self.ids;
            recorded.pair_ids(&done, &mut |recorded, ours| {
                if recorded != ours {
                    ids.insert(recorded.clone(), ours.clone());
                }
            });
        }
    }

    fn next(&mut self, command: bool) -> Option<LineBody> {
        // What the replay does is compared as it is: the placeholders are in it already.
        let mask = &mut Mask::with_texts();
        if !command {
            let waiting = self.events.pop_front();
            return waiting.or_else(|| {
                let event = self.turn.poll_event()?;
                Some(LineBody::Event(self.without_texts(EventRecord::of(&event, mask))))
            });
        }
        if let Some(waiting) = self.out.pop_front() {
            return Some(waiting);
        }
        self.turn.poll_command().and_then(|command| done::<P>(&command, mask))
    }

    /// A recording with placeholders has no texts in its events.
    fn without_texts(&self, event: EventRecord) -> EventRecord {
        if self.texts {
            return event;
        }
        match event {
            EventRecord::Text { bytes, .. } => EventRecord::Text { bytes, text: None },
            EventRecord::Reasoning { bytes, .. } => EventRecord::Reasoning { bytes, text: None },
            EventRecord::CallArguments { id, bytes, .. } => {
                EventRecord::CallArguments { id, bytes, text: None }
            }
            event => event,
        }
    }

    fn agrees(&self, expected: &LineBody, done: &LineBody) -> bool {
        match (expected, done) {
            (LineBody::Out(expected), LineBody::Out(done)) => expected.agrees(done, self.texts),
            (LineBody::Event(expected), LineBody::Event(done)) => expected.agrees(done, self.texts),
            (
                LineBody::Open { fresh_token, prefer_h1, resumes, tools, .. },
                LineBody::Open {
                    fresh_token: other_token,
                    prefer_h1: other_h1,
                    resumes: other_resumes,
                    tools: other_tools,
                    ..
                },
            ) if !self.texts => {
                (fresh_token, prefer_h1, resumes, tools)
                    == (other_token, other_h1, other_resumes, other_tools)
            }
            _ => expected == done,
        }
    }

    /// What the machine did beyond the recording. One that lacks its end says nothing about that.
    fn finish(&mut self, at: Millis, complete: bool) {
        for command in [true, false] {
            while let Some(extra) = self.next(command).filter(|_| complete) {
                self.step(at, ReplayWhat::Extra(extra));
            }
        }
    }
}

/// A command of the machine, as a recording has it.
fn done<P: Peer>(command: &TurnCommand<P>, mask: &mut Mask) -> Option<LineBody> {
    Some(match command {
        Command::Open(link) => {
            let open = P::record_open(&link.peer);
            LineBody::Open {
                fresh_token: link.fresh_token,
                prefer_h1: open.prefer_h1,
                allowed_tools: open.allowed_tools,
                model: open.model,
                resumes: open.resumes,
                tools: open.tools,
            }
        }
        Command::Send(message) => {
            LineBody::Out(frame::sent(&message.to_link(), mask).into_iter().next()?)
        }
        Command::Close { cancel } => LineBody::Close { cancel: *cancel },
    })
}

impl Replay {
    /// For tests with a recording as their fixture.
    ///
    /// # Errors
    /// The text is not a recording, or the replay gives something else than it has: a list of what.
    pub fn same_as_recorded(text: &str) -> Result<Self, String> {
        let recording = Recording::read(text).map_err(|error| error.to_string())?;
        let replay = replay(&recording).map_err(|error| error.to_string())?;
        let differences: Vec<String> = replay
            .steps
            .iter()
            .filter_map(|step| match &step.what {
                ReplayWhat::Missing(body) => Some(format!("{} ms: missing: {body}", step.t)),
                ReplayWhat::Extra(body) => Some(format!("{} ms: extra: {body}", step.t)),
                ReplayWhat::Given(_) | ReplayWhat::Did(_) | ReplayWhat::Note(_) => None,
            })
            .collect();
        if differences.is_empty() { Ok(replay) } else { Err(differences.join("\n")) }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
