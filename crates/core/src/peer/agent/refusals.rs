//! A refusal for each of the backend's own tools that no tool of the client stands in for: with
//! that tool's own arm, so that the model moves on.

use ibeam_proto::agent::{
    AgentStoreConflictResult, BackgroundShellSpawnResult, CanvasDiagnosticsResult,
    ComputerUseResult, ConversationSearchResult, DeleteRejected, DeleteResult, DiagnosticsResult,
    ErrorText, FetchError, FetchResult, ForceBackgroundShellResult, ForceBackgroundSubagentResult,
    GrepError, GrepResult, ListMcpResourcesExecResult, LsRejected, LsResult, PathError,
    PiBashError, PiBashExecResult, PiEditExecResult, PiFindExecResult, PiGrepExecResult,
    PiLsExecResult, PiReadExecResult, PiWriteExecResult, ReadMcpResourceExecResult, ReadRejected,
    ReadResult, ReasonText, RecordScreenResult, ShellArgs, ShellRejected, ShellResult, ShellStream,
    SmartModeClassifierResult, SubagentAwaitResult, SubagentError, SubagentRef, SubagentResult,
    WriteRejected, WriteResult, WriteShellStdinError, WriteShellStdinResult,
    agent_store_conflict_result, background_shell_spawn_result, canvas_diagnostics_result,
    conversation_search_result, delete_result, exec_client_message::Message as Reply,
    exec_server_message::Message as Ask, fetch_result, grep_result, ls_result, pi_bash_exec_result,
    pi_edit_exec_result, pi_find_exec_result, pi_grep_exec_result, pi_ls_exec_result,
    pi_read_exec_result, pi_write_exec_result, read_result, shell_result, shell_stream,
    smart_mode_classifier_result, subagent_await_result, subagent_result, write_result,
    write_shell_stdin_result,
};

/// `status` of the force-background answers.
const NOT_FOUND: i32 = 2;

/// The refusal of a request, `None` if it has none. Every arm of the schema is named here, so that
/// a new one is not overlooked.
pub(super) fn refuse(ask: &Ask, why: &str) -> Option<Reply> {
    match ask {
        Ask::ShellArgs(_)
        | Ask::MiniSweAgentBashArgs(_)
        | Ask::ShellStreamArgs(_)
        | Ask::BackgroundShellSpawnArgs(_)
        | Ask::WriteShellStdinArgs(_)
        | Ask::ForceBackgroundShellArgs(_) => refuse_command(ask, why),
        Ask::WriteArgs(_)
        | Ask::DeleteArgs(_)
        | Ask::ReadArgs(_)
        | Ask::RedactedReadArgs(_)
        | Ask::LsArgs(_)
        | Ask::GrepArgs(_)
        | Ask::DiagnosticsArgs(_)
        | Ask::CanvasDiagnosticsArgs(_) => refuse_file(ask, why),
        Ask::PiReadArgs(_)
        | Ask::PiBashArgs(_)
        | Ask::PiEditArgs(_)
        | Ask::PiWriteArgs(_)
        | Ask::PiGrepArgs(_)
        | Ask::PiFindArgs(_)
        | Ask::PiLsArgs(_) => refuse_pi(ask, why),
        Ask::FetchArgs(_)
        | Ask::ListMcpResourcesExecArgs(_)
        | Ask::ReadMcpResourceExecArgs(_)
        | Ask::RecordScreenArgs(_)
        | Ask::ComputerUseArgs(_)
        | Ask::SubagentArgs(_)
        | Ask::SubagentAwaitArgs(_)
        | Ask::ForceBackgroundSubagentArgs(_)
        | Ask::SmartModeClassifierArgs(_)
        | Ask::ConversationSearchArgs(_)
        | Ask::AgentStoreConflictArgs(_) => refuse_other(ask, why),
        // Its answer has neither an error nor a rejected arm.
        Ask::GitDiffRequest(_) => None,
        // These are answered, not refused; a hook of an unknown kind has no answer.
        Ask::McpArgs(_)
        | Ask::RequestContextArgs(_)
        | Ask::McpStateExecArgs(_)
        | Ask::ShellAllowlistPrecheckArgs(_)
        | Ask::McpAllowlistPrecheckArgs(_)
        | Ask::WebFetchAllowlistPrecheckArgs(_)
        | Ask::ExecuteHookArgs(_) => None,
    }
}

fn refuse_command(ask: &Ask, why: &str) -> Option<Reply> {
    let result = |args: &ShellArgs| ShellResult {
        result: Some(shell_result::Result::Rejected(shell_rejected(args, why))),
        ..ShellResult::default()
    };
    Some(match ask {
        Ask::ShellArgs(args) => Reply::ShellResult(result(args)),
        Ask::MiniSweAgentBashArgs(args) => Reply::MiniSweAgentBashResult(result(args)),
        Ask::ShellStreamArgs(args) => Reply::ShellStream(ShellStream {
            event: Some(shell_stream::Event::Rejected(shell_rejected(args, why))),
        }),
        Ask::BackgroundShellSpawnArgs(args) => {
            Reply::BackgroundShellSpawnResult(BackgroundShellSpawnResult {
                result: Some(background_shell_spawn_result::Result::Rejected(ShellRejected {
                    command: args.command.clone(),
                    working_directory: args.working_directory.clone(),
                    reason: why.to_owned(),
                    is_readonly: false,
                })),
            })
        }
        Ask::WriteShellStdinArgs(_) => Reply::WriteShellStdinResult(WriteShellStdinResult {
            result: Some(write_shell_stdin_result::Result::Error(WriteShellStdinError {
                error: why.to_owned(),
            })),
        }),
        Ask::ForceBackgroundShellArgs(_) => {
            Reply::ForceBackgroundShellResult(ForceBackgroundShellResult {
                status: NOT_FOUND,
                shell_result: None,
            })
        }
        _ => return None,
    })
}

