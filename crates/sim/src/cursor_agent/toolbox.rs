//! The model's tools: those of MCP servers, which are really called, and the CLI's own, which do
//! nothing on this machine. Permission is decided as in the CLI (§9.2): by `.cursor/cli.json`, by
//! `--force`, and under ACP by asking.

use std::time::Duration;

use bytes::Bytes;
use ibeam_proto::agent::{
    FetchError, FetchResult, FetchSuccess, GrepError, GrepResult, GrepSuccess, LsDirectoryTreeNode,
    LsRejected, LsResult, LsSuccess, McpArgs, McpError, McpRejected, McpResult, McpSuccess,
    ReadRejected, ReadResult, ReadSuccess, ShellRejected, ShellResult, ShellStream,
    ShellStreamExit, ShellStreamStdout, ShellSuccess, WriteRejected, WriteResult, WriteSuccess,
    exec_client_message::Message as Reply, exec_server_message::Message as Exec, fetch_result,
    grep_result, ls_result, mcp_result, read_result, read_success, shell_result, shell_stream,
    write_result,
};
use serde_json::{Map, Value, json};

use super::{acp::PermissionAsker, mcp::McpConnection, permissions::CliPermissions};
use crate::protobuf::value_from_proto;

/// The result of a refused call.
const REFUSED: &str = "The tool call was rejected by the user's permissions";

#[derive(Debug, Default)]
pub(super) struct FakeTools {
    pub(super) servers: Vec<McpConnection>,
    pub(super) permissions: CliPermissions,
    pub(super) force: bool,
    /// Asks the client for permission, under ACP.
    pub(super) asker: Option<PermissionAsker>,
    pub(super) ask_mcp: bool,
    /// The timeout for calls of MCP tools.
    pub(super) timeout: Option<Duration>,
    pub(super) offers: Vec<McpTool>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct McpTool {
    pub(super) server: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

/// A call that needs permission.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PermissionRequest {
    pub(super) call_id: String,
    /// `Shell`, `Read`, `Write`, `WebFetch` or `Mcp`, as in permission rules.
    pub(super) class: &'static str,
    /// The text between the brackets of a rule.
    pub(super) object: String,
    /// ACP's kind of tool.
    pub(super) kind: &'static str,
    pub(super) raw_input: Value,
}

impl FakeTools {
    /// Adds connected servers and their tools.
    pub(super) fn add_servers(&mut self, servers: Vec<(McpConnection, Vec<McpTool>)>) {
        for (server, offers) in servers {
            self.servers.push(server);
            self.offers.extend(offers);
        }
    }

    /// Calls a tool of an MCP server.
    pub(super) async fn call(&self, args: McpArgs) -> McpResult {
        let result = |result| McpResult { result: Some(result) };
        let error = |error: String| {
            result(mcp_result::Result::Error(McpError { error, ..McpError::default() }))
        };
        let (server, tool) = (&args.provider_identifier, &args.tool_name);
        let input: Map<String, Value> = args
            .args
            .iter()
            .map(|(name, value)| (name.clone(), value_from_proto(value).unwrap_or_default()))
            .collect();
        let request = PermissionRequest {
            call_id: args.tool_call_id.clone(),
            class: "Mcp",
            object: format!("{server}:{tool}"),
            kind: "other",
            raw_input: json!({ "providerIdentifier": server, "toolName": tool, "args": input }),
        };
        let asked = self.asker.as_ref().filter(|_| self.ask_mcp);
        if self.permissions.denies(request.class, &request.object)
            || !asked_for(asked, &request).await.unwrap_or(true)
        {
            let reason = REFUSED.to_owned();
            return result(mcp_result::Result::Rejected(McpRejected {
                reason,
                ..McpRejected::default()
            }));
        }
        let Some(server) = self.servers.iter().find(|known| known.name() == server) else {
            return error(format!("MCP server {server} is not connected"));
        };
        match server.call(tool, &input, self.timeout).await {
            Ok(success) => result(mcp_result::Result::Success(success)),
            Err(words) => error(words),
        }
    }

