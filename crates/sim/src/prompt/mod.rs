//! The input of a run: the question, the model, the tools, the rules, and the history from
//! blobs.

mod message;
pub(crate) mod validate;

use std::collections::HashMap;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, AgentRunRequest, ConversationStateStructure, ConversationStep,
    ConversationTurnStructure, McpToolDefinition, RequestContext, SelectedContext, UserMessage,
    conversation_action::Action, conversation_step, conversation_turn_structure, selected_image,
    tool_call,
};
use serde_json::Value;

pub(crate) use self::message::{HistoryMessage, OfferedTool};
use crate::{
    blobs::{BlobId, id_of},
    models,
    protobuf::value_from_proto,
    scenario::RunFacts,
};

/// Everything the model knows at the start of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunPrompt {
    pub(crate) conversation: String,
    pub(crate) model: String,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) max_mode: bool,
    pub(crate) text: String,
    pub(crate) user_message: Option<UserMessage>,
    pub(crate) mode: i32,
    pub(crate) resume: bool,
    pub(crate) images: usize,
    /// Cloud rule and rules, which the model follows.
    pub(crate) rules: Vec<String>,
    /// System messages in the prompt, which it usually ignores.
    pub(crate) system: Vec<String>,
    pub(crate) history: Vec<HistoryMessage>,
    /// The texts of the root entries with the role `user`.
    pub(crate) user_texts: Vec<String>,
    /// The newest turn of the state.
    pub(crate) last_turn: Option<AgentConversationTurnStructure>,
    /// The role of each root entry; empty for one that is not a message.
    pub(crate) root_roles: Vec<String>,
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) tool_names: Vec<String>,
    pub(crate) inline_context: bool,
    pub(crate) state: ConversationStateStructure,
}

impl RunPrompt {
    pub(crate) fn new(request: &AgentRunRequest) -> Self {
        let action = request.action.as_ref().and_then(|action| action.action.as_ref());
        let user = match action {
            Some(Action::UserMessageAction(action)) => action.user_message.clone(),
            Some(Action::StartPlanAction(action)) => action.user_message.clone(),
            Some(Action::SummarizeAction(_)) => Some(plain("Summarize the conversation.")),
            Some(Action::ShellCommandAction(action)) => action
                .shell_command
                .as_ref()
                .map(|shell| plain(&format!("run `{}`", shell.command))),
            Some(Action::ExecutePlanAction(_)) => Some(plain("Execute the plan.")),
            _ => None,
        };
        let parameters = request.requested_model.iter().flat_map(|m| &m.parameters);
        let mut parameters: Vec<_> = parameters.map(|p| (p.id.clone(), p.value.clone())).collect();
        let mut model = validate::model_id(request);
        if let (true, Some((base, inside))) =
            (validate::is_variant(request), models::split_variant(model))
        {
            model = base;
            parameters.extend(inside);
        }
        let max_mode = request.requested_model.as_ref().is_some_and(|m| m.max_mode)
            || request.model_details.as_ref().is_some_and(|m| m.max_mode == Some(true));
        let mut prompt = Self {
            conversation: request.conversation_id.clone().unwrap_or_default(),
            model: model.to_owned(),
            parameters,
            max_mode,
            rules: request.custom_system_prompt.iter().cloned().collect(),
            text: user.as_ref().map(|user| user.text.clone()).unwrap_or_default(),
            mode: user.as_ref().map_or(1, |user| user.mode),
            resume: matches!(action, Some(Action::ResumeAction(_))),
            images: images(user.as_ref()).count(),
            user_message: user,
            state: request.conversation_state.clone().unwrap_or_default(),
            ..Self::default()
        };
        if let Some(mcp) = &request.mcp_tools {
            prompt.add_tools(&mcp.mcp_tools);
        }
        if let Some(context) = action.and_then(validate::inline_context) {
            prompt.inline_context = true;
            prompt.add_context(context);
        }
        prompt
    }

