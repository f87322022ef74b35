//! From a client's request to the run request: what goes into the first message
//! of a stream, and everything the backend may ask for while it runs.

use std::{collections::HashSet, sync::Arc};

use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ConversationAction, ConversationStateStructure,
    CursorRule, CursorRuleType, CursorRuleTypeGlobal, McpTools, ModelDetails, RequestContext,
    RequestContextEnv, RequestedModel, RequestedModelModelParameter, ResumeAction, UserMessage,
    UserMessageAction, agent_client_message, conversation_action, cursor_rule_type,
};
use sha2::{Digest as _, Sha256};

use super::{
    allowed::UnprovenFields,
    blobs::{BlobLimits, Blobs, assistant_text},
    exec::Equipment,
    forms::{FormChoice, HistorySetting, ModelMemory},
    reasoning::{ReasoningScope, SignedItem, TurnSignatures},
    roots,
    service_facts::ServiceFacts,
    state,
    tools::Toolbox,
};
use crate::{
    codec::connect,
    model::{AgentMode, TurnRequest, ids::uuid_from_content},
    models::ModelPick,
    peer::{
        StoredState,
        conversation::{instructions, offered},
    },
};

/// So many folders are named to the model.
const WORKSPACES: usize = 16;

/// What the backend learns about the environment. The gateway knows little of it and invents
/// nothing.
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
    /// Continue from here instead of sending the history again.
    pub kept: Option<StoredState>,
    pub history: HistorySetting,
    pub memory: Arc<ModelMemory>,
    /// What `memory` knows of the reasoning in the request.
    pub signed: Vec<SignedItem>,
    /// Whose turn it is. It is not recorded: what a replay learns is not kept.
    pub scope: ReasoningScope,
    /// A random text that only this turn has: the ids of its runs are made from it.
    pub run_seed: String,
    /// How often the host for runs was changed so far; `None` if the user named the host.
    pub host_changes: Option<u64>,
}

/// What the model gets besides the conversation. Thousands of parked turns of one client share it.
#[derive(Debug)]
pub struct Surroundings {
    pub(super) toolbox: Toolbox,
    pub(super) equipment: Equipment,
    pub(super) context: RequestContext,
    pub(super) permissions: Permissions,
    /// What is known of the service.
    pub(super) facts: Arc<ServiceFacts>,
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
        Self::informed(request, environment, permissions, native, &Arc::default())
    }

    /// The same for a service of which something is known.
    #[must_use]
    pub fn informed(
        request: &TurnRequest,
        environment: &Environment,
        permissions: Permissions,
        native: bool,
        facts: &Arc<ServiceFacts>,
    ) -> Self {
        let tools = offered(request);
        let toolbox = Toolbox::of(&request.tools, &tools, facts.aliases_builtins);
        let toolbox = toolbox.with_status(facts.mcp_status);
        let equipment = if native { Equipment::of(&tools) } else { Equipment::default() };
        let mut context = context(request, environment, permissions);
        declare(&mut context, &toolbox, facts);
        Self { toolbox, equipment, context, permissions, facts: Arc::clone(facts) }
    }

    /// The same with the schemas of tools as JSON text alone; `None` if they are sent so.
    pub(super) fn with_schema_text(&self) -> Option<Self> {
        let toolbox = self.toolbox.with_schema_text()?;
        let mut context = self.context.clone();
        declare(&mut context, &toolbox, &self.facts);
        let (equipment, permissions) = (self.equipment.clone(), self.permissions);
        Some(Self { toolbox, equipment, context, permissions, facts: Arc::clone(&self.facts) })
    }
}

/// Everything one turn needs from the client's request.
#[derive(Clone, Debug)]
pub(super) struct RunSpec {
    pub(super) conversation_id: String,
    pub(super) model: ModelPick,
    pub(super) around: Arc<Surroundings>,
    pub(super) blobs: Blobs,
    pub(super) state: RunState,
    pub(super) action: RunAction,
    pub(super) form: FormChoice,
    pub(super) memory: Arc<ModelMemory>,
    pub(super) scope: ReasoningScope,
    pub(super) signatures: TurnSignatures,
    /// The client's history was sent, in the form of `form`.
    pub(super) sends_history: bool,
    /// The prompt has the client's system prompt, so that the request context does not repeat it.
    pub(super) has_own_system: bool,
    /// Tools that the service wants to be allowed besides the usual ones.
    pub(super) more_tools: Vec<String>,
    /// The model is named in the newer of the two fields alone.
    pub(super) one_model_field: bool,
    pub(super) unproven: UnprovenFields,
    mode: AgentMode,
    /// The same for all runs of the conversation, also when they continue under another id.
    group_id: String,
    run_seed: String,
    /// The runs of the turn before this one.
    earlier_runs: u64,
}

