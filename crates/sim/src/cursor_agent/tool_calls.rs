//! Tool calls as the CLI prints them: one payload per tool with keys in camel case (§9.4), and
//! ACP's kind and title for it (§9.6).

use ibeam_proto::agent::{
    EditToolCall, FetchToolCall, GlobToolCall, GrepToolCall, LsDirectoryTreeNode, LsToolCall,
    McpSuccess, McpToolCall, ReadToolCall, ShellToolCall, ToolCall, edit_result, fetch_result,
    glob_tool_result, grep_result, ls_result, mcp_tool_result, mcp_tool_result_content_item,
    read_tool_result, read_tool_success, shell_result, tool_call::Tool,
};
use serde_json::{Map, Value, json};

use crate::protobuf::value_from_proto;

/// A call, and its result once it has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolActivity {
    pub(super) call_id: String,
    pub(super) model_call_id: String,
    /// The key of the payload.
    pub(super) tool: &'static str,
    pub(super) args: Value,
    /// `{"success": …}`, `{"error": …}`, `{"failure": …}` or `{"rejected": …}`.
    pub(super) result: Option<Value>,
}

impl ToolActivity {
    /// `None` for kinds of calls that this stand-in never makes.
    pub(super) fn new(
        call_id: String,
        call: Option<ToolCall>,
        model_call_id: String,
    ) -> Option<Self> {
        let (tool, args, result) = match call?.tool? {
            Tool::McpToolCall(call) => mcp(call),
            Tool::ShellToolCall(call) => shell(call),
            Tool::ReadToolCall(call) => read(call),
            Tool::EditToolCall(call) => edit(call),
            Tool::LsToolCall(call) => ls(call),
            Tool::GlobToolCall(call) => glob(call),
            Tool::GrepToolCall(call) => grep(call),
            Tool::WebFetchToolCall(call) | Tool::FetchToolCall(call) => fetch(call),
            _ => return None,
        };
        Some(Self { call_id, model_call_id, tool, args, result })
    }

    /// `{"<tool>": {"args": …, "result": …}}`. In older builds the key began with a capital
    /// letter, and the shell had another name.
    pub(super) fn payload(&self, old_names: bool) -> Value {
        let key = match self.tool {
            "shellToolCall" if old_names => "BashToolCall".to_owned(),
            tool if old_names => {
                let (first, rest) = tool.split_at_checked(1).unwrap_or_default();
                format!("{}{rest}", first.to_uppercase())
            }
            tool => tool.to_owned(),
        };
        let mut inner = Map::new();
        inner.insert("args".to_owned(), self.args.clone());
        if let Some(result) = &self.result {
            inner.insert("result".to_owned(), result.clone());
        }
        let mut payload = Map::new();
        payload.insert(key, Value::Object(inner));
        Value::Object(payload)
    }

    pub(super) fn is_mcp(&self) -> bool {
        self.tool == "mcpToolCall"
    }

    /// Whether it succeeded.
    pub(super) fn good(&self) -> bool {
        let success = self.result.as_ref().and_then(|result| result.get("success"));
        success.is_some_and(|success| success.get("isError") != Some(&Value::Bool(true)))
    }

    /// The name of the tool in the history.
    pub(super) fn name(&self) -> &str {
        let name = self.args.get("toolName").and_then(Value::as_str);
        name.unwrap_or(self.tool.trim_end_matches("ToolCall"))
    }

    /// The arguments of the tool itself.
    pub(super) fn input(&self) -> &Value {
        if self.is_mcp() { self.args.get("args").unwrap_or(&Value::Null) } else { &self.args }
    }

    /// The result as text.
    pub(super) fn output(&self) -> String {
        let Some(result) = &self.result else { return String::new() };
        let inner = result.as_object().and_then(|table| table.values().next());
        let text = |name: &str| inner.and_then(|inner| inner.get(name)?.as_str());
        if let Some(content) = inner.and_then(|inner| inner.get("content")?.as_array()) {
            let texts = content.iter().filter_map(|item| item.get("text")?.get("text")?.as_str());
            return texts.collect::<Vec<_>>().join("\n");
        }
        ["stdout", "content", "message", "error", "errorMessage", "reason"]
            .into_iter()
            .find_map(text)
            .map_or_else(|| result.to_string(), str::to_owned)
    }

