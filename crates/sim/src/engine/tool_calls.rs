//! Client tools as the model sees them: ids, the notices around a call, and arguments
//! made to fit a schema.

use std::collections::BTreeMap;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    ConversationStep, McpArgs, McpSuccess, McpToolCall, McpToolError, McpToolResult,
    PartialToolCallUpdate, ToolCall, ToolCallCompletedUpdate, ToolCallStartedUpdate,
    conversation_step, exec_client_message, interaction_update::Message as Update, mcp_result,
    mcp_tool_result, tool_call,
};
use serde_json::{Map, Value, json};

use super::{
    exec::{ExecAnswer, Outcome},
    run::Run,
    run_io::Step as Done,
};
use crate::{
    blobs::id_of,
    prompt::Tool,
    protobuf::{hex, value_from_proto, value_to_proto},
    scenario::quirks::Quirk,
};

impl Run {
    /// The next tool-call id: the same for the same conversation and number.
    pub(crate) fn call_id(&mut self) -> String {
        self.calls += 1;
        let seed = format!("{}/{}/{}", self.prompt.conversation, self.number, self.calls);
        let digits = hex(id_of(seed.as_bytes()).get(..6).unwrap_or_default());
        if self.has(Quirk::NewlineIds) {
            format!("call_{digits}\nfc_{digits}")
        } else {
            format!("call_{digits}")
        }
    }

    /// The same for all calls of one response of the model.
    pub(crate) fn model_call_id(&self) -> String {
        format!("{}-{}-sim0", self.request_id, self.responses)
    }

    /// The arguments of a call to an offered tool.
    pub(crate) fn mcp_args(&mut self, tool: &Tool, args: &Map<String, Value>) -> McpArgs {
        McpArgs {
            name: tool.name.clone(),
            args: encode_args(args),
            tool_call_id: self.call_id(),
            provider_identifier: tool.provider.clone(),
            tool_name: tool.tool_name.clone(),
            ..McpArgs::default()
        }
    }

    /// Fills in what a script left out of a call.
    pub(crate) fn complete(&mut self, args: &mut McpArgs) {
        if args.tool_call_id.is_empty() {
            args.tool_call_id = self.call_id();
        }
        let tool =
            self.prompt.tools.iter().find(|t| t.name == args.name || t.tool_name == args.name);
        if args.tool_name.is_empty() {
            args.tool_name = tool.map_or_else(|| args.name.clone(), |tool| tool.tool_name.clone());
        }
        if let (true, Some(tool)) = (args.provider_identifier.is_empty(), tool) {
            args.provider_identifier = tool.provider.clone();
        }
    }

    /// `partial_tool_call` with an empty arm, then with the text of the arguments as it
    /// grows, then `tool_call_started` with all of them.
    pub(crate) async fn announce_begin(&mut self, args: &McpArgs, piece: Option<usize>) -> Done {
        self.tell_so_far();
        let (call_id, model_call_id) = (args.tool_call_id.clone(), self.model_call_id());
        let partial = |mcp: McpToolCall, text: &str| {
            Update::PartialToolCall(PartialToolCallUpdate {
                call_id: call_id.clone(),
                tool_call: Some(call(mcp)),
                args_text_delta: text.to_owned(),
                model_call_id: model_call_id.clone(),
            })
        };
        self.engine.update(partial(McpToolCall::default(), "")).await?;
        let named = McpArgs { args: BTreeMap::new(), ..args.clone() };
        let named = McpToolCall { args: Some(named), result: None };
        let text = written(&decode_args(&args.args));
        for (number, so_far) in growing(&text, piece).into_iter().enumerate() {
            if number == 1 {
                // Often there is nothing in it, also in the middle.
                self.engine.update(partial(named.clone(), "")).await?;
            }
            self.engine.update(partial(named.clone(), so_far)).await?;
        }
        let started = ToolCallStartedUpdate {
            call_id,
            tool_call: Some(call(McpToolCall { args: Some(args.clone()), result: None })),
            model_call_id,
        };
        self.engine.update(Update::ToolCallStarted(started)).await
    }

