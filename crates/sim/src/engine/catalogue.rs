//! The client's tools as the model finds them through the meta tools: the state of the MCP
//! servers, the catalogue, and calls that name the meta tools.

use ibeam_core::codec::connect::Code;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    GetMcpToolsArgs, GetMcpToolsResult, GetMcpToolsSuccess, GetMcpToolsToolCall, McpArgs,
    McpStateExecArgs, McpStateServer, ReadArgs, ToolCall, ToolCallStartedUpdate, WriteArgs,
    exec_client_message::Message as Reply, get_mcp_tools_result,
    interaction_update::Message as Update, mcp_state_exec_result, tool_call,
};
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::{
    call_batch::MCP,
    exec::ExecOutcome,
    run::SimRun,
    run_io::{QuestionKey, RunResult, fail},
    tool_calls::{decode_args, encode_args},
};
use crate::{
    behaviour::{McpStateAsk, UsableStatus},
    scenario::EncodedArm,
};

const WRITE: u32 = 3;
const READ: u32 = 7;
const MCP_STATE: u32 = 36;
/// States of a server in which its tools cannot be called.
const UNUSABLE: &[&str] = &["needsAuth", "error", "loading"];

impl SimRun {
    /// Asks for the state of the client's MCP servers: first of the one that is declared, later
    /// of all. Tools that the answer does not have cannot be called.
    pub(super) async fn ask_mcp_state(&mut self, first: bool) -> RunResult {
        let ask = self.behaviour().tools_mcp_state;
        let Some(tool) = self.prompt.tools.first() else { return Ok(()) };
        let again = !first && self.responses == 1 && !self.state_asked_again;
        if ask == McpStateAsk::Off || !(first || again) {
            return Ok(());
        }
        self.state_asked_again = !first;
        let server_identifiers = if first { vec![tool.provider.clone()] } else { Vec::new() };
        let args = McpStateExecArgs { server_identifiers, ..McpStateExecArgs::default() };
        let payload = args.encode_to_vec().into();
        let key = self.ask_exec(&EncodedArm { field: MCP_STATE, payload }).await?;
        match ask {
            McpStateAsk::Off => {}
            McpStateAsk::Ask => self.io.flush().await?,
            McpStateAsk::Blocking => self.take_mcp_state(key).await?,
        }
        Ok(())
    }

    async fn take_mcp_state(&mut self, key: QuestionKey) -> RunResult {
        let answer = self.io.exec_answer(key).await?;
        let result = match answer.reply {
            Some(Reply::McpStateExecResult(result)) => result.result,
            _ => None,
        };
        let servers: Vec<McpStateServer> = match result {
            Some(mcp_state_exec_result::Result::Success(success)) => success.servers,
            _ => Vec::new(),
        };
        let wanted = self.behaviour().tools_mcp_status;
        let usable = |server: &&McpStateServer| match (wanted, server.status.as_deref()) {
            (UsableStatus::Any, status) => !UNUSABLE.contains(&status.unwrap_or_default()),
            (UsableStatus::Connected, status) => status == Some("connected"),
            (UsableStatus::Ready, status) => status == Some("ready"),
            (UsableStatus::Absent, status) => status.is_none(),
        };
        self.prompt.tools.retain(|tool| {
            servers.iter().filter(usable).any(|server| {
                server.server_identifier == tool.provider
                    && server.tools.iter().any(|listed| listed.name == tool.name)
            })
        });
        Ok(())
    }

    /// The model looks at the catalogue before its first call.
    pub(super) async fn show_catalogue(&mut self) -> RunResult {
        if std::mem::replace(&mut self.catalogue_shown, true) || self.prompt.tools.is_empty() {
            return Ok(());
        }
        let namespace = self.prompt.tools.first().map(|t| t.provider.clone()).unwrap_or_default();
        let call_id = self.call_id();
        let call = |result| ToolCall {
            tool: Some(tool_call::Tool::GetMcpToolsToolCall(GetMcpToolsToolCall {
                args: Some(GetMcpToolsArgs {
                    server: Some(namespace.clone()),
                    tool_call_id: call_id.clone(),
                    ..GetMcpToolsArgs::default()
                }),
                result,
            })),
            ..ToolCall::default()
        };
        let started = ToolCallStartedUpdate {
            call_id: call_id.clone(),
            tool_call: Some(call(None)),
            model_call_id: self.model_call_id(),
        };
        self.io.update(Update::ToolCallStarted(Box::new(started))).await?;
        let content = self.catalogue();
        let mut output_file_path = None;
        if self.behaviour().tools_literal_meta {
            Box::pin(self.ask_catalogue(&namespace)).await?;
        } else if self.behaviour().tools_spill_catalogue {
            output_file_path = Some(Box::pin(self.spill(&call_id, &content)).await?);
        }
        let content = if output_file_path.is_some() { String::new() } else { content };
        let success = GetMcpToolsSuccess { content, output_file_path };
        let result = Some(get_mcp_tools_result::Result::Success(success));
        let ended = call(Some(GetMcpToolsResult { result }));
        self.announce_end(call_id, ended).await
    }

