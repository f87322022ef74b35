//! The first message of a probe's run, put together piece by piece. Probes send what no turn of a
//! client sends: that is why they do not use the request of a turn.

use std::time::Duration;

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ConversationAction, ConversationStateStructure,
    CursorRule, CursorRuleType, CursorRuleTypeGlobal, McpTools, ModelDetails, RequestContext,
    RequestContextEnv, RequestedModel, RequestedModelModelParameter, ResumeAction,
    UserMessageAction, agent_client_message, conversation_action, cursor_rule_type,
};
use serde_json::{Value, json, value::RawValue};

use super::run::{ProbeHeaders, ProbeRun};
use crate::{
    codec::connect,
    model::{Item, Message, Part, Role, Tool, ids::uuid_from_content},
    models::ModelPick,
    peer::agent::{
        allowed::CLIENT_TOOLS,
        blobs::{BlobLimits, Blobs},
        request::Environment,
        roots,
        service_facts::{McpStatus, ToolDeclaration},
        state,
        tools::Toolbox,
    },
};

/// Whom a probe asks, and with what.
#[derive(Clone, Debug, Default)]
pub struct ProbeSubject {
    pub model: ModelPick,
    pub environment: Environment,
    /// Fresh for each probe: conversations must not meet those of an earlier one.
    pub seed: String,
    /// How long a call is held.
    pub hold: Duration,
}

/// A run in the making.
#[derive(Debug)]
pub(super) struct RunDraft {
    model: ModelPick,
    conversation: String,
    state: ConversationStateStructure,
    /// What the user said last.
    asked: String,
    resume: bool,
    images: bool,
    declaration: ToolDeclaration,
    context: RequestContext,
    toolbox: Toolbox,
    blobs: Blobs,
    headers: ProbeHeaders,
    hold: Option<Duration>,
}

impl RunDraft {
    /// An empty conversation. `name` is different for each run of a probe.
    pub(super) fn new(subject: &ProbeSubject, name: &str) -> Self {
        let ProbeSubject { model, environment, seed, .. } = subject;
        let id = uuid_from_content([seed.as_bytes(), model.id.as_bytes(), name.as_bytes()]);
        let env = RequestContextEnv {
            os_version: environment.os_version.clone(),
            shell: environment.shell.clone(),
            time_zone: environment.time_zone.clone(),
            ..RequestContextEnv::default()
        };
        Self {
            model: model.clone(),
            conversation: id,
            state: state::empty(),
            asked: String::new(),
            resume: false,
            images: false,
            declaration: ToolDeclaration::default(),
            context: RequestContext {
                env: Some(env),
                mcp_info_complete: Some(true),
                web_search_enabled: Some(false),
                ..RequestContext::default()
            },
            toolbox: Toolbox::default(),
            blobs: Blobs::new(BlobLimits::default()),
            headers: ProbeHeaders::default(),
            hold: None,
        }
    }

    // === the prompt ===

