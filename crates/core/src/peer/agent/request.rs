//! From a client's request to the run request: what goes into the first message
//! of a stream, and everything the backend may ask for while it runs.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ConversationAction, ConversationStateStructure,
    CursorRule, CursorRuleType, CursorRuleTypeGlobal, McpTools, ModelDetails, RequestContext,
    RequestContextEnv, RequestedModel, RequestedModelModelParameter, ResumeAction, UserMessage,
    UserMessageAction, agent_client_message, conversation_action, cursor_rule_type,
};

use super::{
    blobs::{BlobLimits, Blobs, assistant_text},
    exec::Equipment,
    state,
    tools::Toolbox,
};
use crate::{
    codec::connect,
    model::{Item, Message, Part, Role, TurnRequest},
    models::ModelPick,
    peer::{
        StoredState,
        conversation::{GO_ON, instructions, offered},
    },
};

/// What the backend is told about the place it works for. The gateway knows
/// little of it and invents nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pub os_version: String,
    pub shell: String,
    pub time_zone: String,
    pub workspace_paths: Vec<String>,
}

/// What the user allows the backend to do on its own side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    pub web_search: bool,
    pub web_fetch: bool,
}

/// What a turn needs besides the client's request.
#[derive(Clone, Debug)]
pub struct Plan {
    pub model: ModelPick,
    pub conversation_id: String,
    pub surroundings: Arc<Surroundings>,
    pub limits: BlobLimits,
    /// Send the request context with the first message instead of waiting to be asked for it.
    pub inline_context: bool,
    /// Go on from here instead of sending the history again.
    pub kept: Option<StoredState>,
}

/// What the model is told and offered beside the conversation. Thousands of parked
/// turns of one client share it.
#[derive(Debug)]
pub struct Surroundings {
    pub(super) toolbox: Toolbox,
    pub(super) equipment: Equipment,
    pub(super) context: RequestContext,
    pub(super) permissions: Permissions,
}

impl Surroundings {
    /// `native`: hand the backend's own tools to the client's equivalents.
    #[must_use]
    pub fn new(
        request: &TurnRequest,
        environment: &Environment,
        permissions: Permissions,
        native: bool,
    ) -> Self {
        let tools = offered(request);
        let toolbox = Toolbox::new(&tools);
        let equipment = if native { Equipment::of(&tools) } else { Equipment::default() };
        let context = context(instructions(request).0, &toolbox, environment, permissions);
        Self { toolbox, equipment, context, permissions }
    }
}

/// Everything one turn needs from the client's request.
#[derive(Clone, Debug)]
pub(super) struct RunSpec {
    pub(super) conversation_id: String,
    pub(super) model: ModelPick,
    pub(super) around: Arc<Surroundings>,
    pub(super) blobs: Blobs,
    state: State,
    action: Action,
}

/// The conversation so far, as the first message tells it.
#[derive(Clone, Debug)]
enum State {
    /// Made from the client's history.
    Built(Box<ConversationStateStructure>),
    /// The backend's own, byte for byte.
    Kept(Bytes),
}

/// How the run starts.
#[derive(Clone, Debug)]
enum Action {
    /// The conversation ends with a message of the user.
    User(Box<UserMessage>),
    /// It ends with tool results: go on from there.
    Continue,
}

impl RunSpec {
    #[must_use]
    pub(super) fn new(request: &TurnRequest, plan: Plan) -> Self {
        let Plan { model, conversation_id, surroundings, limits, kept, inline_context: _ } = plan;
        let mut spec = Self {
            conversation_id,
            model,
            around: surroundings,
            blobs: Blobs::new(limits),
            state: State::Built(Box::default()),
            action: Action::Continue,
        };
        match kept {
            Some(kept) => spec.go_on(request, kept),
            None => spec.rebuild(request),
        }
        spec
    }

    /// Tells the whole conversation of `request` anew.
    pub(super) fn rebuild(&mut self, request: &TurnRequest) {
        let (history, action) = match instructions(request).1 {
            Some(question) => (&[][..], ask(question, 0)),
            None => split(&request.items),
        };
        self.state = State::Built(Box::new(state::build(history, &mut self.blobs)));
        self.action = action;
    }

    /// Goes on from a kept state with what `request` has beyond it.
    fn go_on(&mut self, request: &TurnRequest, kept: StoredState) {
        for (id, data) in kept.blobs {
            self.blobs.restore(id, data);
        }
        let (told, action) = split(&request.items);
        let told = told.get(kept.covers..).unwrap_or_default();
        // A result means nothing to a model that does not see its call.
        let calls = kept.calls.into_iter().map(Item::ToolCall);
        let told: Vec<Item> = calls.chain(told.iter().cloned()).collect();
        self.state = State::Kept(state::append(&kept.checkpoint, &told, &mut self.blobs));
        self.action = action;
    }

