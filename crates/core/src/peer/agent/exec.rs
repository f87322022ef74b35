//! Answers to exec requests. The gateway executes nothing: a client's tool takes
//! the request, or it is refused with that tool's own refusal, so that the model
//! moves on.

use ibeam_proto::agent::{
    Empty, ExecClientMessage, ExecServerMessage, ExecuteHookArgs, ExecuteHookResponse,
    ExecuteHookResult, HookContext, HookFollowup, HookPermission, HookPreToolUse, HookSubmit,
    HookUserMessage, McpAllowlistPrecheckResult, McpApproved, McpArgs, McpRejected, McpResult,
    McpStateExecArgs, McpStateExecResult, McpStateServer, McpStateSuccess, McpSuccess,
    McpTextContent, McpToolNotFound, McpToolResultContentItem, RequestContext,
    RequestContextResult, RequestContextSuccess, ShellAllowlistPrecheckResult,
    WebFetchAllowlistPrecheckResult, exec_client_message::Message as Reply,
    exec_server_message::Message as Ask, execute_hook_request::Request as Hook,
    execute_hook_response::Response as HookAnswer, mcp_result, mcp_state_exec_result,
    mcp_tool_result_content_item, request_context_result,
};

pub(super) use super::native::{Back, ClientCall, Equipment};
use super::{
    meta::{self, MetaCall},
    native, refusals,
    request::Permissions,
    tools::{PROVIDER, Toolbox, arguments_json},
};

/// What to do about an exec request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Send this result, then close the exec.
    Reply(Box<Reply>),
    /// The same, and the model did not get what it wanted.
    Refuse(Box<Reply>),
    /// A tool of the client is called.
    ClientTool(Box<ClientCall>),
    /// Not in our schema, or without a refusal of its own: thrown back.
    Throw(&'static str),
}

/// Decides about an exec request: the client's tool by its own name, its equivalent
/// of a built-in tool, else an answer that says no.
pub(super) fn judge(
    exec: &ExecServerMessage,
    toolbox: &Toolbox,
    equipment: &Equipment,
    context: &RequestContext,
    allow: Permissions,
) -> Verdict {
    let Some(ask) = &exec.message else {
        return Verdict::Throw("this client does not know that request");
    };
    if let Ask::McpArgs(call) = ask {
        return judge_mcp(call, toolbox);
    }
    if let Some(call) = native::translate(ask, equipment) {
        return Verdict::ClientTool(Box::new(call));
    }
    if let Some(answer) = answer(ask, toolbox, context, allow) {
        return Verdict::Reply(Box::new(answer));
    }
    match refusals::refuse(ask, &refusal(toolbox)) {
        Some(reply) => Verdict::Refuse(Box::new(reply)),
        None => Verdict::Throw("this client cannot do that"),
    }
}

/// A call of a client's tool, which may come as a call of a meta tool.
fn judge_mcp(call: &McpArgs, toolbox: &Toolbox) -> Verdict {
    let known = toolbox.client_name(call);
    let meta = match known {
        Some(_) => None,
        None => toolbox.bare_names(call).find_map(|name| meta::read(name, &call.args)),
    };
    if call.smart_mode_approval_only {
        // It only asks whether the call would be allowed.
        return Verdict::Reply(Box::new(approval(known.is_some() || meta.is_some())));
    }
    let (name, arguments) = match (known, meta) {
        (Some(name), _) => (Some(name), arguments_json(&call.args)),
        (None, Some(MetaCall::List(query))) => {
            let listed = meta::catalogue(toolbox, &query);
            return Verdict::Reply(Box::new(mcp_text(listed)));
        }
        (None, Some(MetaCall::Call { tool, arguments })) => match toolbox.resolve(&tool) {
            Some(name) => (Some(name), arguments),
            None => return Verdict::Refuse(Box::new(tool_not_found(&tool, toolbox))),
        },
        (None, None) => (None, String::new()),
    };
    match name {
        Some(name) => Verdict::ClientTool(Box::new(ClientCall {
            name: name.to_owned(),
            arguments,
            back: Back::mcp(),
        })),
        None => Verdict::Refuse(Box::new(tool_not_found(&call.name, toolbox))),
    }
}