    /// The messages of calls that are over, `tool_call_completed` for each, and a
    /// checkpoint.
    pub(crate) async fn announce_ends(&mut self, calls: Vec<(McpArgs, Box<ExecAnswer>)>) -> Done {
        let mut notices = Vec::with_capacity(calls.len());
        for (args, answer) in calls {
            let (call_id, name) = (args.tool_call_id.clone(), args.tool_name.clone());
            let json_args = Value::Object(decode_args(&args.args));
            let result = Some(tool_result(&answer));
            let tool_call = call(McpToolCall { args: Some(args), result });
            self.record(&call_id, &name, &json_args, &answer, tool_call.clone());
            notices.push((call_id, tool_call));
        }
        for (call_id, tool_call) in notices {
            self.announce_end(call_id, tool_call).await?;
        }
        self.responses += 1;
        if self.has(Quirk::Terse) { Ok(()) } else { Box::pin(self.checkpoint()).await }
    }

    pub(crate) async fn announce_end(&mut self, call_id: String, tool_call: ToolCall) -> Done {
        let model_call_id = self.model_call_id();
        let tool_call = Some(tool_call);
        let completed = ToolCallCompletedUpdate { call_id, tool_call, model_call_id };
        self.engine.update(Update::ToolCallCompleted(completed)).await
    }

    /// Puts a call and its result into the turn.
    pub(crate) fn record(
        &mut self,
        call_id: &str,
        name: &str,
        args: &Value,
        answer: &ExecAnswer,
        tool_call: ToolCall,
    ) {
        self.messages.push(json!({ "role": "assistant", "id": call_id, "content": [{
            "type": "tool-call", "toolCallId": call_id, "toolName": name, "args": args,
        }] }));
        let mut result = json!({
            "type": "tool-result", "toolCallId": call_id, "toolName": name, "result": answer.text,
        });
        if let (false, Some(table)) = (answer.outcome == Outcome::Success, result.as_object_mut()) {
            table.insert("isError".to_owned(), json!(true));
        }
        self.messages.push(json!({ "role": "tool", "id": call_id, "content": [result] }));
        let step =
            ConversationStep { message: Some(conversation_step::Message::ToolCall(tool_call)) };
        self.steps.push(step.to_wire());
    }
}

/// Arguments as a model writes them: with spaces, and keys in an order of its own.
fn written(args: &Map<String, Value>) -> String {
    let fields: Vec<_> = args
        .iter()
        .rev()
        .map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced(value)))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Object(table) => written(table),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

/// The text as it grows, so many characters at a time.
fn growing(text: &str, piece: Option<usize>) -> Vec<&str> {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    match piece {
        Some(0) => Vec::new(),
        None => vec![text],
        Some(piece) => {
            let mut out: Vec<_> = ends
                .skip(piece - 1)
                .step_by(piece)
                .filter(|end| *end < text.len())
                .filter_map(|end| text.get(..end))
                .collect();
            out.push(text);
            out
        }
    }
}

fn call(mcp: McpToolCall) -> ToolCall {
    ToolCall { tool: Some(tool_call::Tool::McpToolCall(mcp)), ..ToolCall::default() }
}

/// The result as the notices carry it.
fn tool_result(answer: &ExecAnswer) -> McpToolResult {
    let result = match &answer.reply {
        Some(exec_client_message::Message::McpResult(mcp)) => match &mcp.result {
            Some(mcp_result::Result::Success(success)) => {
                mcp_tool_result::Result::Success(success.clone())
            }
            Some(mcp_result::Result::Rejected(refused)) => {
                mcp_tool_result::Result::Rejected(refused.clone())
            }
            _ => error_result(&answer.text),
        },
        _ if answer.outcome == Outcome::Success => {
            mcp_tool_result::Result::Success(McpSuccess::default())
        }
        _ => error_result(&answer.text),
    };
    McpToolResult { result: Some(result) }
}

fn error_result(text: &str) -> mcp_tool_result::Result {
    mcp_tool_result::Result::Error(McpToolError { error: text.to_owned() })
}

pub(crate) fn encode_args(args: &Map<String, Value>) -> BTreeMap<String, Bytes> {
    args.iter().map(|(name, value)| (name.clone(), value_to_proto(value))).collect()
}

fn decode_args(args: &BTreeMap<String, Bytes>) -> Map<String, Value> {
    args.iter()
        .map(|(name, value)| (name.clone(), value_from_proto(value).unwrap_or_default()))
        .collect()
}

// === choosing and filling ===

/// Parts of names that make a tool mean something else.
const OTHER: &[&str] = &["todo", "notebook", "web_search", "tool_search", "memory"];

/// What a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shell,
    Read,
    Write,
    Edit,
    /// Takes a patch as one text.
    Patch,
    List,
    Glob,
    Grep,
    Fetch,
}