/// The conversation so far, as the first message contains it.
#[derive(Clone, Debug)]
pub(super) enum RunState {
    /// Made from the client's history.
    Built(Box<ConversationStateStructure>),
    /// The backend's own state, byte for byte.
    Kept(Bytes),
}

/// How the run starts.
#[derive(Clone, Debug)]
pub(super) enum RunAction {
    /// The conversation ends with a message of the user.
    User(Box<UserMessage>),
    /// It ends with tool results: go on from there.
    Continue,
}

impl RunSpec {
    #[must_use]
    pub(super) fn new(request: &TurnRequest, plan: Plan) -> Self {
        let Plan { model, conversation_id, surroundings, limits, kept, history, memory, .. } = plan;
        let facts = memory.of(&model.id);
        let model = ModelPick { max_mode: model.max_mode || facts.max_mode, ..model };
        let group: [&[u8]; 2] = [b"conversation group", conversation_id.as_bytes()];
        let mode = request.hints.modes.mode.unwrap_or_default();
        let mut spec = Self {
            group_id: uuid_from_content(group),
            run_seed: plan.run_seed,
            earlier_runs: 0,
            mode,
            one_model_field: facts.one_model_field,
            unproven: UnprovenFields::default(),
            signatures: TurnSignatures::new(
                request,
                plan.signed,
                facts.refuses_reasoning || surroundings.facts.refuses_reasoning,
            ),
            conversation_id,
            form: FormChoice::new(history, &model.id, &memory),
            memory,
            scope: plan.scope,
            sends_history: false,
            has_own_system: false,
            more_tools: facts.allowed_tools,
            model,
            around: surroundings,
            blobs: Blobs::new(limits),
            state: RunState::Built(Box::new(state::empty())),
            action: RunAction::Continue,
        };
        match kept {
            Some(mut kept) => {
                // The instructions are part of the system prompt, and the state has those of its
                // own mode.
                kept.new_setup |= state::mode_of(&kept.checkpoint) != mode;
                spec.continue_kept(request, kept);
            }
            None => spec.rebuild(request),
        }
        spec
    }

    /// The next first message is that of another run.
    pub(super) fn begin_another_run(&mut self) {
        self.earlier_runs += 1;
    }

    fn run_id(&self) -> String {
        uuid_from_content([self.run_seed.as_bytes(), &self.earlier_runs.to_be_bytes()])
    }

    /// The framed first message. `checkpoint` is the newest state the backend gave
    /// us: with it the run resumes an interrupted turn.
    #[must_use]
    pub(super) fn first_frame(&self, inline_context: bool, checkpoint: Option<&[u8]>) -> Bytes {
        let inline_context = inline_context || self.has_own_system;
        let request_context = inline_context.then(|| self.context().into_owned());
        let raw = match &self.state {
            RunState::Kept(bytes) => Some(checkpoint.unwrap_or(bytes)),
            RunState::Built(_) => checkpoint,
        };
        let action = match (&self.action, checkpoint) {
            (RunAction::User(message), None) => {
                conversation_action::Action::UserMessageAction(UserMessageAction {
                    user_message: Some(UserMessage {
                        mode: self.mode.wire_number(),
                        ..UserMessage::clone(message)
                    }),
                    request_context,
                    ..UserMessageAction::default()
                })
            }
            (RunAction::Continue, _) | (RunAction::User(_), Some(_)) => {
                conversation_action::Action::ResumeAction(ResumeAction { request_context })
            }
        };
        let run = AgentRunRequest {
            conversation_state: match &self.state {
                RunState::Built(state) if raw.is_none() => {
                    let mode = Some(self.mode.wire_number());
                    Some(ConversationStateStructure {
                        mode,
                        ..ConversationStateStructure::clone(state)
                    })
                }
                RunState::Built(_) | RunState::Kept(_) => None,
            },
            action: Some(ConversationAction { action: Some(action) }),
            model_details: (!self.one_model_field).then(|| ModelDetails {
                model_id: self.model.id.clone(),
                display_model_id: self.model.id.clone(),
                display_name: self.model.id.clone(),
                max_mode: self.model.max_mode.then_some(true),
                ..ModelDetails::default()
            }),
            mcp_tools: (!self.around.toolbox.is_empty()
                && self.around.facts.declaration.has_definitions())
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
            client_supports_inline_images: Some(true),
            conversation_group_id: Some(self.group_id.clone()),
            run_id: Some(self.run_id()),
            ..AgentRunRequest::default()
        };
        match raw {
            None => connect::encode(&AgentClientMessage {
                message: Some(agent_client_message::Message::RunRequest(run)),
            }),
            Some(state) => with_raw_state(&run, &state::with_mode(state, self.mode)),
        }
    }

