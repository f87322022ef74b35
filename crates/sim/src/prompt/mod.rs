//! The input of a run: the question, the model, the tools, the rules, and the history from
//! blobs.

pub(crate) mod blocks;
mod effective;
mod images;
mod message;
pub(crate) mod root_checks;
pub(crate) mod server_entries;
pub(crate) mod validate;

use std::collections::HashMap;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, AgentRunRequest, ConversationStateStructure, ConversationStep,
    ConversationTurnStructure, McpToolDefinition, RequestContext, SelectedContext, UserMessage,
    conversation_action::Action, conversation_step, conversation_turn_structure, selected_image,
    system_prompt_spec, tool_call,
};
use serde_json::Value;

pub(crate) use self::message::{CalledNames, HistoryMessage, OfferedTool};
use crate::{
    blobs::{BlobId, id_of},
    models,
    protobuf::value_from_proto,
    scenario::{HistoryFacts, RunFacts},
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
    /// The colours of images of the history that the model sees.
    pub(crate) colours: Vec<&'static str>,
    /// The instructions that the model follows.
    pub(crate) rules: Vec<String>,
    /// Rules of the request context.
    context_rules: Vec<String>,
    /// Whether the service writes them into the prompt.
    pub(crate) context_shown: bool,
    /// Whether the history has the service's own entry with rules.
    pub(crate) server_context: bool,
    custom_prompt: Option<String>,
    /// A quirk allows it.
    pub(crate) custom_prompt_allowed: bool,
    system_spec: Option<String>,
    /// The question is the last entry of the history.
    asked_in_roots: bool,
    /// The message only asks to go on with the results before it.
    nudged: bool,
    /// System messages in the prompt, which it usually ignores.
    pub(crate) system: Vec<String>,
    pub(crate) history: Vec<HistoryMessage>,
    /// The texts of the root entries with the role `user`.
    pub(crate) user_texts: Vec<String>,
    /// The newest turn of the state.
    pub(crate) last_turn: Option<AgentConversationTurnStructure>,
    /// The role of each root entry; empty for one that is not a message.
    pub(crate) root_roles: Vec<String>,
    /// How many pieces of reasoning are in the root entries.
    pub(crate) reasoning: usize,
    /// The tools that the model can call.
    pub(crate) tools: Vec<OfferedTool>,
    /// The names of all tools that the client declares.
    pub(crate) tool_names: Vec<String>,
    /// Namespaces that are declared for the meta tools, and the tools in them.
    meta_namespaces: Vec<String>,
    meta_tools: Vec<OfferedTool>,
    /// Tools are declared in the request context.
    pub(crate) tools_in_context: bool,
    /// The texts that may describe tools to the model, until that is decided.
    prompt_texts: Vec<String>,
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
            custom_prompt: request.custom_system_prompt.clone(),
            system_spec: request
                .system_prompt_spec
                .as_ref()
                .and_then(|spec| spec.spec.as_ref())
                .map(|spec| match spec {
                    system_prompt_spec::Spec::Replace(text)
                    | system_prompt_spec::Spec::Append(text) => text.clone(),
                }),
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
        self.tools_in_context |= !context.tools.is_empty();
        self.add_tools(&context.tools);
        let meta = context.mcp_meta_tool_options.iter().filter(|options| options.enabled);
        let filled = meta.flat_map(|options| &options.descriptors).filter(|d| !d.tools.is_empty());
        for server in filled {
            self.meta_namespaces.push(server.server_identifier.clone());
            self.meta_tools.extend(server.tools.iter().map(|tool| OfferedTool {
                name: tool.tool_name.clone(),
                tool_name: tool.tool_name.clone(),
                provider: server.server_identifier.clone(),
                description: tool.description.clone().unwrap_or_default(),
                schema: tool.input_schema.as_deref().and_then(value_from_proto).unwrap_or_default(),
            }));
        }
        let rules = context.rules.iter().chain(&context.non_file_rules).map(|rule| &rule.content);
        let rules = context.cloud_rule.iter().chain(rules);
        for rule in rules.filter(|rule| !rule.is_empty()) {
            if !self.context_rules.contains(rule) {
                self.context_rules.push(rule.clone());
            }
        }
    }

    /// The namespaces of the client's tools.
    pub(crate) fn namespaces(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.tools.iter().map(|tool| tool.provider.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the user asks something, as opposed to a turn that continues.
    pub(crate) fn asks_anew(&self) -> bool {
        (self.user_message.is_some() && !self.nudged) || self.asked_in_roots
    }

    /// Whether a turn goes on, with a new run.
    pub(crate) fn goes_on(&self) -> bool {
        self.resume || self.nudged
    }

    /// Whether the history has to be read to know what is asked.
    pub(crate) fn asks_by_history(&self, verbatim: bool) -> bool {
        let folded = blocks::ParsedPrompt::folded(&self.text).is_some();
        (self.resume && verbatim) || folded || blocks::asks_to_go_on(&self.text)
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

    /// What scenario rules are compared with. `read`: the history was read, or does not matter.
    pub(crate) fn facts(&self, nth: u64, http1: bool, read: bool) -> RunFacts<'_> {
        let past = HistoryFacts {
            text: &self.text,
            resume: self.goes_on() && !self.asked_in_roots,
            history: !self.history.is_empty()
                || (!self.asked_in_roots && !self.state.root_prompt_messages_json.is_empty()),
        };
        RunFacts {
            model: &self.model,
            tools: &self.tool_names,
            nth,
            http1,
            history: read.then_some(past),
        }
    }

    /// Blob ids of root entries and turns, the last entry first, and of the user's images.
    pub(crate) fn root_batch(&self) -> Vec<Bytes> {
        let entries = &self.state.root_prompt_messages_json;
        let last = entries.last().into_iter();
        last.chain(entries)
            .chain(&self.state.turns)
            .cloned()
            .chain(image_blobs(self.user_message.as_ref()))
            .collect()
    }

    /// The turns that were fetched.
    pub(crate) fn turn_wrappers(
        &self,
        blobs: &HashMap<BlobId, Bytes>,
    ) -> Vec<AgentConversationTurnStructure> {
        self.turns(blobs).collect()
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

    /// The root entries as JSON; null for one that is not.
    pub(crate) fn root_entries(&self, blobs: &HashMap<BlobId, Bytes>) -> Vec<Value> {
        let ids = self.state.root_prompt_messages_json.iter();
        ids.map(|id| get(blobs, id).and_then(|data| serde_json::from_slice(data).ok()))
            .map(Option::unwrap_or_default)
            .collect()
    }

    /// Reads the history from the root entries and, where `turns` says so, from the turns.
    /// Returns the ids of the tool calls in it.
    pub(crate) fn read_history(
        &mut self,
        entries: &[Value],
        blobs: &HashMap<BlobId, Bytes>,
        turns: bool,
    ) -> Vec<String> {
        let mut call_ids: Vec<_> = entries.iter().flat_map(part_call_ids).collect();
        self.reasoning = root_checks::reasoning(entries).count();
        let names = CalledNames::new(entries);
        let mut history = Vec::new();
        let mut roles = Vec::new();
        for entry in entries {
            let said = HistoryMessage::all(entry, &names);
            roles.push(said.first().map(|said| said.role.clone()).unwrap_or_default());
            history.extend(said.into_iter().filter(|said| !said.role.is_empty()));
        }
        self.root_roles = roles;
        self.last_turn = self.turns(blobs).last();
        if turns {
            call_ids.extend(self.fill_from_turns(&mut history, blobs));
        }
        let users = history.iter().filter(|said| said.role == "user");
        self.user_texts = users.map(|said| said.text.clone()).collect();
        let telling = history.iter().filter(|said| matches!(said.role.as_str(), "system" | "user"));
        self.prompt_texts = telling.map(|said| said.text.clone()).collect();
        let is_system = |said: &HistoryMessage| said.role == "system";
        self.system = history.iter().filter(|s| is_system(s)).map(|s| s.text.clone()).collect();
        self.history = history.into_iter().filter(|s| !is_system(s)).collect();
        call_ids
    }

    /// Fills user entries that are blank, as the service's own checkpoints had them, from the
    /// turns. Returns the ids of the calls in the turns.
    fn fill_from_turns(
        &self,
        history: &mut [HistoryMessage],
        blobs: &HashMap<BlobId, Bytes>,
    ) -> Vec<String> {
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
