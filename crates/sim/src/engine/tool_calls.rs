//! Calls of client tools: their ids, the updates around a call, and the record of it in the turn.

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
    call_batch::EndedCall,
    exec::{ExecAnswer, ExecOutcome},
    run::SimRun,
    run_io::RunResult,
};
use crate::{
    behaviour::{NewlineIds, PartialCalls, ToolsMode},
    blobs::id_of,
    prompt::OfferedTool,
    protobuf::{hex, value_from_proto, value_to_proto},
    record::PromptEntry,
    scenario::Quirk,
};

/// Arguments of this size may be left out of `tool_call_completed`.
const LARGE: usize = 256;

impl SimRun {
    /// The next tool-call id: the same for the same conversation and number.
    pub(crate) fn call_id(&mut self) -> String {
        self.calls += 1;
        let seed = format!("{}/{}/{}", self.prompt.conversation, self.number, self.calls);
        let digits = hex(id_of(seed.as_bytes()).get(..6).unwrap_or_default());
        let model = self.prompt.model.as_str();
        let newline = match self.behaviour().ids_newline {
            NewlineIds::Off => self.has(Quirk::NewlineIds),
            NewlineIds::GptAuto => model == "default" || model.starts_with("gpt-"),
            NewlineIds::Always => true,
        };
        if newline { format!("call_{digits}\nfc_{digits}") } else { format!("call_{digits}") }
    }

    /// The id that all calls of one response of the model share.
    pub(crate) fn model_call_id(&self) -> String {
        format!("{}-{}-sim0", self.headers.request_id, self.responses)
    }

    /// The arguments of a call to an offered tool.
    pub(crate) fn mcp_args(&mut self, tool: &OfferedTool, args: &Map<String, Value>) -> McpArgs {
        McpArgs {
            name: tool.name.clone(),
            args: encode_args(args),
            tool_call_id: self.call_id(),
            provider_identifier: tool.provider.clone(),
            tool_name: tool.tool_name.clone(),
            server_identifier: self.server_identifier(&tool.provider),
            ..McpArgs::default()
        }
    }

