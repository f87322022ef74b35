//! The conversation as the first message of a run contains it: in one of the forms, or from a state
//! that was kept.

use std::borrow::Cow;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{ConversationStateStructure, RequestContext, UserMessage};

use super::{
    blobs,
    forms::HistoryForm,
    request::{RunAction, RunSpec, RunState},
    roots::{self, EntryStyle},
    state,
};
use crate::{
    history,
    model::{Item, Message, Part, Role, TurnRequest},
    peer::{
        StoredState,
        conversation::{GO_ON, USE_RESULTS, instructions},
    },
};

/// What is said of a system prompt that comes in the middle of a conversation.
const NEW_RULES: &str = "These rules replace all earlier ones.";

impl RunSpec {
    /// Starts anew with the whole conversation of `request`.
    pub(super) fn rebuild(&mut self, request: &TurnRequest) {
        match instructions(request).1 {
            Some(question) => self.build(&[], ask(question, 0)),
            None => self.rebuild_items(&request.items),
        }
    }

    /// The same with these items alone.
    pub(super) fn rebuild_items(&mut self, items: &[Item]) {
        let (history, action) = split(items);
        self.build(history, action);
    }

    /// Asks for what an answer lacked: after the newest state, or after everything that
    /// `request` has.
    pub(super) fn insist(&mut self, request: &TurnRequest, newest: Option<Bytes>, text: &str) {
        let question = ask(text, request.items.len());
        match newest {
            Some(state) => self.continue_with(state, &[], question, None),
            None => self.build(&request.items, question),
        }
    }

    /// Continues from this state, which ends with results.
    pub(super) fn continue_from(&mut self, state: Bytes) {
        self.continue_with(state, &[], RunAction::Continue, None);
    }

    /// All that the first message contains, as a state to continue from. What the request context
    /// said of the system prompt is not repeated behind a history, so it is an entry there.
    pub(super) fn first_state(&mut self) -> Bytes {
        let first: Bytes = match &self.state {
            RunState::Built(state) if state.root_prompt_messages_json.is_empty() => {
                let entries = self.system_entries();
                state::with_entries(&state::empty().to_wire(), entries)
            }
            RunState::Built(state) => state.to_wire(),
            RunState::Kept(bytes) => bytes.clone(),
        };
        let asked: Vec<Item> = self.action.asked().into_iter().collect();
        let first = self.append(&first, &asked);
        if asked.is_empty() || self.form() == HistoryForm::RulesRoots {
            return first;
        }
        state::with_turn_of(&first, &asked, &mut self.blobs)
    }

    /// Continues from a kept state with what `request` has beyond it.
    pub(super) fn continue_kept(&mut self, request: &TurnRequest, kept: StoredState) {
        let is_bare = history::split(&request.items) == 0;
        for (id, data) in kept.blobs {
            self.blobs.restore(id, data);
        }
        let (history, action) = split(&request.items);
        let history = history.get(kept.covers..).unwrap_or_default();
        // A result means nothing to a model that does not see its call.
        let calls = kept.calls.into_iter().map(Item::ToolCall);
        let items: Vec<Item> = calls.chain(history.iter().cloned()).collect();
        let asked = usize::from(action.asked().is_some());
        if !is_bare && !self.has_room(&kept.checkpoint, &items, asked) {
            // It would grow beyond what the service takes, which a rebuilt history never does.
            self.rebuild(request);
            return;
        }
        let system = kept.new_setup.then(|| self.system_text());
        self.continue_with(kept.checkpoint, &items, action, system);
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
        let is_other = self.sends_history && self.form.step();
        if is_other {
            self.signatures.acquit();
        }
        is_other
    }

    /// Leaves reasoning out of the history, if that was in it. `blamed`: the failure may be its
    /// fault.
    pub(super) fn leave_out_reasoning(&mut self, blamed: bool) -> bool {
        let is_sent = matches!(self.state, RunState::Built(_))
            && self.history().any(|blob| {
                blobs::assistant_message(&blob).is_some_and(|answer| !answer.signed.is_empty())
            });
        if is_sent {
            self.signatures.leave_out(blamed);
        }
        is_sent
    }