    pub(crate) fn add_context(&mut self, context: &RequestContext) {
        self.add_tools(&context.tools);
        let rules = context.cloud_rule.iter().chain(context.rules.iter().map(|r| &r.content));
        for rule in rules.filter(|rule| !rule.is_empty()) {
            if !self.rules.contains(rule) {
                self.rules.push(rule.clone());
            }
        }
    }

    fn add_tools(&mut self, tools: &[McpToolDefinition]) {
        for tool in tools {
            let tool_name = if tool.tool_name.is_empty() { &tool.name } else { &tool.tool_name };
            if self.tool_names.contains(tool_name) {
                continue;
            }
            self.tool_names.push(tool_name.clone());
            let json = tool.input_schema_json.as_deref();
            self.tools.push(OfferedTool {
                name: tool.name.clone(),
                tool_name: tool_name.clone(),
                provider: tool.provider_identifier.clone(),
                description: tool.description.clone(),
                schema: value_from_proto(&tool.input_schema)
                    .filter(Value::is_object)
                    .or_else(|| serde_json::from_str(json?).ok())
                    .unwrap_or_default(),
            });
        }
    }

    pub(crate) fn facts(&self, nth: u64, http1: bool) -> RunFacts<'_> {
        RunFacts {
            model: &self.model,
            text: &self.text,
            tools: &self.tool_names,
            nth,
            resume: self.resume,
            http1,
            history: !self.state.root_prompt_messages_json.is_empty(),
        }
    }

    /// Blob ids that the state references directly.
    pub(crate) fn roots(&self) -> Vec<Bytes> {
        let state = &self.state;
        state
            .root_prompt_messages_json
            .iter()
            .chain(&state.turns)
            .chain(&state.todos)
            .chain(&state.summary)
            .chain(&state.plan)
            .chain(&state.summary_archive)
            .chain(&state.summary_archives)
            .cloned()
            .chain(image_blobs(self.user_message.as_ref()))
            .collect()
    }

    /// Blob ids inside the turns.
    pub(crate) fn nested(&self, blobs: &HashMap<BlobId, Bytes>) -> Vec<Bytes> {
        self.turns(blobs)
            .flat_map(|turn| std::iter::once(turn.user_message).chain(turn.steps))
            .filter(|id| !id.is_empty())
            .collect()
    }

    /// The user's messages of earlier turns, as they were sent then.
    pub(crate) fn past_messages(&self, blobs: &HashMap<BlobId, Bytes>) -> Vec<UserMessage> {
        self.turns(blobs)
            .filter_map(|turn| UserMessage::from_wire(get(blobs, &turn.user_message)?.clone()).ok())
            .collect()
    }

    fn turns<'a>(
        &'a self,
        blobs: &'a HashMap<BlobId, Bytes>,
    ) -> impl Iterator<Item = AgentConversationTurnStructure> + 'a {
        self.state.turns.iter().filter_map(|id| {
            let turn = ConversationTurnStructure::from_wire(get(blobs, id)?.clone()).ok()?;
            match turn.turn? {
                conversation_turn_structure::Turn::AgentConversationTurn(turn) => Some(turn),
                conversation_turn_structure::Turn::ShellConversationTurn(_) => None,
            }
        })
    }

    /// Reads the history from the blobs. Returns the ids of the tool calls in it.
    ///
    /// The prompt is made from the root messages. User entries that are blank, as the
    /// service's own checkpoints have them, are filled from the turns.
    pub(crate) fn read_history(&mut self, blobs: &HashMap<BlobId, Bytes>) -> Vec<String> {
        let mut call_ids = Vec::new();
        let mut users: Vec<String> = Vec::new();
        for turn in self.turns(blobs) {
            let user = get(blobs, &turn.user_message).cloned().unwrap_or_default();
            users.push(UserMessage::from_wire(user).unwrap_or_default().text);
            for step in &turn.steps {
                let step = get(blobs, step).cloned().unwrap_or_default();
                call_ids
                    .extend(step_call_id(&ConversationStep::from_wire(step).unwrap_or_default()));
            }
        }
        let mut history = Vec::new();
        let mut roles = Vec::new();
        for id in &self.state.root_prompt_messages_json {
            let message = get(blobs, id).and_then(|b| serde_json::from_slice(b).ok());
            let message: Value = message.unwrap_or_default();
            call_ids.extend(part_call_ids(&message));
            let said = HistoryMessage::all(&message);
            roles.push(said.first().map(|said| said.role.clone()).unwrap_or_default());
            history.extend(said.into_iter().filter(|said| !said.role.is_empty()));
        }
        self.root_roles = roles;
        self.last_turn = self.turns(blobs).last();
        let blanks = history.iter().filter(|said| said.role == "user").count();
        let mut fill = users.into_iter();
        // More turns than entries: the oldest were summarised away.
        for _ in 0..fill.len().saturating_sub(blanks) {
            fill.next();
        }
        // More entries than turns: the client has added some after the state.
        for entry in history.iter_mut().filter(|said| said.role == "user") {
            let text = fill.next().unwrap_or_default();
            if entry.text.is_empty() {
                entry.text = text;
            }
        }
        let users = history.iter().filter(|said| said.role == "user");
        self.user_texts = users.map(|said| said.text.clone()).collect();
        let is_system = |said: &HistoryMessage| said.role == "system";
        self.system = history.iter().filter(|s| is_system(s)).map(|s| s.text.clone()).collect();
        self.history = history.into_iter().filter(|s| !is_system(s)).collect();
        call_ids
    }
}

