//! Answers to exec requests. The gateway executes nothing: a client's tool takes
//! the request, or it is refused with that tool's own refusal, so that the model
//! moves on.

use ibeam_proto::agent::{
    AgentStoreConflictResult, BackgroundShellSpawnResult, CanvasDiagnosticsResult,
    ComputerUseResult, ConversationSearchResult, DeleteRejected, DeleteResult, DiagnosticsResult,
    Empty, ErrorText, ExecClientMessage, ExecServerMessage, ExecuteHookResponse, ExecuteHookResult,
    FetchError, FetchResult, ForceBackgroundShellResult, ForceBackgroundSubagentResult, GrepError,
    GrepResult, HookContext, HookFollowup, HookPermission, HookPreToolUse, HookSubmit,
    HookUserMessage, ListMcpResourcesExecResult, LsRejected, LsResult, McpAllowlistPrecheckResult,
    McpResult, McpStateExecResult, McpStateServer, McpStateSuccess, McpToolNotFound, PathError,
    PiBashError, PiBashExecResult, PiEditExecResult, PiFindExecResult, PiGrepExecResult,
    PiLsExecResult, PiReadExecResult, PiWriteExecResult, ReadMcpResourceExecResult, ReadRejected,
    ReadResult, ReasonText, RecordScreenResult, RequestContext, RequestContextResult,
    RequestContextSuccess, ShellAllowlistPrecheckResult, ShellRejected, ShellResult, ShellStream,
    SmartModeClassifierResult, SubagentAwaitResult, SubagentError, SubagentRef, SubagentResult,
    WebFetchAllowlistPrecheckResult, WriteRejected, WriteResult, WriteShellStdinError,
    WriteShellStdinResult, agent_store_conflict_result, background_shell_spawn_result,
    canvas_diagnostics_result, conversation_search_result, delete_result,
    exec_client_message::Message as Reply, exec_server_message::Message as Ask,
    execute_hook_request::Request as Hook, execute_hook_response::Response as HookAnswer,
    fetch_result, grep_result, ls_result, mcp_result, mcp_state_exec_result, pi_bash_exec_result,
    pi_edit_exec_result, pi_find_exec_result, pi_grep_exec_result, pi_ls_exec_result,
    pi_read_exec_result, pi_write_exec_result, read_result, request_context_result, shell_result,
    shell_stream, smart_mode_classifier_result, subagent_await_result, subagent_result,
    write_result, write_shell_stdin_result,
};

pub(super) use super::native::{Back, ClientCall, Equipment};
use super::{
    native,
    request::Permissions,
    tools::{PROVIDER, Toolbox, arguments_json},
};

/// What to do about an exec request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Send this result, then close the exec.
    Reply(Box<Reply>),
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
    if let Ask::McpArgs(call) = ask
        && let Some(name) = toolbox.client_name(call)
    {
        return Verdict::ClientTool(Box::new(ClientCall {
            name: name.to_owned(),
            arguments: arguments_json(&call.args),
            back: Back::mcp(),
        }));
    }
    match native::translate(ask, equipment) {
        Some(call) => Verdict::ClientTool(Box::new(call)),
        None => answer(ask, toolbox, context, allow),
    }
}

