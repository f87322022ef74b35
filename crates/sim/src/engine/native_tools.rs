//! The service's own tools: the exec that carries out an intent, its result, and the updates
//! around it.

use ibeam_proto::agent::{
    EditArgs, EditError, EditResult, EditSuccess, EditToolCall, FetchArgs, FetchToolCall, GlobArgs,
    GlobToolCall, GlobToolError, GlobToolResult, GlobToolSuccess, GrepArgs, GrepToolCall, LsArgs,
    LsToolCall, PartialToolCallUpdate, ReadArgs, ReadToolArgs, ReadToolCall, ReadToolError,
    ReadToolResult, ReadToolSuccess, ShellArgs, ShellFailure, ShellResult, ShellSuccess,
    ShellToolCall, ToolCall, ToolCallStartedUpdate, WriteArgs, edit_result,
    exec_client_message::Message as Reply, glob_tool_result, interaction_update::Message as Update,
    read_tool_result, read_tool_success, shell_result, tool_call::Tool,
};
use serde_json::json;

use super::{
    exec::{ExecAnswer, ExecOutcome},
    run::SimRun,
    run_io::RunResult,
};
use crate::{
    assistant::intent::Intent,
    behaviour::AllowHeader,
    scenario::{EncodedArm, Quirk},
};

const WRITE: u32 = 3;
const GREP: u32 = 5;
const READ: u32 = 7;
const LS: u32 = 8;
const SHELL_STREAM: u32 = 14;
const FETCH: u32 = 20;

impl SimRun {
    /// Carries out an intent with the service's own tool. `None` when it has none for that, or
    /// the client does not allow it.
    pub(crate) async fn call_native(
        &mut self,
        intent: &Intent,
    ) -> RunResult<Option<(&'static str, ExecAnswer)>> {
        let Some(name) = name_of(intent).filter(|name| self.native_allowed(name)) else {
            return Ok(None);
        };
        let id = self.call_id();
        self.record_text_so_far();
        let model_call_id = self.model_call_id();
        let partial = PartialToolCallUpdate {
            call_id: id.clone(),
            tool_call: bare(intent).map(|tool| of(tool, None)),
            args_text_delta: String::new(),
            model_call_id: model_call_id.clone(),
        };
        self.io.update(Update::PartialToolCall(Box::new(partial))).await?;
        let started = ToolCallStartedUpdate {
            call_id: id.clone(),
            tool_call: call_update(intent, &id, None, None),
            model_call_id,
        };
        self.io.update(Update::ToolCallStarted(Box::new(started))).await?;
        self.list_native_call().await?;
        let (answer, text) = match intent {
            Intent::Edit { path, old, new } => self.edit_natively(&id, path, old, new).await?,
            _ => (self.run_natively(intent, &id).await?, None),
        };
        self.last_result.clone_from(&answer.text);
        self.count_step();
        let tool_call = call_update(intent, &id, Some(&answer), text).unwrap_or_default();
        let refused = match answer.outcome {
            ExecOutcome::Rejected | ExecOutcome::Thrown => true,
            // These have no other way to refuse.
            ExecOutcome::Error => {
                matches!(intent, Intent::Grep(_) | Intent::Glob(_) | Intent::Fetch(_))
            }
            ExecOutcome::Open | ExecOutcome::Success => false,
        };
        if !refused {
            self.record(&id, name, &json!({}), &answer, tool_call.clone());
        }
        self.announce_end(id, tool_call).await?;
        self.responses += 1;
        if !self.has(Quirk::Terse) {
            Box::pin(self.checkpoint()).await?;
        }
        Ok((!refused).then_some((name, answer)))
    }

    fn native_allowed(&self, name: &str) -> bool {
        let strict = self.behaviour().tools_allow_header == AllowHeader::Strict;
        if strict && self.headers.tools_unlisted() {
            return true;
        }
        let named = |allowed: &str| allowed == allowed_name(name) || (!strict && allowed == name);
        let list = self.headers.allowed_tools.as_deref();
        list.filter(|list| strict || !list.is_empty())
            .is_none_or(|list| list.split(',').any(|allowed| named(allowed.trim())))
    }

    async fn run_natively(&mut self, intent: &Intent, id: &str) -> RunResult<ExecAnswer> {
        match exec_of(intent, id) {
            Some(arm) => self.exec_natively(arm).await,
            None => Ok(ExecAnswer::default()),
        }
    }

    async fn exec_natively(&mut self, arm: EncodedArm) -> RunResult<ExecAnswer> {
        let key = self.ask_exec(&arm).await?;
        self.io.exec_answer(key).await
    }

