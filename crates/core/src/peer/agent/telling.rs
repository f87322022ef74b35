//! The conversation as the first message of a run contains it: in one of the forms, or from a state
//! that was kept.

use std::borrow::Cow;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{ConversationStateStructure, RequestContext, UserMessage};

use super::{
    forms::HistoryForm,
    request::{RunAction, RunSpec, RunState},
    roots::{self, EntryStyle},
    state,
};
use crate::{
    model::{Item, Message, Part, Role, TurnRequest},
    peer::{
        StoredState,
        conversation::{GO_ON, instructions},
    },
};

/// What the model is asked after the results of its calls, where that needs words.
const AFTER_RESULTS: &str =
    "The results of your tool calls are above. Continue with the task; do not repeat the calls.";

impl RunSpec {
    /// Tells the whole conversation of `request`.
    pub(super) fn rebuild(&mut self, request: &TurnRequest) {
        match instructions(request).1 {
            Some(question) => self.tell(&[], ask(question, 0)),
            None => {
                let (history, action) = split(&request.items);
                self.tell(history, action);
            }
        }
    }

    /// Asks for what an answer lacked: after the newest state, or after everything that
    /// `request` has.
    pub(super) fn insist(&mut self, request: &TurnRequest, newest: Option<Bytes>, text: &str) {
        let question = ask(text, request.items.len());
        match newest {
            Some(state) => self.go_on_with(state, &[], question, None),
            None => self.tell(&request.items, question),
        }
    }

    /// Continues from this state, with nothing new to say.
    pub(super) fn go_on_from(&mut self, state: Bytes) {
        self.go_on_with(state, &[], RunAction::Continue, None);
    }

    /// This state, and these items behind it.
    pub(super) fn append(&mut self, state: &Bytes, items: &[Item]) -> Bytes {
        let (style, most) = (self.style(), self.around.facts.max_roots);
        state::append(state, items, style, most, &mut self.blobs)
    }

    /// All that the first message contains, as a state to continue from.
    pub(super) fn told(&mut self) -> Bytes {
        let told: Bytes = match &self.state {
            RunState::Built(state) => state.to_wire(),
            RunState::Kept(bytes) => bytes.clone(),
        };
        let asked: Vec<Item> = self.action.asked().into_iter().collect();
        self.append(&told, &asked)
    }

    /// Continues from a kept state with what `request` has beyond it.
    pub(super) fn go_on(&mut self, request: &TurnRequest, kept: StoredState) {
        for (id, data) in kept.blobs {
            self.blobs.restore(id, data);
        }
        let (history, action) = split(&request.items);
        let history = history.get(kept.covers..).unwrap_or_default();
        // A result means nothing to a model that does not see its call.
        let calls = kept.calls.into_iter().map(Item::ToolCall);
        let items: Vec<Item> = calls.chain(history.iter().cloned()).collect();
        let system = kept.new_setup.then(|| self.system_text());
        self.go_on_with(kept.checkpoint, &items, action, system);
    }