    /// Pretends to use one of the CLI's own tools. Empty for a tool it does not have.
    pub(super) async fn own(&self, exec: Exec) -> Vec<Reply> {
        let Some(request) = permission_request(&exec) else { return Vec::new() };
        if self.allows(&request).await { pretend(exec) } else { refuse(exec) }
    }

    /// Reading is always allowed; the rest needs `--force`, a rule, or the client's consent.
    async fn allows(&self, request: &PermissionRequest) -> bool {
        if self.permissions.denies(request.class, &request.object) {
            return false;
        }
        if let Some(answer) = asked_for(self.asker.as_ref(), request).await {
            return answer;
        }
        request.class == "Read"
            || self.force
            || self.permissions.allows(request.class, &request.object)
    }
}

/// `None` when there is no client to ask.
async fn asked_for(asker: Option<&PermissionAsker>, request: &PermissionRequest) -> Option<bool> {
    match asker {
        Some(asker) => Some(asker.ask(request).await),
        None => None,
    }
}

fn permission_request(exec: &Exec) -> Option<PermissionRequest> {
    let of = |call_id: &str, class, object: &str, kind, raw_input| {
        let (call_id, object) = (call_id.to_owned(), object.to_owned());
        Some(PermissionRequest { call_id, class, object, kind, raw_input })
    };
    match exec {
        Exec::ShellArgs(args) | Exec::ShellStreamArgs(args) => {
            let raw = json!({ "command": args.command });
            of(&args.tool_call_id, "Shell", &args.command, "execute", raw)
        }
        Exec::ReadArgs(args) => {
            of(&args.tool_call_id, "Read", &args.path, "read", json!({ "path": args.path }))
        }
        Exec::LsArgs(args) => {
            of(&args.tool_call_id, "Read", &args.path, "read", json!({ "path": args.path }))
        }
        Exec::GrepArgs(args) => {
            let path = args.path.as_deref().unwrap_or(".");
            let raw = json!({ "pattern": args.pattern, "glob": args.glob });
            of(&args.tool_call_id, "Read", path, "search", raw)
        }
        Exec::WriteArgs(args) => {
            of(&args.tool_call_id, "Write", &args.path, "edit", json!({ "path": args.path }))
        }
        Exec::FetchArgs(args) => {
            of(&args.tool_call_id, "WebFetch", &args.url, "fetch", json!({ "url": args.url }))
        }
        _ => None,
    }
}

/// The canned result of a tool.
fn pretend(exec: Exec) -> Vec<Reply> {
    let reply = match exec {
        Exec::ShellStreamArgs(args) => {
            let data = format!("pretended to run: {}\n", args.command);
            let output = shell_stream::Event::Stdout(ShellStreamStdout { data });
            let exit =
                ShellStreamExit { cwd: args.working_directory, ..ShellStreamExit::default() };
            return vec![shell_event(output), shell_event(shell_stream::Event::Exit(exit))];
        }
        Exec::ShellArgs(args) => {
            let (command, stdout) = (args.command.clone(), args.command);
            let stdout = format!("pretended to run: {stdout}\n");
            let success = ShellSuccess { command, stdout, ..ShellSuccess::default() };
            let result = Some(shell_result::Result::Success(success));
            Reply::ShellResult(ShellResult { result, ..ShellResult::default() })
        }
        Exec::ReadArgs(args) => {
            let path = args.path;
            let text = format!("pretended contents of {path}\n");
            let output = Some(read_success::Output::Content(text));
            let success = ReadSuccess { path, total_lines: 1, output, ..ReadSuccess::default() };
            Reply::ReadResult(ReadResult { result: Some(read_result::Result::Success(success)) })
        }
        Exec::WriteArgs(args) => {
            let file_size = i32::try_from(args.file_text.len()).unwrap_or(i32::MAX);
            let success = WriteSuccess { path: args.path, file_size, ..WriteSuccess::default() };
            Reply::WriteResult(WriteResult { result: Some(write_result::Result::Success(success)) })
        }
        Exec::LsArgs(args) => {
            let root =
                LsDirectoryTreeNode { abs_path: args.path, ..LsDirectoryTreeNode::default() };
            let success = LsSuccess { directory_tree_root: Some(root) };
            Reply::LsResult(LsResult { result: Some(ls_result::Result::Success(success)) })
        }
        Exec::GrepArgs(args) => {
            let success = GrepSuccess { pattern: args.pattern, ..GrepSuccess::default() };
            Reply::GrepResult(GrepResult { result: Some(grep_result::Result::Success(success)) })
        }
        Exec::FetchArgs(args) => {
            let content = format!("pretended page of {}\n", args.url);
            let success = FetchSuccess {
                url: args.url,
                content,
                status_code: 200,
                ..FetchSuccess::default()
            };
            Reply::FetchResult(FetchResult { result: Some(fetch_result::Result::Success(success)) })
        }
        _ => return Vec::new(),
    };
    vec![reply]
}

/// The tool's own refusal.
fn refuse(exec: Exec) -> Vec<Reply> {
    let reason = REFUSED.to_owned();
    let reply = match exec {
        Exec::ShellStreamArgs(args) => {
            let command = args.command;
            let refused = ShellRejected { command, reason, ..ShellRejected::default() };
            shell_event(shell_stream::Event::Rejected(refused))
        }
        Exec::ShellArgs(args) => {
            let command = args.command;
            let refused = ShellRejected { command, reason, ..ShellRejected::default() };
            let result = Some(shell_result::Result::Rejected(refused));
            Reply::ShellResult(ShellResult { result, ..ShellResult::default() })
        }
        Exec::ReadArgs(args) => {
            let refused = ReadRejected { path: args.path, reason };
            Reply::ReadResult(ReadResult { result: Some(read_result::Result::Rejected(refused)) })
        }
        Exec::WriteArgs(args) => {
            let refused = WriteRejected { path: args.path, reason };
            let result = Some(write_result::Result::Rejected(refused));
            Reply::WriteResult(WriteResult { result })
        }
        Exec::LsArgs(args) => {
            let refused = LsRejected { path: args.path, reason };
            Reply::LsResult(LsResult { result: Some(ls_result::Result::Rejected(refused)) })
        }
        Exec::GrepArgs(_) => {
            let error = GrepError { error: reason };
            Reply::GrepResult(GrepResult { result: Some(grep_result::Result::Error(error)) })
        }
        Exec::FetchArgs(args) => {
            let error = FetchError { url: args.url, error: reason };
            Reply::FetchResult(FetchResult { result: Some(fetch_result::Result::Error(error)) })
        }
        _ => return Vec::new(),
    };
    vec![reply]
}

fn shell_event(event: shell_stream::Event) -> Reply {
    Reply::ShellStream(ShellStream { event: Some(event) })
}

/// Converts an MCP result into the service's format.
pub(super) fn success(result: &Value) -> McpSuccess {
    use base64::Engine as _;
    use ibeam_proto::agent::{
        McpImageContent, McpTextContent, McpToolResultContentItem,
        mcp_tool_result_content_item::Content,
    };
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let item = |part: &Value| {
        let text = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        let content = if text("type") == "image" {
            let data = base64::engine::general_purpose::STANDARD.decode(text("data"));
            Content::Image(McpImageContent {
                data: Bytes::from(data.unwrap_or_default()),
                mime_type: text("mimeType").to_owned(),
            })
        } else if text("type") == "text" {
            let text = text("text").to_owned();
            Content::Text(McpTextContent { text, ..McpTextContent::default() })
        } else {
            let text = part.to_string();
            Content::Text(McpTextContent { text, ..McpTextContent::default() })
        };
        McpToolResultContentItem { content: Some(content) }
    };
    McpSuccess {
        content: content.map(item).collect(),
        is_error: result.get("isError") == Some(&Value::Bool(true)),
    }
}