    /// A global rule in the request context.
    pub(super) fn rule(mut self, text: &str) -> Self {
        self.context.rules.push(CursorRule {
            full_path: "/ibeam/probe.mdc".to_owned(),
            content: text.to_owned(),
            r#type: Some(CursorRuleType {
                r#type: Some(cursor_rule_type::Type::Global(CursorRuleTypeGlobal {})),
            }),
            source: 2, // user
            ..CursorRule::default()
        });
        self
    }

    pub(super) fn system(mut self, text: &str) -> Self {
        let entry = roots::put_system(text, &mut self.blobs);
        self.state.root_prompt_messages_json.push(entry);
        self
    }

    /// An entry of the user that consists of rules.
    pub(super) fn rules_entry(mut self, text: &str) -> Self {
        let entry = roots::put_rules(text, &mut self.blobs);
        self.state.root_prompt_messages_json.push(entry);
        self
    }

    pub(super) fn user(self, text: &str) -> Self {
        self.entry(&json!({ "role": "user", "content": [{ "type": "text", "text": text }] }))
    }

    pub(super) fn assistant(self, text: &str) -> Self {
        self.entry(&json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] }))
    }

    /// An entry of the user with an image in it.
    pub(super) fn user_with(mut self, text: &str, image: &Value) -> Self {
        self.images = true;
        self.entry(&json!({
            "role": "user",
            "content": [{ "type": "text", "text": text }, image],
        }))
    }

    fn entry(self, entry: &Value) -> Self {
        self.raw_entry(entry.to_string().into())
    }

    /// An entry byte for byte.
    pub(super) fn raw_entry(mut self, entry: Bytes) -> Self {
        let entry = self.blobs.put(entry);
        self.state.root_prompt_messages_json.push(entry);
        self
    }

    /// The user asks this.
    pub(super) fn ask(mut self, text: &str) -> Self {
        text.clone_into(&mut self.asked);
        self
    }

    /// The run resumes, and what the user asks is the last entry.
    pub(super) fn resume(mut self, text: &str) -> Self {
        self.resume = true;
        self.state.agent_type = Some("cli".to_owned());
        self.state.turns = vec![state::turn_of(&[Item::Message(said(text))], &mut self.blobs)];
        self.user(text)
    }

    pub(super) fn without_agent_type(mut self) -> Self {
        self.state.agent_type = None;
        self
    }

    pub(super) fn without_mode(mut self) -> Self {
        self.state.mode = None;
        self
    }

    pub(super) fn without_turn(mut self) -> Self {
        self.state.turns.clear();
        self
    }

    // === tools ===

    /// The tools of a client, declared in every place.
    pub(super) fn tools(mut self, tools: &[Tool]) -> Self {
        self.toolbox = Toolbox::of(tools, tools, false);
        self.headers.allowed_tools = CLIENT_TOOLS.join(",");
        self
    }

    pub(super) fn declared(mut self, declaration: ToolDeclaration) -> Self {
        self.declaration = declaration;
        self
    }

    pub(super) fn status(mut self, status: McpStatus) -> Self {
        self.toolbox = self.toolbox.with_status(status);
        self
    }

    /// The first call waits for its result.
    pub(super) fn hold(mut self, time: Duration) -> Self {
        self.hold = Some(time);
        self
    }

    // === headers ===

    pub(super) fn client_version(mut self, version: &'static str) -> Self {
        self.headers.client_version = Some(version);
        self
    }

    pub(super) fn blob_key(mut self, with_key: bool) -> Self {
        self.headers.blob_key = Some(with_key);
        self
    }

    pub(super) fn host(mut self, origin: String) -> Self {
        self.headers.host = Some(origin);
        self
    }

    pub(super) fn finish(mut self) -> ProbeRun {
        if self.declaration.has_definitions() {
            self.context.tools = self.toolbox.definitions().to_vec();
        }
        if self.declaration.has_meta_options() {
            self.context.mcp_meta_tool_options = self.toolbox.meta_options();
        }
        self.context.mcp_instructions = self.toolbox.instructions().into_iter().collect();
        let action = if self.resume {
            conversation_action::Action::ResumeAction(ResumeAction {
                request_context: Some(self.context.clone()),
            })
        } else {
            conversation_action::Action::UserMessageAction(UserMessageAction {
                user_message: Some(state::user_message(&said(&self.asked), 0, None)),
                ..UserMessageAction::default()
            })
        };
        let tools = self.toolbox.definitions();
        let declared = !tools.is_empty() && self.declaration.has_definitions();
        let ModelPick { id, parameters, max_mode } = &self.model;
        let request = AgentRunRequest {
            conversation_state: Some(self.state),
            action: Some(ConversationAction { action: Some(action) }),
            model_details: Some(ModelDetails {
                model_id: id.clone(),
                display_model_id: id.clone(),
                display_name: id.clone(),
                max_mode: max_mode.then_some(true),
                ..ModelDetails::default()
            }),
            mcp_tools: declared.then(|| McpTools { mcp_tools: tools.to_vec() }),
            conversation_id: Some(self.conversation),
            requested_model: Some(RequestedModel {
                model_id: id.clone(),
                max_mode: *max_mode,
                parameters: parameters.iter().map(parameter).collect(),
                ..RequestedModel::default()
            }),
            client_supports_inline_images: self.images.then_some(true),
            ..AgentRunRequest::default()
        };
        let message = agent_client_message::Message::RunRequest(request);
        ProbeRun {
            headers: self.headers,
            first: connect::encode(&AgentClientMessage { message: Some(message) }),
            context: self.context,
            toolbox: self.toolbox,
            blobs: self.blobs,
            hold: self.hold,
        }
    }
}

fn said(text: &str) -> Message {
    Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] }
}

fn parameter((id, value): &(String, String)) -> RequestedModelModelParameter {
    RequestedModelModelParameter { id: id.clone(), value: value.clone() }
}

/// A tool that takes one text.
pub(super) fn tool(name: &str, argument: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { argument: { "type": "string" } },
        "required": [argument],
    });
    Tool {
        name: name.to_owned(),
        description: "Takes a text and answers with one word.".to_owned(),
        schema: RawValue::from_string(schema.to_string()).ok(),
    }
}