    /// What is known to the model from elsewhere is not repeated in the request context.
    pub(super) fn context(&self) -> Cow<'_, RequestContext> {
        let context = &self.around.context;
        if !self.has_own_system {
            return Cow::Borrowed(context);
        }
        let mut context = context.clone();
        context.rules.clear();
        context.cloud_rule = None;
        Cow::Owned(context)
    }

    /// The form of the history failed. Returns whether there is another one.
    pub(super) fn use_other_form(&mut self) -> bool {
        self.told && self.form.step()
    }

    /// The form of this run works.
    pub(super) fn learn_form(&mut self) {
        if let (true, Some(form)) = (self.told, self.form.learned()) {
            self.memory.note_history(&self.model.id, form);
            self.told = false;
        }
    }

    fn system_text(&self) -> String {
        let system = self.around.context.cloud_rule.as_deref().unwrap_or_default();
        roots::system_text(system, &self.around.toolbox)
    }

    fn tell(&mut self, history: &[Item], action: RunAction) {
        let rules_lost = self.around.facts.rules_lost;
        (self.told, self.has_own_system) = (!history.is_empty() || rules_lost, false);
        self.has_images = history.iter().any(has_image);
        let form = match self.form.form() {
            // Rules would be lost, so the system prompt is an entry.
            HistoryForm::Transcript | HistoryForm::RulesRoots if rules_lost => {
                HistoryForm::UserRoots
            }
            form => form,
        };
        if history.is_empty() && !rules_lost {
            self.state = RunState::Built(Box::new(state::empty()));
            self.action = action;
            return;
        }
        match form {
            HistoryForm::ResumeRoots => self.tell_as_resumed(history, &action),
            HistoryForm::UserRoots => self.tell_to_user(history, action),
            HistoryForm::Transcript => self.tell_as_text(history, action),
            HistoryForm::RulesRoots => {
                let entries = roots::put(history, self.style(), usize::MAX, &mut self.blobs);
                self.state = RunState::Built(Box::new(ConversationStateStructure {
                    root_prompt_messages_json: entries,
                    turns: vec![state::turn_of(history, &mut self.blobs)],
                    ..state::empty()
                }));
                self.action = action;
            }
        }
    }

    fn style(&self) -> EntryStyle {
        let facts = &self.around.facts;
        EntryStyle {
            tagged: false,
            wrapped: self.form.form() != HistoryForm::RulesRoots,
            image: facts.image_shape,
            aliased: facts.aliases_builtins,
        }
    }

    /// All of the prompt is ours, and is replayed as sent.
    fn tell_as_resumed(&mut self, history: &[Item], action: &RunAction) {
        let mut items = history.to_vec();
        items.extend(action.asked());
        self.has_images = items.iter().any(has_image);
        let mut entries = vec![roots::put_system(&self.system_text(), &mut self.blobs)];
        let most = self.around.facts.max_roots.saturating_sub(1);
        entries.extend(roots::put(&items, self.style(), most, &mut self.blobs));
        self.state = RunState::Built(Box::new(ConversationStateStructure {
            root_prompt_messages_json: entries,
            turns: vec![state::turn_of(&items, &mut self.blobs)],
            agent_type: Some("cli".to_owned()),
            ..state::empty()
        }));
        self.action = RunAction::Continue;
        self.has_own_system = true;
    }

    /// The service puts its own system prompt first, so ours comes behind it.
    fn tell_to_user(&mut self, history: &[Item], action: RunAction) {
        let system = self.system_text();
        let most = self.around.facts.max_roots.saturating_sub(2);
        let mut entries = vec![
            roots::put_system(&system, &mut self.blobs),
            roots::put_rules(&system, &mut self.blobs),
        ];
        entries.extend(roots::put(
            history,
            EntryStyle { tagged: true, ..self.style() },
            most,
            &mut self.blobs,
        ));
        self.state = RunState::Built(Box::new(ConversationStateStructure {
            root_prompt_messages_json: entries,
            ..state::empty()
        }));
        self.action = action.or_ask(AFTER_RESULTS, history.len());
        self.has_own_system = true;
    }

    /// Nothing but the user's text is needed for this.
    fn tell_as_text(&mut self, history: &[Item], action: RunAction) {
        self.state = RunState::Built(Box::new(state::empty()));
        let mut action = action.or_ask(AFTER_RESULTS, history.len());
        if let RunAction::User(message) = &mut action {
            message.text = format!("{}\n\n{}", roots::transcript(history), message.text);
        }
        self.action = action;
    }

    /// A state of the backend's, and what comes behind it. A state whose prompt is all ours is
    /// resumed: otherwise the service would put its own system prompt in the place of ours.
    /// `system`: ours has changed.
    fn go_on_with(
        &mut self,
        state: Bytes,
        items: &[Item],
        action: RunAction,
        system: Option<String>,
    ) {
        self.told = false;
        self.has_own_system = state::first_root(&state)
            .and_then(|id| self.blobs.get(id))
            .is_some_and(|blob| roots::is_our_system(&blob));
        if !self.has_own_system {
            self.state = RunState::Kept(self.append(&state, items));
            self.action = action;
            return;
        }
        let state = match system {
            Some(system) => {
                let entry = roots::put_system(&system, &mut self.blobs);
                state::with_first_root(&state, &entry)
            }
            None => state,
        };
        let asked = action.asked();
        let turn = asked.is_some();
        let items: Vec<Item> = items.iter().cloned().chain(asked).collect();
        let mut state = self.append(&state, &items).to_vec();
        if turn {
            let more = ConversationStateStructure {
                turns: vec![state::turn_of(&items, &mut self.blobs)],
                ..ConversationStateStructure::default()
            };
            state.extend_from_slice(&more.to_wire());
        }
        self.state = RunState::Kept(state.into());
        self.action = RunAction::Continue;
    }
}

impl RunAction {
    /// What the user says with it, as an item of the history.
    fn asked(&self) -> Option<Item> {
        let Self::User(message) = self else { return None };
        Some(Item::Message(user_item(message)))
    }

    /// An action that says something, whatever this one is.
    fn or_ask(self, text: &str, at: usize) -> Self {
        match self {
            Self::User(_) => self,
            Self::Continue => ask(text, at),
        }
    }
}

fn has_image(item: &Item) -> bool {
    match item {
        Item::Message(message) => message.parts.iter().any(|part| matches!(part, Part::Image(_))),
        Item::ToolResult(result) => {
            result.content.iter().any(|content| matches!(content, Part::Image(_)))
        }
        Item::ToolCall(_) | Item::Reasoning(_) => false,
    }
}

fn user_item(message: &UserMessage) -> Message {
    let mut parts = vec![Part::Text(message.text.clone())];
    parts.extend(state::inline_images(message).map(Part::Image));
    Message { role: Role::User, parts }
}

fn ask(text: &str, at: usize) -> RunAction {
    let question = Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] };
    RunAction::User(Box::new(state::user_message(&question, at, None)))
}

/// The history, and what the run is asked to do about it.
fn split(items: &[Item]) -> (&[Item], RunAction) {
    let Some((last, before)) = items.split_last() else { return (items, RunAction::Continue) };
    match last {
        Item::Message(message) => match message.role {
            Role::User => {
                let message = state::user_message(message, before.len(), None);
                (before, RunAction::User(Box::new(message)))
            }
            // The backend resumes what was interrupted; what is over it answers with nothing.
            Role::Assistant => (items, ask(GO_ON, items.len())),
        },
        Item::Reasoning(_) => (items, ask(GO_ON, items.len())),
        // A call without a result gets an error as its result.
        Item::ToolCall(_) | Item::ToolResult(_) => (items, RunAction::Continue),
    }
}

#[cfg(test)]
#[path = "telling_tests.rs"]
mod tests;