    /// Edits a file. No exec does that, so the file is read, and written whole under the same id.
    /// Also returns the new text.
    async fn edit_natively(
        &mut self,
        id: &str,
        path: &str,
        old: &str,
        new: &str,
    ) -> RunResult<(ExecAnswer, Option<String>)> {
        let mut answer = self.exec_natively(read(path, id)).await?;
        if answer.outcome != ExecOutcome::Success {
            return Ok((answer, None));
        }
        if !answer.text.contains(old) {
            answer.outcome = ExecOutcome::Error;
            answer.text = format!("\"{old}\" is not in {path}");
            return Ok((answer, None));
        }
        let text = answer.text.replace(old, new);
        let answer = self.exec_natively(write(path, &text, id)).await?;
        Ok((answer, Some(text)))
    }
}

/// A tool's name in the header with the allowed tools.
fn allowed_name(name: &str) -> &str {
    match name {
        "run_terminal_cmd" => "shell_tool_call",
        "read_file" => "read_tool_call",
        "search_replace" | "write" => "edit_tool_call",
        "grep" => "grep_tool_call",
        "glob_file_search" => "glob_tool_call",
        "list_dir" => "ls_tool_call",
        "mcp_web_fetch" => "web_fetch_tool_call",
        other => other,
    }
}

/// The model's name for the tool.
fn name_of(intent: &Intent) -> Option<&'static str> {
    Some(match intent {
        Intent::Shell(_) => "run_terminal_cmd",
        Intent::Read(_) => "read_file",
        Intent::Write { .. } => "write",
        Intent::Edit { .. } => "search_replace",
        Intent::List(_) => "list_dir",
        Intent::Glob(_) => "glob_file_search",
        Intent::Grep(_) => "grep",
        Intent::Fetch(_) => "mcp_web_fetch",
        Intent::Named { .. } => return None,
    })
}

/// The exec for an intent that takes one exec.
fn exec_of(intent: &Intent, id: &str) -> Option<EncodedArm> {
    Some(match intent {
        Intent::Shell(command) => arm(SHELL_STREAM, &shell_args(command, id)),
        Intent::Read(path) => read(path, id),
        Intent::Write { path, text } => write(path, text, id),
        Intent::List(path) => arm(LS, &ls_args(path, id)),
        Intent::Glob(pattern) => {
            let tool_call_id = id.to_owned();
            let glob = Some(pattern.clone());
            arm(GREP, &GrepArgs { glob, tool_call_id, ..GrepArgs::default() })
        }
        Intent::Grep(pattern) => arm(GREP, &grep_args(pattern, id)),
        Intent::Fetch(url) => arm(FETCH, &fetch_args(url, id)),
        Intent::Edit { .. } | Intent::Named { .. } => return None,
    })
}

fn arm(field: u32, args: &impl ibeam_proto::Wire) -> EncodedArm {
    EncodedArm { field, payload: args.to_wire() }
}

fn read(path: &str, id: &str) -> EncodedArm {
    let (path, tool_call_id) = (path.to_owned(), id.to_owned());
    arm(READ, &ReadArgs { path, tool_call_id, ..ReadArgs::default() })
}

fn write(path: &str, text: &str, id: &str) -> EncodedArm {
    let args = WriteArgs {
        path: path.to_owned(),
        file_text: text.to_owned(),
        tool_call_id: id.to_owned(),
        ..WriteArgs::default()
    };
    arm(WRITE, &args)
}

fn shell_args(command: &str, id: &str) -> ShellArgs {
    ShellArgs {
        command: command.to_owned(),
        timeout: 30_000,
        timeout_behavior: 2,
        tool_call_id: id.to_owned(),
        ..ShellArgs::default()
    }
}

fn ls_args(path: &str, id: &str) -> LsArgs {
    LsArgs { path: path.to_owned(), tool_call_id: id.to_owned(), ..LsArgs::default() }
}

fn grep_args(pattern: &str, id: &str) -> GrepArgs {
    GrepArgs { pattern: pattern.to_owned(), tool_call_id: id.to_owned(), ..GrepArgs::default() }
}

fn fetch_args(url: &str, id: &str) -> FetchArgs {
    FetchArgs { url: url.to_owned(), tool_call_id: id.to_owned() }
}

// === updates ===

fn of(tool: Tool, id: Option<&str>) -> ToolCall {
    ToolCall { tool: Some(tool), tool_call_id: id.map(str::to_owned), ..ToolCall::default() }
}

/// An empty call, which only names the tool.
fn bare(intent: &Intent) -> Option<Tool> {
    Some(match intent {
        Intent::Shell(_) => Tool::ShellToolCall(ShellToolCall::default()),
        Intent::Read(_) => Tool::ReadToolCall(ReadToolCall::default()),
        Intent::Write { .. } | Intent::Edit { .. } => Tool::EditToolCall(EditToolCall::default()),
        Intent::List(_) => Tool::LsToolCall(LsToolCall::default()),
        Intent::Glob(_) => Tool::GlobToolCall(GlobToolCall::default()),
        Intent::Grep(_) => Tool::GrepToolCall(GrepToolCall::default()),
        Intent::Fetch(_) => Tool::WebFetchToolCall(FetchToolCall::default()),
        Intent::Named { .. } => return None,
    })
}