    /// The same conversation under another id, for when one is stuck.
    pub(super) fn rename(&mut self, conversation_id: String) {
        self.conversation_id = conversation_id;
        self.blobs.all_fresh();
    }

    /// The hashes of the answers in the history.
    pub(super) fn answers(&self) -> HashSet<[u8; 32]> {
        let texts = self.history().filter_map(|blob| assistant_text(&blob));
        texts.map(|text| Sha256::digest(&text).into()).collect()
    }

    /// What the model reads, for counting tokens when the backend does not: texts,
    /// and the number of images.
    pub(super) fn prompt_texts(&self) -> (Vec<String>, usize) {
        let (mut texts, mut images) = (Vec::new(), 0);
        for blob in self.history() {
            images += roots::prompt_texts(&blob, &mut texts);
        }
        if let RunAction::User(message) = &self.action {
            texts.push(message.text.clone());
            let selected = message.selected_context.as_ref();
            images += selected.map_or(0, |context| context.selected_images.len());
        }
        if !self.has_own_system {
            texts.extend(self.around.context.cloud_rule.clone());
            texts.extend(self.around.toolbox.texts());
        }
        (texts, images)
    }

    /// About how many bytes all of this takes, less what is shared.
    pub(super) fn memory(&self) -> usize {
        let state = match &self.state {
            RunState::Built(state) => state.wire_len(),
            RunState::Kept(bytes) => bytes.len(),
        };
        self.blobs.memory() + self.signatures.bytes() + state
    }

    pub(super) fn history(&self) -> impl Iterator<Item = Bytes> {
        let roots = match &self.state {
            RunState::Built(state) => state.root_prompt_messages_json.clone(),
            RunState::Kept(bytes) => ConversationStateStructure::from_wire(bytes.clone())
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

/// Puts the client's tools into the context, in the places that the service reads.
fn declare(context: &mut RequestContext, toolbox: &Toolbox, facts: &ServiceFacts) {
    let declaration = facts.declaration;
    context.mcp_instructions = toolbox.instructions().into_iter().collect();
    context.tools =
        if declaration.has_definitions() { toolbox.definitions().to_vec() } else { Vec::new() };
    context.mcp_meta_tool_options =
        declaration.has_meta_options().then(|| toolbox.meta_options()).flatten();
}

/// A plain system message is mostly ignored by the backend; the cloud rule and a
/// global user rule are honoured.
fn context(
    request: &TurnRequest,
    environment: &Environment,
    permissions: Permissions,
) -> RequestContext {
    let mut system = instructions(request).0.to_vec();
    // What the service makes of a mode depends on how the history is sent.
    system.extend(request.hints.modes.mode.and_then(AgentMode::instructions).map(str::to_owned));
    let text = system.join("\n\n");
    // The client names it; ibeam does not look into it.
    let workspace = request.hints.workspace.iter().chain(&environment.workspace_paths);
    let workspace_paths: Vec<String> = workspace.take(WORKSPACES).cloned().collect();
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
            project_folder: workspace_paths.first().cloned().unwrap_or_default(),
            workspace_paths,
            shell: environment.shell.clone(),
            time_zone: environment.time_zone.clone(),
            ..RequestContextEnv::default()
        }),
        mcp_info_complete: Some(true),
        cloud_rule: (!text.is_empty()).then_some(text),
        web_search_enabled: Some(permissions.web_search),
        ..RequestContext::default()
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
pub(super) mod tests;