    /// The catalogue as text.
    fn catalogue(&self) -> String {
        let tool = |tool: &crate::prompt::OfferedTool| {
            json!({
                "namespace": tool.provider,
                "toolName": tool.tool_name,
                "description": tool.description,
                "inputSchema": tool.schema,
            })
        };
        Value::Array(self.prompt.tools.iter().map(tool).collect()).to_string()
    }

    /// Writes the catalogue at the client and reads it again.
    async fn spill(&mut self, call_id: &str, content: &str) -> RunResult<String> {
        let path = format!("/tmp/cursor-agent-tools/{}.txt", call_id.replace('\n', "-"));
        let write = WriteArgs {
            path: path.clone(),
            file_text: content.to_owned(),
            tool_call_id: call_id.to_owned(),
            ..WriteArgs::default()
        };
        let key = self.ask_exec(&EncodedArm { field: WRITE, payload: write.to_wire() }).await?;
        let written = self.io.exec_answer(key).await?.outcome == ExecOutcome::Success;
        let read = ReadArgs {
            path: path.clone(),
            tool_call_id: call_id.to_owned(),
            ..ReadArgs::default()
        };
        let key = self.ask_exec(&EncodedArm { field: READ, payload: read.to_wire() }).await?;
        let read = self.io.exec_answer(key).await?;
        if !written || read.text != content {
            return Err(fail(Code::Internal, "The tool catalogue cannot be read"));
        }
        Ok(path)
    }

    /// Asks the client for the catalogue by a call of the meta tool.
    async fn ask_catalogue(&mut self, namespace: &str) -> RunResult {
        let name = self.behaviour().tools_mode.meta_tools().0.to_owned();
        let mut args = Map::new();
        args.insert("namespace".to_owned(), json!(namespace));
        let ask = McpArgs {
            tool_name: name.clone(),
            name,
            args: encode_args(&args),
            tool_call_id: self.call_id(),
            ..McpArgs::default()
        };
        let key = self.ask_exec(&EncodedArm { field: MCP, payload: ask.to_wire() }).await?;
        let answer = self.io.exec_answer(key).await?;
        // A model that does not see the schemas has to guess the arguments.
        let complete = self.prompt.tools.iter().all(|tool| {
            let properties = tool.schema.get("properties").and_then(Value::as_object);
            answer.text.contains(&tool.tool_name)
                && properties.into_iter().flatten().all(|(name, _)| answer.text.contains(name))
        });
        if !complete {
            self.io.violation("the tool catalogue has no complete input schemas");
        }
        Ok(())
    }

    /// A call under the name of the meta tool.
    pub(super) fn literal_call(&self, args: &McpArgs) -> McpArgs {
        let name = self.behaviour().tools_mode.meta_tools().1.to_owned();
        let wrapper = self.wrapper(args);
        McpArgs {
            tool_name: name.clone(),
            name,
            args: encode_args(&wrapper),
            tool_call_id: args.tool_call_id.clone(),
            ..McpArgs::default()
        }
    }

    /// The arguments of the meta tool for a call.
    pub(super) fn wrapper(&self, args: &McpArgs) -> Map<String, Value> {
        let mut wrapper = Map::new();
        wrapper.insert("namespace".to_owned(), json!(args.provider_identifier));
        wrapper.insert("toolName".to_owned(), json!(args.tool_name));
        wrapper.insert("arguments".to_owned(), Value::Object(decode_args(&args.args)));
        wrapper
    }
}