    /// The identifier of the server, which only calls through the meta tools have.
    fn server_identifier(&self, provider: &str) -> String {
        match self.behaviour().tools_mode {
            ToolsMode::Direct => String::new(),
            ToolsMode::Meta | ToolsMode::MetaOldNames => provider.to_owned(),
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
        if args.server_identifier.is_empty() {
            args.server_identifier = self.server_identifier(&args.provider_identifier);
        }
    }

    /// `partial_tool_call` with an empty arm, then with the text of the arguments as it
    /// grows, then `tool_call_started` with all of them.
    pub(crate) async fn announce_begin(
        &mut self,
        args: &McpArgs,
        piece: Option<usize>,
    ) -> RunResult {
        self.record_text_so_far();
        let (call_id, model_call_id) = (args.tool_call_id.clone(), self.model_call_id());
        let partials = self.behaviour().tools_partial;
        let partial = |mcp: McpToolCall, text: &str| {
            Update::PartialToolCall(Box::new(PartialToolCallUpdate {
                call_id: call_id.clone(),
                tool_call: Some(call(mcp)),
                args_text_delta: text.to_owned(),
                model_call_id: model_call_id.clone(),
            }))
        };
        if partials != PartialCalls::Off {
            self.io.update(partial(McpToolCall::default(), "")).await?;
        }
        if matches!(partials, PartialCalls::Cumulative | PartialCalls::Wrapper) {
            let named = McpArgs { args: BTreeMap::new(), ..args.clone() };
            let named = McpToolCall { args: Some(named), result: None };
            let text = match partials {
                PartialCalls::Wrapper => written(&self.wrapper(args)),
                _ => written(&decode_args(&args.args)),
            };
            for (number, so_far) in growing(&text, piece).into_iter().enumerate() {
                if number == 1 {
                    // The real service often sends an empty one, also in the middle.
                    self.io.update(partial(named.clone(), "")).await?;
                }
                self.io.update(partial(named.clone(), so_far)).await?;
            }
        }
        let started = ToolCallStartedUpdate {
            call_id,
            tool_call: Some(call(McpToolCall { args: Some(args.clone()), result: None })),
            model_call_id,
        };
        self.io.update(Update::ToolCallStarted(Box::new(started))).await
    }

    /// `tool_call_completed` of a call that the service refuses by itself.
    pub(crate) async fn announce_refusal(&mut self, args: &McpArgs, text: &str) -> RunResult {
        let error =
            McpToolError { error: "Tool call failed".to_owned(), detail: Some(text.to_owned()) };
        let result = McpToolResult { result: Some(mcp_tool_result::Result::Error(error)) };
        let ended = call(McpToolCall { args: Some(args.clone()), result: Some(result) });
        self.announce_end(args.tool_call_id.clone(), ended).await
    }

    /// Records calls that have ended, and sends `tool_call_completed` for each, and a
    /// checkpoint.
    pub(crate) async fn announce_ends(&mut self, calls: Vec<EndedCall>) -> RunResult {
        let mut updates = Vec::with_capacity(calls.len());
        for EndedCall { args, answer, announce } in calls {
            let (call_id, name) = (args.tool_call_id.clone(), args.tool_name.clone());
            let (model_name, model_args) = self.as_the_model_called(&args);
            let mut shown = args;
            if self.behaviour().tools_map_drops_large {
                shown.args.retain(|_, value| value.len() <= LARGE);
            }
            let result = Some(tool_result(&answer));
            let tool_call = call(McpToolCall { args: Some(shown), result });
            self.record(&call_id, &model_name, &model_args, &answer, tool_call.clone());
            self.io.tally.learned(PromptEntry {
                role: "tool".to_owned(),
                text: answer.text,
                tool: Some(name),
            });
            if announce {
                updates.push((call_id, tool_call));
            }
        }
        for (call_id, tool_call) in updates {
            self.announce_end(call_id, tool_call).await?;
        }
        self.responses += 1;
        if self.has(Quirk::Terse) { Ok(()) } else { Box::pin(self.checkpoint()).await }
    }

    /// The name and the arguments of a call as the history has them.
    fn as_the_model_called(&self, args: &McpArgs) -> (String, Value) {
        let mode = self.behaviour().tools_mode;
        match mode {
            ToolsMode::Direct => (args.tool_name.clone(), Value::Object(decode_args(&args.args))),
            ToolsMode::Meta | ToolsMode::MetaOldNames => {
                (mode.meta_tools().1.to_owned(), Value::Object(self.wrapper(args)))
            }
        }
    }

    pub(crate) async fn announce_end(&mut self, call_id: String, tool_call: ToolCall) -> RunResult {
        let model_call_id = self.model_call_id();
        let tool_call = Some(tool_call);
        let completed = ToolCallCompletedUpdate { call_id, tool_call, model_call_id };
        self.io.update(Update::ToolCallCompleted(Box::new(completed))).await
    }

    /// Adds a call and its result to the turn.
    pub(crate) fn record(
        &mut self,
        call_id: &str,
        name: &str,
        args: &Value,
        answer: &ExecAnswer,
        tool_call: ToolCall,
    ) {
        let mut parts: Vec<Value> = self.take_signed_thought().into_iter().collect();
        parts.push(json!({
            "type": "tool-call", "toolCallId": call_id, "toolName": name, "args": args,
        }));
        self.log.messages.push(json!({ "role": "assistant", "id": call_id, "content": parts }));
        let mut result = json!({
            "type": "tool-result", "toolCallId": call_id, "toolName": name, "result": answer.text,
        });
        if let (false, Some(table)) =
            (answer.outcome == ExecOutcome::Success, result.as_object_mut())
        {
            table.insert("isError".to_owned(), json!(true));
        }
        self.log.messages.push(json!({ "role": "tool", "id": call_id, "content": [result] }));
        let step =
            ConversationStep { message: Some(conversation_step::Message::ToolCall(tool_call)) };
        self.log.steps.push(step.to_wire());
    }
}

/// Arguments as a model writes them: with spaces, and not in alphabetical order.
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

/// The prefixes of a text as it grows by `piece` characters.
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

/// The result as the updates carry it.
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
        _ if answer.outcome == ExecOutcome::Success => {
            mcp_tool_result::Result::Success(McpSuccess::default())
        }
        _ => error_result(&answer.text),
    };
    McpToolResult { result: Some(result) }
}

fn error_result(text: &str) -> mcp_tool_result::Result {
    mcp_tool_result::Result::Error(McpToolError {
        error: text.to_owned(),
        ..McpToolError::default()
    })
}

pub(crate) fn encode_args(args: &Map<String, Value>) -> BTreeMap<String, Bytes> {
    args.iter().map(|(name, value)| (name.clone(), value_to_proto(value))).collect()
}

pub(crate) fn decode_args(args: &BTreeMap<String, Bytes>) -> Map<String, Value> {
    args.iter()
        .map(|(name, value)| (name.clone(), value_from_proto(value).unwrap_or_default()))
        .collect()
}

#[cfg(test)]
#[path = "tool_calls_tests.rs"]
mod tests;