    /// Goes on from this state, with nothing new to say.
    pub(super) fn go_on_from(&mut self, state: Bytes) {
        self.state = State::Kept(state);
        self.action = Action::Continue;
    }

    /// Asks for what an answer lacked: after the newest state, or after everything that
    /// `request` told.
    pub(super) fn insist(&mut self, request: &TurnRequest, newest: Option<Bytes>, text: &str) {
        self.state = match newest {
            Some(state) => State::Kept(state),
            None => State::Built(Box::new(state::build(&request.items, &mut self.blobs))),
        };
        self.action = ask(text, request.items.len());
    }

    /// This state, and these items behind it.
    pub(super) fn append(&mut self, state: &Bytes, items: &[Item]) -> Bytes {
        state::append(state, items, &mut self.blobs)
    }

    /// All that the first message contains, as a state to continue from.
    pub(super) fn told(&mut self) -> Bytes {
        let mut told = match &self.state {
            State::Built(state) => state.to_wire().to_vec(),
            State::Kept(bytes) => bytes.to_vec(),
        };
        if let Action::User(message) = &self.action {
            let mut parts = vec![Part::Text(message.text.clone())];
            parts.extend(state::inline_images(message).map(Part::Image));
            let asked = [Item::Message(Message { role: Role::User, parts })];
            // Fields of one message may be written in several runs.
            told.extend_from_slice(&state::build(&asked, &mut self.blobs).to_wire());
        }
        told.into()
    }

    /// The framed first message. `checkpoint` is the newest state the backend gave
    /// us: with it the run resumes an interrupted turn.
    #[must_use]
    pub(super) fn first_frame(&self, inline_context: bool, checkpoint: Option<&[u8]>) -> Bytes {
        let request_context = inline_context.then(|| self.around.context.clone());
        let raw = match &self.state {
            State::Kept(bytes) => Some(checkpoint.unwrap_or(bytes)),
            State::Built(_) => checkpoint,
        };
        let action = match (&self.action, checkpoint) {
            (Action::User(message), None) => {
                conversation_action::Action::UserMessageAction(UserMessageAction {
                    user_message: Some(UserMessage::clone(message)),
                    request_context,
                    ..UserMessageAction::default()
                })
            }
            (Action::Continue, _) | (Action::User(_), Some(_)) => {
                conversation_action::Action::ResumeAction(ResumeAction { request_context })
            }
        };
        let has_images = matches!(&self.action, Action::User(m) if m.selected_context.is_some());
        let run = AgentRunRequest {
            conversation_state: match &self.state {
                State::Built(state) if raw.is_none() => {
                    Some(ConversationStateStructure::clone(state))
                }
                State::Built(_) | State::Kept(_) => None,
            },
            action: Some(ConversationAction { action: Some(action) }),
            model_details: Some(ModelDetails {
                model_id: self.model.id.clone(),
                max_mode: self.model.max_mode.then_some(true),
                ..ModelDetails::default()
            }),
            mcp_tools: (!self.around.toolbox.is_empty())
                .then(|| McpTools { mcp_tools: self.around.toolbox.definitions().to_vec() }),
            conversation_id: Some(self.conversation_id.clone()),
            requested_model: Some(RequestedModel {
                model_id: self.model.id.clone(),
                max_mode: self.model.max_mode,
                parameters: self
                    .model
                    .parameters
                    .iter()
                    .map(|(id, value)| RequestedModelModelParameter {
                        id: id.clone(),
                        value: value.clone(),
                    })
                    .collect(),
                ..RequestedModel::default()
            }),
            client_supports_inline_images: has_images.then_some(true),
            ..AgentRunRequest::default()
        };
        match raw {
            None => connect::encode(&AgentClientMessage {
                message: Some(agent_client_message::Message::RunRequest(run)),
            }),
            Some(state) => with_raw_state(&run, state),
        }
    }

    /// The same conversation under another id, for when one is stuck.
    pub(super) fn rename(&mut self, conversation_id: String) {
        self.conversation_id = conversation_id;
        self.blobs.all_fresh();
    }

    /// Whether the history holds this answer already.
    pub(super) fn has_answer(&self, text: &str) -> bool {
        // JSON is never shorter than the text in it.
        let mut history = self.history().filter(|blob| blob.len() > text.len());
        history.any(|blob| assistant_text(&blob).is_some_and(|old| old == text))
    }