impl Kind {
    /// Names under which coding clients offer such a tool, the likeliest first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Shell => &[
                "bash",
                "shell",
                "run_terminal_cmd",
                "run_terminal_command",
                "exec_command",
                "execute_command",
                "run_command",
                "run_shell_command",
                "local_shell",
                "terminal",
                "developer__shell",
            ],
            Self::Read => {
                &["read", "read_file", "readfile", "view", "view_file", "open_file", "cat"]
            }
            Self::Write => &[
                "write",
                "write_file",
                "writefile",
                "write_to_file",
                "create_file",
                "create_new_file",
                "create",
            ],
            Self::Edit => &["edit", "edit_file", "str_replace", "search_replace", "replace"],
            Self::Patch => &["apply_patch"],
            Self::List => &["list", "ls", "list_dir", "list_directory", "list_files", "builtin_ls"],
            Self::Glob => &["glob", "find", "glob_file_search", "file_search", "find_files"],
            Self::Grep => &["grep", "search", "grep_search", "search_files", "ripgrep"],
            Self::Fetch => &["webfetch", "web_fetch", "fetch", "fetch_url", "fetch_url_content"],
        }
    }

    /// Whether a tool of this name does this.
    pub(crate) fn is(self, name: &str) -> bool {
        self.names().contains(&name.to_lowercase().replace('-', "_").as_str())
    }

    /// The offered tool that does this.
    pub(crate) fn find(self, tools: &[Tool]) -> Option<&Tool> {
        let plain = |name: &str| name.to_lowercase().replace('-', "_");
        let exact = self
            .names()
            .iter()
            .find_map(|name| tools.iter().find(|tool| plain(&tool.tool_name) == *name));
        // Some clients put a server name in front.
        exact.or_else(|| {
            self.names().iter().find_map(|name| {
                tools.iter().find(|tool| {
                    let full = plain(&tool.tool_name);
                    // `todo_write` writes no file, `web_search` searches no folder.
                    !OTHER.iter().any(|other| full.contains(other))
                        && full
                            .strip_suffix(name)
                            .is_some_and(|head| head.ends_with(['_', '.', '/']))
                })
            })
        })
    }
}

/// Puts values under the property names that a schema uses for them, and fills what is
/// required besides.
///
/// `wants` holds a value and the names it may go by, the likeliest first.
pub(crate) fn fit(schema: &Value, wants: &[(&[&str], Value)]) -> Map<String, Value> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut args = Map::new();
    for (names, value) in wants {
        let plain = |name: &str| name.to_lowercase().replace('_', "");
        let found = names
            .iter()
            .find_map(|name| properties.keys().find(|key| plain(key) == plain(name)))
            .cloned()
            .or_else(|| {
                names.first().map(|name| (*name).to_owned()).filter(|_| properties.is_empty())
            });
        if let Some(key) = found {
            let shaped = shape(properties.get(&key), value);
            args.entry(key).or_insert(shaped);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !args.contains_key(name) {
            args.insert(name.to_owned(), sample(properties.get(name), name));
        }
    }
    args
}

/// A command that must be a list of words becomes one.
fn shape(property: Option<&Value>, value: &Value) -> Value {
    let kind = property.and_then(|p| p.get("type")).and_then(Value::as_str);
    match (kind, value) {
        (Some("array"), Value::String(command)) => json!(["bash", "-lc", command]),
        _ => value.clone(),
    }
}

/// A value that fits a property nobody spoke of.
fn sample(property: Option<&Value>, name: &str) -> Value {
    let get = |key: &str| property.and_then(|p| p.get(key));
    if let Some(value) = get("default").or_else(|| get("const")) {
        return value.clone();
    }
    if let Some(first) = get("enum").and_then(Value::as_array).and_then(|list| list.first()) {
        return first.clone();
    }
    let kind = match get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
        _ => "string",
    };
    match kind {
        "boolean" => json!(false),
        "integer" | "number" => get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "array" => json!([]),
        "object" => Value::Object(fit(property.unwrap_or(&Value::Null), &[])),
        "null" => Value::Null,
        _ => json!(match name {
            "description" | "explanation" | "reason" => "As the user asked",
            "path" | "file_path" | "filePath" | "dir" | "directory" => ".",
            _ => "x",
        }),
    }
}

#[cfg(test)]
#[path = "tool_calls_tests.rs"]
mod tests;