/// An estimate: four characters per token.
pub(crate) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Image contents of a user message.
pub(crate) fn images(
    user: Option<&UserMessage>,
) -> impl Iterator<Item = &selected_image::DataOrBlobId> {
    selected(user)
        .flat_map(|context| &context.selected_images)
        .filter_map(|i| i.data_or_blob_id.as_ref())
}

/// Ids of images that must be fetched.
pub(crate) fn image_blobs(user: Option<&UserMessage>) -> impl Iterator<Item = Bytes> + '_ {
    images(user).filter_map(|image| match image {
        selected_image::DataOrBlobId::BlobId(id) => Some(id.clone()),
        _ => None,
    })
}

/// The uuid and the content id of each image.
pub(crate) fn image_ids(user: Option<&UserMessage>) -> Vec<(String, BlobId)> {
    selected(user)
        .flat_map(|context| &context.selected_images)
        .filter_map(|image| match image.data_or_blob_id.as_ref()? {
            selected_image::DataOrBlobId::Data(data) => Some((image.uuid.clone(), id_of(data))),
            selected_image::DataOrBlobId::BlobIdWithData(both) => {
                Some((image.uuid.clone(), id_of(&both.data)))
            }
            selected_image::DataOrBlobId::BlobId(id) => {
                Some((image.uuid.clone(), BlobId::try_from(&id[..]).ok()?))
            }
        })
        .collect()
}

fn selected(user: Option<&UserMessage>) -> impl Iterator<Item = &SelectedContext> {
    user.and_then(|user| user.selected_context.as_ref()).into_iter()
}

fn plain(text: &str) -> UserMessage {
    UserMessage { text: text.to_owned(), mode: 1, ..UserMessage::default() }
}

fn get<'a>(blobs: &'a HashMap<BlobId, Bytes>, id: &Bytes) -> Option<&'a Bytes> {
    blobs.get(&BlobId::try_from(&id[..]).ok()?)
}

fn part_call_ids(message: &Value) -> Vec<String> {
    let parts = message.get("content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("toolCallId")?.as_str().map(str::to_owned))
        .collect()
}

fn step_call_id(step: &ConversationStep) -> Option<String> {
    let Some(conversation_step::Message::ToolCall(call)) = &step.message else { return None };
    match &call.tool {
        Some(tool_call::Tool::McpToolCall(mcp)) => {
            mcp.args.as_ref().map(|args| args.tool_call_id.clone())
        }
        _ => call.tool_call_id.clone(),
    }
}