/// What the backend asks of this client itself. `None`: it wants something done.
fn answer(
    ask: &Ask,
    toolbox: &Toolbox,
    context: &RequestContext,
    allow: Permissions,
) -> Option<Reply> {
    Some(match ask {
        Ask::RequestContextArgs(_) => Reply::RequestContextResult(RequestContextResult {
            result: Some(request_context_result::Result::Success(RequestContextSuccess {
                request_context: Some(context.clone()),
                served_from_disk_cache: None,
            })),
        }),
        Ask::McpStateExecArgs(args) => Reply::McpStateExecResult(mcp_state(args, toolbox)),
        // The prechecks only ask whether a prompt is needed first. The exec itself
        // still comes to us, and is refused or handed to the client.
        Ask::ShellAllowlistPrecheckArgs(_) => {
            Reply::ShellAllowlistPrecheckResult(ShellAllowlistPrecheckResult { allowlisted: true })
        }
        Ask::McpAllowlistPrecheckArgs(_) => {
            Reply::McpAllowlistPrecheckResult(McpAllowlistPrecheckResult { allowlisted: true })
        }
        // This one runs on the server, so it is the user's decision.
        Ask::WebFetchAllowlistPrecheckArgs(_) => {
            Reply::WebFetchAllowlistPrecheckResult(WebFetchAllowlistPrecheckResult {
                allowlisted: allow.web_fetch,
            })
        }
        Ask::ExecuteHookArgs(args) => Reply::ExecuteHookResult(hook_result(args)?),
        _ => return None,
    })
}

/// The server of the client's tools, where it is asked for or every server is.
fn mcp_state(args: &McpStateExecArgs, toolbox: &Toolbox) -> McpStateExecResult {
    let asked = &args.server_identifiers;
    let is_asked = asked.is_empty() || asked.iter().any(|server| server == PROVIDER);
    let servers = (is_asked && !toolbox.is_empty()).then(|| McpStateServer {
        server_name: PROVIDER.to_owned(),
        server_identifier: PROVIDER.to_owned(),
        tools: toolbox.definitions().to_vec(),
        instructions: toolbox.instructions().into_iter().collect(),
        status: toolbox.status().text().map(ToOwned::to_owned),
        ..McpStateServer::default()
    });
    McpStateExecResult {
        result: Some(mcp_state_exec_result::Result::Success(McpStateSuccess {
            servers: servers.into_iter().collect(),
        })),
    }
}

fn approval(is_known: bool) -> Reply {
    let result = if is_known {
        mcp_result::Result::Approved(McpApproved {})
    } else {
        let reason = "There is no such tool.".to_owned();
        mcp_result::Result::Rejected(McpRejected { reason, is_readonly: false })
    };
    Reply::McpResult(McpResult { result: Some(result) })
}

/// A text for the model, or what is wrong.
fn mcp_text(text: Result<String, String>) -> Reply {
    let is_error = text.is_err();
    let text = text.unwrap_or_else(|why| why);
    let text = McpTextContent { text, output_location: None };
    let item = mcp_tool_result_content_item::Content::Text(text);
    let content = vec![McpToolResultContentItem { content: Some(item) }];
    let success = mcp_result::Result::Success(McpSuccess { content, is_error });
    Reply::McpResult(McpResult { result: Some(success) })
}

fn tool_not_found(name: &str, toolbox: &Toolbox) -> Reply {
    Reply::McpResult(McpResult {
        result: Some(mcp_result::Result::ToolNotFound(McpToolNotFound {
            name: name.to_owned(),
            available_tools: toolbox.names().map(ToOwned::to_owned).collect(),
        })),
    })
}