/// The call with its arguments and, once it has ended, its result. `text` is the contents of a
/// file after an edit.
fn call_update(
    intent: &Intent,
    id: &str,
    answer: Option<&ExecAnswer>,
    text: Option<String>,
) -> Option<ToolCall> {
    let reply = answer.and_then(|answer| answer.reply.clone());
    let tool = match intent {
        Intent::Shell(command) => Tool::ShellToolCall(ShellToolCall {
            args: Some(shell_args(command, id)),
            result: answer.map(|answer| shell_result(command, answer)),
        }),
        Intent::Read(path) => Tool::ReadToolCall(ReadToolCall {
            args: Some(ReadToolArgs { path: path.clone(), ..ReadToolArgs::default() }),
            result: answer.map(|answer| read_result(path, answer)),
        }),
        Intent::Write { path, text } => edit_call(path, Some(text.clone()), answer),
        Intent::Edit { path, .. } => edit_call(path, text, answer),
        Intent::List(path) => Tool::LsToolCall(LsToolCall {
            args: Some(ls_args(path, id)),
            result: reply.and_then(|reply| match reply {
                Reply::LsResult(result) => Some(result),
                _ => None,
            }),
        }),
        Intent::Glob(pattern) => Tool::GlobToolCall(GlobToolCall {
            args: Some(GlobArgs { glob_pattern: pattern.clone(), ..GlobArgs::default() }),
            result: answer.map(|answer| glob_result(pattern, answer)),
        }),
        Intent::Grep(pattern) => Tool::GrepToolCall(GrepToolCall {
            args: Some(grep_args(pattern, id)),
            result: reply.and_then(|reply| match reply {
                Reply::GrepResult(result) => Some(result),
                _ => None,
            }),
        }),
        Intent::Fetch(url) => Tool::WebFetchToolCall(FetchToolCall {
            args: Some(fetch_args(url, id)),
            result: reply.and_then(|reply| match reply {
                Reply::FetchResult(result) => Some(result),
                _ => None,
            }),
        }),
        Intent::Named { .. } => return None,
    };
    Some(of(tool, Some(id)))
}

fn edit_call(path: &str, text: Option<String>, answer: Option<&ExecAnswer>) -> Tool {
    let result = answer.map(|answer| EditResult {
        result: Some(if answer.outcome == ExecOutcome::Success {
            edit_result::Result::Success(EditSuccess {
                path: path.to_owned(),
                after_full_file_content: text.clone().unwrap_or_default(),
                message: Some(answer.text.clone()),
                ..EditSuccess::default()
            })
        } else {
            edit_result::Result::Error(EditError {
                path: path.to_owned(),
                error: answer.text.clone(),
                ..EditError::default()
            })
        }),
    });
    let args = EditArgs { path: path.to_owned(), stream_content: text };
    Tool::EditToolCall(EditToolCall { args: Some(args), result })
}

fn shell_result(command: &str, answer: &ExecAnswer) -> ShellResult {
    if let Some(Reply::ShellResult(result)) = &answer.reply {
        return result.clone();
    }
    let (command, stdout) = (command.to_owned(), answer.text.clone());
    let result = if answer.outcome == ExecOutcome::Success {
        shell_result::Result::Success(ShellSuccess { command, stdout, ..ShellSuccess::default() })
    } else {
        let failure = ShellFailure { command, stdout, exit_code: 1, ..ShellFailure::default() };
        shell_result::Result::Failure(failure)
    };
    ShellResult { result: Some(result), ..ShellResult::default() }
}

fn read_result(path: &str, answer: &ExecAnswer) -> ReadToolResult {
    let result = if answer.outcome == ExecOutcome::Success {
        read_tool_result::Result::Success(ReadToolSuccess {
            path: path.to_owned(),
            is_empty: answer.text.is_empty(),
            total_lines: u32::try_from(answer.text.lines().count()).unwrap_or(u32::MAX),
            file_size: u32::try_from(answer.text.len()).unwrap_or(u32::MAX),
            output: Some(read_tool_success::Output::Content(answer.text.clone())),
            ..ReadToolSuccess::default()
        })
    } else {
        let error_message = answer.text.clone();
        read_tool_result::Result::Error(ReadToolError { error_message })
    };
    ReadToolResult { result: Some(result) }
}

fn glob_result(pattern: &str, answer: &ExecAnswer) -> GlobToolResult {
    let result = if answer.outcome == ExecOutcome::Success {
        let files: Vec<_> = answer.text.lines().map(str::to_owned).collect();
        glob_tool_result::Result::Success(GlobToolSuccess {
            pattern: pattern.to_owned(),
            total_files: i32::try_from(files.len()).unwrap_or(i32::MAX),
            files,
            ..GlobToolSuccess::default()
        })
    } else {
        glob_tool_result::Result::Error(GlobToolError { error: answer.text.clone() })
    };
    GlobToolResult { result: Some(result) }
}

#[cfg(test)]
#[path = "native_tools_tests.rs"]
mod tests;