    // === ACP ===

    pub(super) fn kind(&self) -> &'static str {
        match self.tool {
            "shellToolCall" => "execute",
            "readToolCall" | "lsToolCall" => "read",
            "editToolCall" => "edit",
            "globToolCall" | "grepToolCall" => "search",
            "webFetchToolCall" => "fetch",
            _ => "other",
        }
    }

    pub(super) fn title(&self) -> String {
        let text = |name: &str| self.args.get(name).and_then(Value::as_str).unwrap_or_default();
        match self.tool {
            "shellToolCall" => format!("`{}`", text("command")),
            "readToolCall" => format!("Read {}", text("path")),
            "lsToolCall" => format!("List {}", text("path")),
            "editToolCall" => format!("Edit {}", text("path")),
            "globToolCall" => format!("Find {}", text("globPattern")),
            "grepToolCall" => format!("Search {}", text("pattern")),
            "webFetchToolCall" => format!("Fetch {}", text("url")),
            _ => format!("{}: {}", text("providerIdentifier"), text("toolName")),
        }
    }

    pub(super) fn raw_input(&self) -> Value {
        if !self.is_mcp() {
            return self.args.clone();
        }
        let get = |name: &str| self.args.get(name).cloned().unwrap_or_default();
        json!({
            "providerIdentifier": get("providerIdentifier"),
            "toolName": get("toolName"),
            "args": get("args"),
        })
    }

    /// Shell output has its own format; everything else is the result unchanged.
    pub(super) fn raw_output(&self) -> Value {
        let result = self.result.clone().unwrap_or_default();
        let inner = ["success", "failure"].into_iter().find_map(|name| result.get(name));
        match (self.tool, inner) {
            ("shellToolCall", Some(inner)) => json!({
                "exitCode": inner.get("exitCode"),
                "stdout": inner.get("stdout"),
                "stderr": inner.get("stderr"),
            }),
            _ => result,
        }
    }
}

type ToolCallParts = (&'static str, Value, Option<Value>);

fn mcp(call: McpToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let inner: Map<String, Value> = args
        .args
        .iter()
        .map(|(name, value)| (name.clone(), value_from_proto(value).unwrap_or_default()))
        .collect();
    let args_json = json!({
        "name": args.name,
        "args": inner,
        "toolCallId": args.tool_call_id,
        "providerIdentifier": args.provider_identifier,
        "toolName": args.tool_name,
    });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        mcp_tool_result::Result::Success(success) => {
            json!({ "success": { "content": content(&success), "isError": success.is_error } })
        }
        mcp_tool_result::Result::Error(error) => json!({ "error": { "error": error.error } }),
        mcp_tool_result::Result::Rejected(refused) => {
            json!({ "rejected": { "reason": refused.reason, "isReadonly": refused.is_readonly } })
        }
        mcp_tool_result::Result::PermissionDenied(denied) => {
            json!({ "rejected": { "reason": denied.error } })
        }
    });
    ("mcpToolCall", args_json, result)
}

fn content(success: &McpSuccess) -> Vec<Value> {
    use base64::Engine as _;
    use mcp_tool_result_content_item::Content;
    success
        .content
        .iter()
        .filter_map(|item| match item.content.as_ref()? {
            Content::Text(text) => Some(json!({ "text": { "text": text.text } })),
            Content::Image(image) => {
                let data = base64::engine::general_purpose::STANDARD.encode(&image.data);
                Some(json!({ "image": { "data": data, "mimeType": image.mime_type } }))
            }
        })
        .collect()
}