fn refuse_file(ask: &Ask, why: &str) -> Option<Reply> {
    let reason = why.to_owned();
    Some(match ask {
        Ask::WriteArgs(args) => Reply::WriteResult(WriteResult {
            result: Some(write_result::Result::Rejected(WriteRejected {
                path: args.path.clone(),
                reason,
            })),
        }),
        Ask::DeleteArgs(args) => Reply::DeleteResult(DeleteResult {
            result: Some(delete_result::Result::Rejected(DeleteRejected {
                path: args.path.clone(),
                reason,
            })),
        }),
        Ask::ReadArgs(args) => Reply::ReadResult(read_rejected(&args.path, reason)),
        Ask::RedactedReadArgs(args) => Reply::RedactedReadResult(read_rejected(&args.path, reason)),
        Ask::LsArgs(args) => Reply::LsResult(LsResult {
            result: Some(ls_result::Result::Rejected(LsRejected {
                path: args.path.clone(),
                reason,
            })),
        }),
        // It has no `rejected` arm: an error is its refusal.
        Ask::GrepArgs(_) => Reply::GrepResult(GrepResult {
            result: Some(grep_result::Result::Error(GrepError { error: reason })),
        }),
        // An empty result is its documented refusal.
        Ask::DiagnosticsArgs(_) => Reply::DiagnosticsResult(DiagnosticsResult::default()),
        Ask::CanvasDiagnosticsArgs(args) => {
            Reply::CanvasDiagnosticsResult(CanvasDiagnosticsResult {
                result: Some(canvas_diagnostics_result::Result::Error(PathError {
                    path: args.path.clone(),
                    error: reason,
                })),
            })
        }
        _ => return None,
    })
}

fn refuse_pi(ask: &Ask, why: &str) -> Option<Reply> {
    let error = || ErrorText { error: why.to_owned() };
    let reason = || ReasonText { reason: why.to_owned() };
    Some(match ask {
        Ask::PiReadArgs(_) => Reply::PiReadResult(PiReadExecResult {
            result: Some(pi_read_exec_result::Result::Error(error())),
        }),
        Ask::PiBashArgs(_) => Reply::PiBashResult(PiBashExecResult {
            result: Some(pi_bash_exec_result::Result::Error(PiBashError {
                error: why.to_owned(),
                ..PiBashError::default()
            })),
        }),
        Ask::PiEditArgs(_) => Reply::PiEditResult(PiEditExecResult {
            result: Some(pi_edit_exec_result::Result::Rejected(reason())),
        }),
        Ask::PiWriteArgs(_) => Reply::PiWriteResult(PiWriteExecResult {
            result: Some(pi_write_exec_result::Result::Rejected(reason())),
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
        _ => return None,
    })
}

fn refuse_other(ask: &Ask, why: &str) -> Option<Reply> {
    let error = || ErrorText { error: why.to_owned() };
    Some(match ask {
        Ask::FetchArgs(args) => Reply::FetchResult(FetchResult {
            result: Some(fetch_result::Result::Error(FetchError {
                url: args.url.clone(),
                error: why.to_owned(),
            })),
        }),
        // An empty result is the documented refusal of these four.
        Ask::ListMcpResourcesExecArgs(_) => {
            Reply::ListMcpResourcesExecResult(ListMcpResourcesExecResult::default())
        }
        Ask::ReadMcpResourceExecArgs(_) => {
            Reply::ReadMcpResourceExecResult(ReadMcpResourceExecResult::default())
        }
        Ask::RecordScreenArgs(_) => Reply::RecordScreenResult(RecordScreenResult::default()),
        Ask::ComputerUseArgs(_) => Reply::ComputerUseResult(ComputerUseResult::default()),
        Ask::SubagentArgs(_) => Reply::SubagentResult(SubagentResult {
            result: Some(subagent_result::Result::Error(SubagentError {
                agent_id: String::new(),
                error: why.to_owned(),
            })),
        }),
        Ask::SubagentAwaitArgs(args) => Reply::SubagentAwaitResult(SubagentAwaitResult {
            result: Some(subagent_await_result::Result::NotFound(SubagentRef {
                agent_id: args.agent_id.clone(),
                transcript_path: String::new(),
            })),
        }),
        Ask::ForceBackgroundSubagentArgs(_) => {
            Reply::ForceBackgroundSubagentResult(ForceBackgroundSubagentResult {
                status: NOT_FOUND,
            })
        }
        Ask::SmartModeClassifierArgs(_) => {
            Reply::SmartModeClassifierResult(SmartModeClassifierResult {
                result: Some(smart_mode_classifier_result::Result::Error(error())),
            })
        }
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
        _ => return None,
    })
}

fn shell_rejected(args: &ShellArgs, why: &str) -> ShellRejected {
    ShellRejected {
        command: args.command.clone(),
        working_directory: args.working_directory.clone(),
        reason: why.to_owned(),
        is_readonly: false,
    }
}

fn read_rejected(path: &str, reason: String) -> ReadResult {
    let rejected = ReadRejected { path: path.to_owned(), reason };
    ReadResult { result: Some(read_result::Result::Rejected(rejected)) }
}