/// The model's id for the call that an exec carries out. `None`: it is about something else than
/// a call of the model.
pub(super) fn call_id(ask: &Ask) -> Option<&str> {
    Some(match ask {
        Ask::McpArgs(args) if args.smart_mode_approval_only => return None,
        Ask::McpArgs(args) => &args.tool_call_id,
        Ask::ShellArgs(args) | Ask::ShellStreamArgs(args) | Ask::MiniSweAgentBashArgs(args) => {
            &args.tool_call_id
        }
        Ask::BackgroundShellSpawnArgs(args) => &args.tool_call_id,
        Ask::ReadArgs(args) | Ask::RedactedReadArgs(args) => &args.tool_call_id,
        Ask::WriteArgs(args) => &args.tool_call_id,
        Ask::DeleteArgs(args) => &args.tool_call_id,
        Ask::GrepArgs(args) => &args.tool_call_id,
        Ask::LsArgs(args) => &args.tool_call_id,
        Ask::DiagnosticsArgs(args) => &args.tool_call_id,
        Ask::FetchArgs(args) => &args.tool_call_id,
        Ask::ReadMcpResourceExecArgs(args) => &args.tool_call_id,
        Ask::RecordScreenArgs(args) => &args.tool_call_id,
        Ask::ComputerUseArgs(args) => &args.tool_call_id,
        Ask::SubagentArgs(args) => &args.tool_call_id,
        Ask::ConversationSearchArgs(args) => &args.tool_call_id,
        Ask::PiReadArgs(_)
        | Ask::PiBashArgs(_)
        | Ask::PiEditArgs(_)
        | Ask::PiWriteArgs(_)
        | Ask::PiGrepArgs(_)
        | Ask::PiFindArgs(_)
        | Ask::PiLsArgs(_)
        | Ask::ListMcpResourcesExecArgs(_)
        | Ask::WriteShellStdinArgs(_) => "",
        Ask::RequestContextArgs(_)
        | Ask::McpStateExecArgs(_)
        | Ask::ShellAllowlistPrecheckArgs(_)
        | Ask::McpAllowlistPrecheckArgs(_)
        | Ask::WebFetchAllowlistPrecheckArgs(_)
        | Ask::ExecuteHookArgs(_)
        | Ask::SmartModeClassifierArgs(_)
        | Ask::CanvasDiagnosticsArgs(_)
        | Ask::ForceBackgroundShellArgs(_)
        | Ask::ForceBackgroundSubagentArgs(_)
        | Ask::SubagentAwaitArgs(_)
        | Ask::AgentStoreConflictArgs(_)
        | Ask::GitDiffRequest(_) => return None,
    })
}

/// The result message for an exec request, with both of its ids echoed.
pub(super) fn result(id: u32, exec_id: &str, reply: Reply) -> ExecClientMessage {
    ExecClientMessage {
        id,
        exec_id: exec_id.to_owned(),
        message: Some(reply),
        ..ExecClientMessage::default()
    }
}

/// Why a built-in tool does not run, and what to use instead: models then turn to
/// the client's tools.
fn refusal(toolbox: &Toolbox) -> String {
    if toolbox.is_empty() {
        return "This tool is not available here: no tools can be used in this conversation. \
                Answer in text."
            .to_owned();
    }
    let names: Vec<&str> = toolbox.names().collect();
    format!(
        "This tool is not available here. Use the MCP tools of the server `{PROVIDER}` instead: \
         {}.",
        names.join(", ")
    )
}

/// `None`: a hook that this client does not know.
fn hook_result(args: &ExecuteHookArgs) -> Option<ExecuteHookResult> {
    let hook = args.request.as_ref()?.request.as_ref()?;
    let response = Some(hook_answer(hook));
    Some(ExecuteHookResult { response: Some(ExecuteHookResponse { response }) })
}

/// The same arm, empty: no hook of ours has an opinion.
fn hook_answer(hook: &Hook) -> HookAnswer {
    match hook {
        Hook::PreCompact(_) => HookAnswer::PreCompact(HookUserMessage::default()),
        Hook::SubagentStart(_) => HookAnswer::SubagentStart(HookPermission::default()),
        Hook::SubagentStop(_) => HookAnswer::SubagentStop(HookFollowup::default()),
        Hook::PreToolUse(_) => HookAnswer::PreToolUse(HookPreToolUse::default()),
        Hook::PostToolUse(_) => HookAnswer::PostToolUse(HookContext::default()),
        Hook::PostToolUseFailure(_) => HookAnswer::PostToolUseFailure(HookContext::default()),
        Hook::BeforeSubmitPrompt(_) => {
            HookAnswer::BeforeSubmitPrompt(HookSubmit { r#continue: true, ..HookSubmit::default() })
        }
        Hook::AfterAgentResponse(_) => HookAnswer::AfterAgentResponse(Empty {}),
        Hook::AfterAgentThought(_) => HookAnswer::AfterAgentThought(Empty {}),
        Hook::Stop(_) => HookAnswer::Stop(HookFollowup::default()),
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