fn shell(call: ShellToolCall) -> ToolCallParts {
    use shell_result::Result as Arm;
    let args = call.args.unwrap_or_default();
    let args_json = json!({
        "command": args.command,
        "workingDirectory": args.working_directory,
        "timeout": args.timeout,
        "toolCallId": args.tool_call_id,
        "simpleCommands": args.simple_commands,
    });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        Arm::Success(done) => json!({ "success": {
            "command": done.command, "exitCode": done.exit_code, "stdout": done.stdout,
            "stderr": done.stderr, "executionTime": done.execution_time,
        } }),
        Arm::Failure(done) => json!({ "failure": {
            "command": done.command, "exitCode": done.exit_code, "stdout": done.stdout,
            "stderr": done.stderr, "executionTime": done.execution_time,
        } }),
        Arm::Rejected(refused) => {
            json!({ "rejected": { "command": refused.command, "reason": refused.reason } })
        }
        other => json!({ "error": { "error": format!("{other:?}") } }),
    });
    ("shellToolCall", args_json, result)
}

fn read(call: ReadToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        read_tool_result::Result::Success(done) => {
            let content = match done.output {
                Some(read_tool_success::Output::Content(text)) => text,
                _ => String::new(),
            };
            json!({ "success": {
                "content": content, "isEmpty": done.is_empty,
                "exceededLimit": done.exceeded_limit, "totalLines": done.total_lines,
                "fileSize": done.file_size, "path": done.path,
            } })
        }
        read_tool_result::Result::Error(error) => {
            json!({ "error": { "errorMessage": error.error_message } })
        }
    });
    ("readToolCall", json!({ "path": args.path }), result)
}

fn edit(call: EditToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let args_json = json!({ "path": args.path, "streamContent": args.stream_content });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        edit_result::Result::Success(done) => json!({ "success": {
            "path": done.path, "linesAdded": done.lines_added,
            "linesRemoved": done.lines_removed, "message": done.message,
            "afterFullFileContent": done.after_full_file_content,
        } }),
        edit_result::Result::Error(error) => {
            json!({ "error": { "path": error.path, "error": error.error } })
        }
        other => json!({ "error": { "error": format!("{other:?}") } }),
    });
    ("editToolCall", args_json, result)
}

fn ls(call: LsToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let args_json = json!({ "path": args.path, "ignore": args.ignore });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        ls_result::Result::Success(done) => {
            let root = done.directory_tree_root.as_ref().map(tree);
            json!({ "success": { "directoryTreeRoot": root } })
        }
        ls_result::Result::Rejected(refused) => {
            json!({ "rejected": { "path": refused.path, "reason": refused.reason } })
        }
        other => json!({ "error": { "error": format!("{other:?}") } }),
    });
    ("lsToolCall", args_json, result)
}

/// One level: this stand-in lists only that.
fn tree(node: &LsDirectoryTreeNode) -> Value {
    let files: Vec<_> =
        node.children_files.iter().map(|file| json!({ "name": file.name })).collect();
    json!({ "absPath": node.abs_path, "childrenDirs": [], "childrenFiles": files })
}

fn glob(call: GlobToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let args_json =
        json!({ "globPattern": args.glob_pattern, "targetDirectory": args.target_directory });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        glob_tool_result::Result::Success(done) => {
            json!({ "success": { "files": done.files, "totalFiles": done.total_files } })
        }
        glob_tool_result::Result::Error(error) => json!({ "error": { "error": error.error } }),
    });
    ("globToolCall", args_json, result)
}

fn grep(call: GrepToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let args_json = json!({ "pattern": args.pattern, "path": args.path, "glob": args.glob });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        grep_result::Result::Success(done) => {
            json!({ "success": { "pattern": done.pattern, "workspaceResults": {} } })
        }
        grep_result::Result::Error(error) => json!({ "error": { "error": error.error } }),
    });
    ("grepToolCall", args_json, result)
}

fn fetch(call: FetchToolCall) -> ToolCallParts {
    let args = call.args.unwrap_or_default();
    let args_json = json!({ "url": args.url, "toolCallId": args.tool_call_id });
    let result = call.result.and_then(|result| result.result).map(|result| match result {
        fetch_result::Result::Success(done) => {
            json!({ "success": { "url": done.url, "content": done.content } })
        }
        fetch_result::Result::Error(error) => {
            json!({ "error": { "url": error.url, "error": error.error } })
        }
    });
    ("webFetchToolCall", args_json, result)
}