    /// What the model reads, for counting tokens when the backend does not: texts,
    /// and the number of images.
    pub(super) fn prompt_texts(&self) -> (Vec<String>, usize) {
        let (mut texts, mut images) = (Vec::new(), 0);
        for blob in self.history() {
            images += state::prompt_texts(&blob, &mut texts);
        }
        if let Action::User(message) = &self.action {
            texts.push(message.text.clone());
            let selected = message.selected_context.as_ref();
            images += selected.map_or(0, |context| context.selected_images.len());
        }
        texts.extend(self.around.context.cloud_rule.clone());
        texts.extend(self.around.toolbox.texts());
        (texts, images)
    }

    /// About how many bytes all of this takes, less what is shared.
    pub(super) fn memory(&self) -> usize {
        let state = match &self.state {
            State::Built(state) => state.wire_len(),
            State::Kept(bytes) => bytes.len(),
        };
        self.blobs.memory() + state
    }

    fn history(&self) -> impl Iterator<Item = Bytes> {
        let roots = match &self.state {
            State::Built(state) => state.root_prompt_messages_json.clone(),
            State::Kept(bytes) => ConversationStateStructure::from_wire(bytes.clone())
                .map(|state| state.root_prompt_messages_json)
                .unwrap_or_default(),
        };
        roots.into_iter().filter_map(|id| self.blobs.get(&id))
    }
}

/// A checkpoint goes back byte for byte: decoding it here would drop every field
/// that our schema does not know. Protobuf allows the fields of one message to be
/// written in separate runs, so it is put before the rest.
fn with_raw_state(run: &AgentRunRequest, state: &[u8]) -> Bytes {
    const STATE_TAG: u8 = 0x0a; // AgentRunRequest field 1, length-delimited
    const RUN_TAG: u8 = 0x0a; // AgentClientMessage field 1, length-delimited
    let mut body = BytesMut::with_capacity(state.len() + run.wire_len() + 16);
    body.put_u8(STATE_TAG);
    prost::encoding::encode_varint(state.len() as u64, &mut body);
    body.put_slice(state);
    run.write_wire(&mut body);
    let mut message = BytesMut::with_capacity(body.len() + 16);
    message.put_u8(RUN_TAG);
    prost::encoding::encode_varint(body.len() as u64, &mut message);
    message.put_slice(&body);
    connect::frame(0, &message)
}

fn ask(text: &str, at: usize) -> Action {
    let question = Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] };
    Action::User(Box::new(state::user_message(&question, at, None)))
}

/// The history, and what the run is asked to do about it.
fn split(items: &[Item]) -> (&[Item], Action) {
    let Some((last, before)) = items.split_last() else { return (items, Action::Continue) };
    match last {
        Item::Message(message) => match message.role {
            Role::User => {
                let message = state::user_message(message, before.len(), None);
                (before, Action::User(Box::new(message)))
            }
            // The backend resumes what was interrupted; what is over it answers with nothing.
            Role::Assistant => (items, ask(GO_ON, items.len())),
        },
        Item::Reasoning(_) => (items, ask(GO_ON, items.len())),
        // A call that nobody answered is told with an error as its result.
        Item::ToolCall(_) | Item::ToolResult(_) => (items, Action::Continue),
    }
}

/// A plain system message is mostly ignored by the backend; the cloud rule and a
/// global user rule are honoured.
fn context(
    system: &[String],
    toolbox: &Toolbox,
    environment: &Environment,
    permissions: Permissions,
) -> RequestContext {
    let text = system.join("\n\n");
    let rule = (!text.is_empty()).then(|| CursorRule {
        full_path: "/ibeam/system.mdc".to_owned(),
        content: text.clone(),
        r#type: Some(CursorRuleType {
            r#type: Some(cursor_rule_type::Type::Global(CursorRuleTypeGlobal {})),
        }),
        source: 2, // user
        ..CursorRule::default()
    });
    RequestContext {
        rules: rule.into_iter().collect(),
        env: Some(RequestContextEnv {
            os_version: environment.os_version.clone(),
            workspace_paths: environment.workspace_paths.clone(),
            shell: environment.shell.clone(),
            time_zone: environment.time_zone.clone(),
            project_folder: environment.workspace_paths.first().cloned().unwrap_or_default(),
            ..RequestContextEnv::default()
        }),
        tools: toolbox.definitions().to_vec(),
        mcp_instructions: toolbox.instructions().into_iter().collect(),
        cloud_rule: (!text.is_empty()).then_some(text),
        web_search_enabled: Some(permissions.web_search),
        ..RequestContext::default()
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