    /// Whether the run continues a kept state, so that the whole history is another way.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.state, RunState::Kept(_))
    }

    /// The run answers: what was changed to get here works.
    pub(super) fn learn(&mut self) {
        self.learn_fields();
        self.learn_form();
    }

    fn learn_form(&mut self) {
        if !self.sends_history {
            return;
        }
        if self.signatures.is_blamed() {
            self.memory.update(&self.model.id, |facts| facts.refuses_reasoning = true);
            self.signatures.acquit();
        }
        if let Some(form) = self.form.learned() {
            self.memory.update(&self.model.id, |facts| facts.history = Some(form));
            self.sends_history = false;
        }
    }

    fn system_text(&self) -> String {
        let system = self.around.context.cloud_rule.as_deref().unwrap_or_default();
        roots::system_text(system, &self.around.toolbox)
    }

    fn build(&mut self, history: &[Item], action: RunAction) {
        let rules_lost = self.around.facts.rules_lost;
        (self.sends_history, self.has_own_system) = (!history.is_empty() || rules_lost, false);
        if history.is_empty() && !rules_lost {
            self.state = RunState::Built(Box::new(state::empty()));
            self.action = action;
            return;
        }
        match self.form() {
            HistoryForm::ResumeRoots => self.build_resume_roots(history, &action),
            HistoryForm::UserRoots => self.build_user_roots(history, action),
            HistoryForm::Transcript => self.build_transcript(history, action),
            HistoryForm::RulesRoots => {
                let style = self.style(PromptOwner::Service);
                let entries =
                    roots::put(history, &style, usize::MAX, &self.signatures, &mut self.blobs);
                self.state = RunState::Built(Box::new(ConversationStateStructure {
                    root_prompt_messages_json: entries,
                    turns: vec![state::turn_of(history, &mut self.blobs)],
                    ..state::empty()
                }));
                self.action = action;
            }
        }
    }

    /// The form in which the history is sent.
    fn form(&self) -> HistoryForm {
        match self.form.form() {
            // Rules would be lost, so the system prompt is an entry.
            HistoryForm::Transcript | HistoryForm::RulesRoots if self.around.facts.rules_lost => {
                HistoryForm::UserRoots
            }
            form => form,
        }
    }

    /// How entries are written behind a prompt of this kind.
    pub(super) fn style(&self, owner: PromptOwner) -> EntryStyle {
        let (form, facts) = (self.form(), &self.around.facts);
        EntryStyle {
            tagged: owner != PromptOwner::Client
                && matches!(form, HistoryForm::UserRoots | HistoryForm::Transcript),
            wrapped: form != HistoryForm::RulesRoots,
            image: facts.image_shape,
            names: self.around.toolbox.tool_names(),
        }
    }

    /// The entries with which a prompt of this form begins.
    fn system_entries(&mut self) -> Vec<Bytes> {
        let system = self.system_text();
        match self.form() {
            HistoryForm::ResumeRoots => vec![roots::put_system(&system, &mut self.blobs)],
            HistoryForm::UserRoots | HistoryForm::Transcript => vec![
                // The service replaces it, but it keeps the places of the others.
                roots::put_system(&system, &mut self.blobs),
                roots::put_rules(&system, &mut self.blobs),
            ],
            HistoryForm::RulesRoots => Vec::new(),
        }
    }

    /// Who wrote the beginning of the prompt in this state.
    pub(super) fn prompt_of(&self, state: &[u8]) -> PromptOwner {
        let mut ids = state::root_ids(state);
        let (first, second) = (ids.next(), ids.next());
        let is = |id: Option<&[u8]>, ours: fn(&[u8]) -> bool| {
            id.and_then(|id| self.blobs.get(id)).is_some_and(|blob| ours(&blob))
        };
        if is(second, roots::is_our_rules) {
            PromptOwner::Both
        } else if is(first, roots::is_our_system) {
            PromptOwner::Client
        } else {
            PromptOwner::Service
        }
    }

    /// All of the prompt is ours, and is replayed as sent.
    fn build_resume_roots(&mut self, history: &[Item], action: &RunAction) {
        let mut items = history.to_vec();
        items.extend(action.asked());
        let mut entries = self.system_entries();
        let style = self.style(PromptOwner::Client);
        let room = self.around.facts.max_roots.saturating_sub(entries.len());
        entries.extend(roots::put(&items, &style, room, &self.signatures, &mut self.blobs));
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
    fn build_user_roots(&mut self, history: &[Item], action: RunAction) {
        let mut entries = self.system_entries();
        let style = self.style(PromptOwner::Both);
        let room = self.around.facts.max_roots.saturating_sub(entries.len());
        entries.extend(roots::put(history, &style, room, &self.signatures, &mut self.blobs));
        self.state = RunState::Built(Box::new(ConversationStateStructure {
            root_prompt_messages_json: entries,
            ..state::empty()
        }));
        self.action = action.or_ask(USE_RESULTS, history.len());
        self.has_own_system = true;
    }

    /// Nothing but the user's text is needed for this.
    fn build_transcript(&mut self, history: &[Item], action: RunAction) {
        self.state = RunState::Built(Box::new(state::empty()));
        let mut action = action.or_ask(USE_RESULTS, history.len());
        if let RunAction::User(message) = &mut action {
            let (conversation, images) = roots::transcript(history);
            message.text = format!("{conversation}\n\n{}", message.text);
            state::put_images_first(message, &images);
        }
        self.action = action;
    }

    /// A state that was kept, and what comes behind it. `system`: ours has changed.
    fn continue_with(
        &mut self,
        state: Bytes,
        items: &[Item],
        action: RunAction,
        system: Option<String>,
    ) {
        let owner = self.prompt_of(&state);
        self.sends_history = false;
        self.has_own_system = owner != PromptOwner::Service;
        let state = match system {
            Some(system) => self.replace_system(&state, owner, &system),
            None => state,
        };
        if owner == PromptOwner::Client {
            self.resume_with(&state, items, &action);
            return;
        }
        self.state = RunState::Kept(self.append(&state, items));
        self.action = match self.form() {
            HistoryForm::UserRoots | HistoryForm::Transcript => {
                action.or_ask(USE_RESULTS, items.len())
            }
            HistoryForm::ResumeRoots | HistoryForm::RulesRoots => action,
        };
    }

    /// A state whose prompt is all ours is resumed: asked by the user, the service would put its
    /// own system prompt in the place of ours.
    fn resume_with(&mut self, state: &Bytes, items: &[Item], action: &RunAction) {
        let asked = action.asked();
        let is_question = asked.is_some();
        let items: Vec<Item> = items.iter().cloned().chain(asked).collect();
        let mut state = self.append(state, &items);
        if is_question {
            state = state::with_turn_of(&state, &items, &mut self.blobs);
        }
        self.state = RunState::Kept(state);
        self.action = RunAction::Continue;
    }

    /// The state with another system prompt of ours.
    fn replace_system(&mut self, state: &Bytes, owner: PromptOwner, system: &str) -> Bytes {
        match owner {
            PromptOwner::Client => {
                let entry = roots::put_system(system, &mut self.blobs);
                state::with_root(state, 0, &entry)
            }
            PromptOwner::Both => {
                let entry = roots::put_rules(system, &mut self.blobs);
                state::with_root(state, 1, &entry)
            }
            // The request context has it, which that service reads.
            PromptOwner::Service if self.form() == HistoryForm::RulesRoots => state.clone(),
            PromptOwner::Service => {
                let system = format!("{NEW_RULES}\n\n{system}");
                let entry = roots::put_rules(&system, &mut self.blobs);
                state::with_entries(state, vec![entry])
            }
        }
    }
}

/// Who wrote the beginning of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptOwner {
    /// All of it is the client's.
    Client,
    /// The service's system prompt, or a place for it, and the client's behind it.
    Both,
    /// The service, from the request context.
    Service,
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
#[path = "rebuild_tests.rs"]
pub(super) mod tests;
