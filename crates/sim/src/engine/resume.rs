//! Interrupted turns: what is remembered of one, and how a later run resumes it.
//!
//! A resume with a state that the turn had, or with none, is the same turn on a new transport:
//! it continues where it stopped. Any other state is a turn that the client has rebuilt, and
//! only the contents of the state count.

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{ConversationStateStructure, UserMessage};
use serde_json::Value;

use super::run::SimRun;
use crate::{
    blobs::{BlobId, id_of},
    prompt::{CalledNames, HistoryMessage},
    record::add,
    scenario::{ExecStep, ScenarioStep},
};

/// Where an interrupted turn stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InterruptedTurn {
    pub(crate) rule: Option<usize>,
    pub(crate) step: usize,
    /// Text of that step that was not sent.
    pub(crate) rest: Option<String>,
    /// What the user had asked.
    pub(crate) text: String,
    user: Option<UserMessage>,
    messages: Vec<Value>,
    steps: Vec<Bytes>,
    states: Vec<KnownState>,
}

/// A state of a turn that the client has, and how much of the turn it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownState {
    id: BlobId,
    /// Messages and steps of the turn; `None`: not even the user's message.
    holds: Option<(usize, usize)>,
}

/// How a resumed run begins.
#[derive(Debug, Default)]
pub(crate) struct ResumePoint {
    pub(crate) step: usize,
    pub(crate) rest: Option<String>,
    /// Whether the simulator remembers the turn.
    pub(crate) known: bool,
}

impl SimRun {
    /// Records a state that the client has from now on.
    pub(crate) fn remember_state(&mut self, state: &ConversationStateStructure, with_turn: bool) {
        let holds = with_turn.then_some((self.log.messages.len(), self.log.steps.len()));
        self.log.states.push(KnownState { id: state_id(state), holds });
    }

    /// Remembers where this turn stopped, so that it can be resumed.
    pub(crate) fn save(&mut self) {
        if self.turn_ended || self.prompt.conversation.is_empty() {
            return;
        }
        let rest =
            self.saying.take().map(|(text, at)| text.get(at..).unwrap_or_default().to_owned());
        // All text was sent, and only the end is missing.
        let rest = rest.or_else(|| self.played.then(String::new));
        // A fault happens once; the resumed turn continues after it.
        let rules = &self.sim().config.scenario.rules;
        let struck = self
            .rule
            .and_then(|rule| rules.get(rule)?.steps.get(self.at_step))
            .is_some_and(|step| matches!(step, ScenarioStep::Fault(_)));
        let saved = InterruptedTurn {
            rule: self.rule,
            step: self.at_step + usize::from(struck),
            rest,
            text: self.prompt.text.clone(),
            user: self.prompt.user_message.clone(),
            messages: std::mem::take(&mut self.log.messages),
            steps: std::mem::take(&mut self.log.steps),
            states: std::mem::take(&mut self.log.states),
        };
        self.sim().conversations.save(&self.prompt.conversation, saved);
    }

    /// Restores the turn that this run resumes, if it is remembered.
    pub(crate) fn find_resume_point(&mut self) -> ResumePoint {
        let mut start = ResumePoint::default();
        if self.prompt.resume {
            add(&self.sim().counters().resumes);
            let saved = self.sim().conversations.take_saved(&self.prompt.conversation);
            if let Some(saved) = saved {
                start = self.take_over_turn(saved);
            }
        }
        let state = self.prompt.state.clone();
        let asked_before = !self.prompt.asks_anew();
        self.log.states.clear();
        self.log
            .states
            .push(KnownState { id: state_id(&state), holds: asked_before.then_some((0, 0)) });
        start
    }

    fn take_over_turn(&mut self, saved: InterruptedTurn) -> ResumePoint {
        let id = state_id(&self.prompt.state);
        let bare = id == state_id(&ConversationStateStructure::default());
        let known = saved.states.iter().rev().find(|known| known.id == id);
        let holds = match known {
            Some(known) => known.holds,
            None if bare => None,
            None => return ResumePoint::default(),
        };
        let (messages, steps) = holds.unwrap_or_default();
        if holds.is_none() {
            self.prompt.user_message = saved.user;
        }
        self.log.messages = saved.messages.into_iter().skip(messages).collect();
        self.log.steps = saved.steps.into_iter().skip(steps).collect();
        self.prompt.text = saved.text;
        self.rule = saved.rule;
        ResumePoint { step: saved.step, rest: saved.rest, known: true }
    }

    /// Results that this turn already has: from its history when the turn was rebuilt or comes
    /// from a checkpoint, and from the turn itself.
    pub(crate) fn results(&self) -> Vec<HistoryMessage> {
        let mut results = Vec::new();
        if !self.prompt.asks_anew() {
            let history = self.prompt.history.iter().rev();
            results.extend(
                history
                    .take_while(|said| said.role != "user" || said.is_result())
                    .filter(|said| said.is_result())
                    .cloned(),
            );
            results.reverse();
        }
        let names = CalledNames::new(&self.log.messages);
        let said =
            self.log.messages.iter().flat_map(|message| HistoryMessage::all(message, &names));
        results.extend(said.filter(HistoryMessage::is_result));
        results
    }

    /// Whether the model has already answered in a resumed turn.
    pub(crate) fn answered_already(&self) -> bool {
        let last = self.prompt.history.last();
        !self.prompt.asks_anew() && last.is_some_and(|said| said.role == "assistant" && !said.calls)
    }
}

/// The step after the calls of a script that already have results.
pub(crate) fn step_after_results(steps: &[ScenarioStep], results: usize) -> usize {
    let calls = |execs: &[ExecStep]| execs.iter().filter(|exec| exec.arm == "mcp").count();
    let (mut seen, mut at) = (0, 0);
    for (number, step) in steps.iter().enumerate() {
        seen += match step {
            ScenarioStep::Exec(exec) => calls(std::slice::from_ref(exec)),
            ScenarioStep::Execs(execs) => calls(execs),
            ScenarioStep::Batch(steps) => steps
                .iter()
                .filter(|s| matches!(s, ScenarioStep::Exec(e) if e.arm == "mcp"))
                .count(),
            _ => 0,
        };
        if seen > results {
            break;
        }
        if seen > 0
            && matches!(
                step,
                ScenarioStep::Exec(_) | ScenarioStep::Execs(_) | ScenarioStep::Batch(_)
            )
        {
            at = number + 1;
        }
    }
    at
}

fn state_id(state: &ConversationStateStructure) -> BlobId {
    id_of(&state.to_wire())
}