/// What is answered here. Every arm of the schema is named, so that a new one does
/// not pass unseen.
fn answer(ask: &Ask, toolbox: &Toolbox, context: &RequestContext, allow: Permissions) -> Verdict {
    let reason = || refusal(toolbox);
    let error = || ErrorText { error: refusal(toolbox) };
    let reply = match ask {
        Ask::RequestContextArgs(_) => Reply::RequestContextResult(RequestContextResult {
            result: Some(request_context_result::Result::Success(RequestContextSuccess {
                request_context: Some(context.clone()),
                served_from_disk_cache: None,
            })),
        }),
        Ask::McpArgs(call) => Reply::McpResult(McpResult {
            result: Some(mcp_result::Result::ToolNotFound(McpToolNotFound {
                name: call.name.clone(),
                available_tools: toolbox.names().map(ToOwned::to_owned).collect(),
            })),
        }),
        Ask::ShellArgs(args) => Reply::ShellResult(ShellResult {
            result: Some(shell_result::Result::Rejected(shell_rejected(args, reason()))),
            ..ShellResult::default()
        }),
        Ask::MiniSweAgentBashArgs(args) => Reply::MiniSweAgentBashResult(ShellResult {
            result: Some(shell_result::Result::Rejected(shell_rejected(args, reason()))),
            ..ShellResult::default()
        }),
        Ask::ShellStreamArgs(args) => Reply::ShellStream(ShellStream {
            event: Some(shell_stream::Event::Rejected(shell_rejected(args, reason()))),
        }),
        Ask::BackgroundShellSpawnArgs(args) => {
            Reply::BackgroundShellSpawnResult(BackgroundShellSpawnResult {
                result: Some(background_shell_spawn_result::Result::Rejected(ShellRejected {
                    command: args.command.clone(),
                    working_directory: args.working_directory.clone(),
                    reason: reason(),
                    is_readonly: false,
                })),
            })
        }
        Ask::WriteArgs(args) => Reply::WriteResult(WriteResult {
            result: Some(write_result::Result::Rejected(WriteRejected {
                path: args.path.clone(),
                reason: reason(),
            })),
        }),
        Ask::DeleteArgs(args) => Reply::DeleteResult(DeleteResult {
            result: Some(delete_result::Result::Rejected(DeleteRejected {
                path: args.path.clone(),
                reason: reason(),
            })),
        }),
        Ask::ReadArgs(args) => Reply::ReadResult(read_rejected(&args.path, reason())),
        Ask::RedactedReadArgs(args) => {
            Reply::RedactedReadResult(read_rejected(&args.path, reason()))
        }
        Ask::LsArgs(args) => Reply::LsResult(LsResult {
            result: Some(ls_result::Result::Rejected(LsRejected {
                path: args.path.clone(),
                reason: reason(),
            })),
        }),
        // These have no `rejected` arm: an error is their refusal.
        Ask::GrepArgs(_) => Reply::GrepResult(GrepResult {
            result: Some(grep_result::Result::Error(GrepError { error: reason() })),
        }),
        Ask::FetchArgs(args) => Reply::FetchResult(FetchResult {
            result: Some(fetch_result::Result::Error(FetchError {
                url: args.url.clone(),
                error: reason(),
            })),
        }),
        Ask::WriteShellStdinArgs(_) => Reply::WriteShellStdinResult(WriteShellStdinResult {
            result: Some(write_shell_stdin_result::Result::Error(WriteShellStdinError {
                error: reason(),
            })),
        }),
        // An empty result is the documented refusal of these five.
        Ask::DiagnosticsArgs(_) => Reply::DiagnosticsResult(DiagnosticsResult::default()),
        Ask::ListMcpResourcesExecArgs(_) => {
            Reply::ListMcpResourcesExecResult(ListMcpResourcesExecResult::default())
        }
        Ask::ReadMcpResourceExecArgs(_) => {
            Reply::ReadMcpResourceExecResult(ReadMcpResourceExecResult::default())
        }
        Ask::RecordScreenArgs(_) => Reply::RecordScreenResult(RecordScreenResult::default()),
        Ask::ComputerUseArgs(_) => Reply::ComputerUseResult(ComputerUseResult::default()),
        Ask::ExecuteHookArgs(args) => {
            let hook = args.request.as_ref().and_then(|request| request.request.as_ref());
            let Some(hook) = hook else {
                return Verdict::Throw("this client does not know that hook");
            };
            Reply::ExecuteHookResult(ExecuteHookResult {
                response: Some(ExecuteHookResponse { response: Some(hook_answer(hook)) }),
            })
        }
        Ask::SubagentArgs(_) => Reply::SubagentResult(SubagentResult {
            result: Some(subagent_result::Result::Error(SubagentError {
                agent_id: String::new(),
                error: reason(),
            })),
        }),
        Ask::SubagentAwaitArgs(args) => Reply::SubagentAwaitResult(SubagentAwaitResult {
            result: Some(subagent_await_result::Result::NotFound(SubagentRef {
                agent_id: args.agent_id.clone(),
                transcript_path: String::new(),
            })),
        }),
        Ask::ForceBackgroundShellArgs(_) => {
            Reply::ForceBackgroundShellResult(ForceBackgroundShellResult {
                status: NOT_FOUND,
                shell_result: None,
            })
        }
        Ask::ForceBackgroundSubagentArgs(_) => {
            Reply::ForceBackgroundSubagentResult(ForceBackgroundSubagentResult {
                status: NOT_FOUND,
            })
        }
        Ask::McpStateExecArgs(_) => Reply::McpStateExecResult(McpStateExecResult {
            result: Some(mcp_state_exec_result::Result::Success(McpStateSuccess {
                servers: servers(toolbox),
            })),
        }),
        Ask::SmartModeClassifierArgs(_) => {
            Reply::SmartModeClassifierResult(SmartModeClassifierResult {
                result: Some(smart_mode_classifier_result::Result::Error(error())),
            })
        }
        Ask::CanvasDiagnosticsArgs(args) => {
            Reply::CanvasDiagnosticsResult(CanvasDiagnosticsResult {
                result: Some(canvas_diagnostics_result::Result::Error(PathError {
                    path: args.path.clone(),
                    error: reason(),
                })),
            })
        }
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
        Ask::PiReadArgs(_) => Reply::PiReadResult(PiReadExecResult {
            result: Some(pi_read_exec_result::Result::Error(error())),
        }),
        Ask::PiBashArgs(_) => Reply::PiBashResult(PiBashExecResult {
            result: Some(pi_bash_exec_result::Result::Error(PiBashError {
                error: reason(),
                ..PiBashError::default()
            })),
        }),
        Ask::PiEditArgs(_) => Reply::PiEditResult(PiEditExecResult {
            result: Some(pi_edit_exec_result::Result::Rejected(ReasonText { reason: reason() })),
        }),
        Ask::PiWriteArgs(_) => Reply::PiWriteResult(PiWriteExecResult {
            result: Some(pi_write_exec_result::Result::Rejected(ReasonText { reason: reason() })),
        }),
        Ask::PiGrepArgs(_) => Reply::PiGrepResult(PiGrepExecResult {
            result: Some(pi_grep_exec_result::Result::Error(error())),
        }),
        Ask::PiFindArgs(_) => Reply::PiFindResult(PiFindExecResult {
            result: Some(pi_find_exec_result::Result::Error(error())),
        }),
        Ask::PiLsArgs(_) => Reply::PiLsResult(PiLsExecResult {
            result: Some(pi_ls_exec_result::Result::Error(error())),
        }),
        Ask::ConversationSearchArgs(_) => {
            Reply::ConversationSearchResult(ConversationSearchResult {
                result: Some(conversation_search_result::Result::Error(error())),
            })
        }
        Ask::AgentStoreConflictArgs(_) => {
            Reply::AgentStoreConflictResult(AgentStoreConflictResult {
                result: Some(agent_store_conflict_result::Result::Error(error())),
            })
        }
        // Its answer has neither an error nor a rejected arm.
        Ask::GitDiffRequest(_) => {
            return Verdict::Throw("git is not reachable through this client");
        }
    };
    Verdict::Reply(Box::new(reply))
}

/// `status` of the force-background answers.
const NOT_FOUND: i32 = 2;

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

fn shell_rejected(args: &ibeam_proto::agent::ShellArgs, reason: String) -> ShellRejected {
    ShellRejected {
        command: args.command.clone(),
        working_directory: args.working_directory.clone(),
        reason,
        is_readonly: false,
    }
}

fn read_rejected(path: &str, reason: String) -> ReadResult {
    let rejected = ReadRejected { path: path.to_owned(), reason };
    ReadResult { result: Some(read_result::Result::Rejected(rejected)) }
}

fn servers(toolbox: &Toolbox) -> Vec<McpStateServer> {
    if toolbox.is_empty() {
        return Vec::new();
    }
    vec![McpStateServer {
        server_name: PROVIDER.to_owned(),
        server_identifier: PROVIDER.to_owned(),
        tools: toolbox.definitions().to_vec(),
        instructions: toolbox.instructions().into_iter().collect(),
        ..McpStateServer::default()
    }]
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
