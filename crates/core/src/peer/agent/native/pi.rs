//! The newer family of built-in tools, whose results are plain texts.

use ibeam_proto::agent::{
    ErrorText, PiBashError, PiBashExecArgs, PiBashExecResult, PiEditExecArgs, PiEditExecResult,
    PiEditSuccess, PiFindExecArgs, PiFindExecResult, PiGrepExecArgs, PiGrepExecResult,
    PiListOutput, PiLsExecArgs, PiLsExecResult, PiOutput, PiReadExecArgs, PiReadExecResult,
    PiTruncation, PiWriteExecArgs, PiWriteExecResult, ReasonText,
    exec_client_message::Message as Reply, pi_bash_exec_result, pi_edit_exec_result,
    pi_find_exec_result, pi_grep_exec_result, pi_ls_exec_result, pi_read_exec_result,
    pi_write_exec_result,
};
use serde_json::{Value, json};

use super::{
    ClientCall, Equipment, Outcome, Through, grep as search, list as listing, outcome,
    outcome::bare,
    read::{self as reading, Range},
    schema::{may, must},
    shell,
    table::{Capability, Slot},
    write as writing,
};
use crate::model::ToolResult;

/// Which arm asked, with what its result needs.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Read(reading::Form),
    Bash,
    Edit,
    Write,
    Grep,
    Find,
    List,
}

pub(super) fn read(args: &PiReadExecArgs, kit: &Equipment) -> Option<ClientCall> {
    let range = Range::new(args.offset, args.limit.map(i64::from));
    let (order, habits, through) = reading::order(&args.path, range, kit)?;
    let form = reading::Form { arm: reading::Arm::Plain, path: args.path.clone(), range, habits };
    Some(order.with(super::Form::Pi(Form::Read(form)), through))
}

pub(super) fn bash(args: &PiBashExecArgs, kit: &Equipment) -> Option<ClientCall> {
    // Seconds, as the tool family that it is named after has them.
    let limit = args.timeout.filter(|limit| (0.001..4_000_000.0).contains(limit));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range that was just checked"
    )]
    let limit = limit.map(|limit| (limit * 1_000.0) as u32);
    let about = "Runs a command that the model asked for";
    let order = shell::run(kit, &args.command, "", limit, about)?;
    Some(order.with(super::Form::Pi(Form::Bash), Through::Shell))
}

/// One replacement per call, unless the tool takes a list of them.
pub(super) fn edit(args: &PiEditExecArgs, kit: &Equipment) -> Option<ClientCall> {
    if args.path.is_empty() {
        return None;
    }
    let base = [must(Slot::Path, args.path.as_str()), may(Slot::About, "Edits a file")];
    let order = kit.call(Capability::Edit, |tool| {
        let mut given = base.to_vec();
        let one = match args.edits.as_slice() {
            [] => return None,
            [one] if tool.has(Slot::Old) => Some(one),
            _ => None,
        };
        if let Some(one) = one {
            given.push(must(Slot::Old, one.old_text.as_str()));
            given.push(must(Slot::New, one.new_text.as_str()));
        } else {
            let (old, new) = tool.edit_keys()?;
            let edits: Vec<Value> = args
                .edits
                .iter()
                .map(|edit| json!({ (old.as_str()): edit.old_text, (new.as_str()): edit.new_text }))
                .collect();
            given.push(must(Slot::Edits, edits));
        }
        tool.fill(&given)
    })?;
    Some(order.with(super::Form::Pi(Form::Edit), Through::Tool))
}

pub(super) fn write(args: &PiWriteExecArgs, kit: &Equipment) -> Option<ClientCall> {
    let (order, through) = writing::order(&args.path, &args.content, kit)?;
    Some(order.with(super::Form::Pi(Form::Write), through))
}

pub(super) fn grep(args: &PiGrepExecArgs, kit: &Equipment) -> Option<ClientCall> {
    if args.pattern.is_empty() {
        return None;
    }
    let query = search::Query {
        pattern: &args.pattern,
        path: args.path.as_deref().unwrap_or_default(),
        glob: args.glob.as_deref().unwrap_or_default(),
        around: args.context,
        ignore_case: args.ignore_case.unwrap_or_default(),
        literal: args.literal.unwrap_or_default(),
        head: args.limit.filter(|limit| *limit > 0),
        ..search::Query::default()
    };
    let (order, _, through) = search::search(&query, kit)?;
    Some(order.with(super::Form::Pi(Form::Grep), through))
}

pub(super) fn find(args: &PiFindExecArgs, kit: &Equipment) -> Option<ClientCall> {
    let path = args.path.as_deref().unwrap_or_default();
    let head = args.limit.filter(|limit| *limit > 0);
    let (order, through) = search::find(&args.pattern, path, head, kit)?;
    Some(order.with(super::Form::Pi(Form::Find), through))
}

pub(super) fn list(args: &PiLsExecArgs, kit: &Equipment) -> Option<ClientCall> {
    let (order, through) = listing::order(args.path.as_deref().unwrap_or_default(), &[], kit)?;
    Some(order.with(super::Form::Pi(Form::List), through))
}

impl Form {
    pub(super) fn reply(&self, result: &ToolResult, through_shell: bool) -> Reply {
        match self {
            Self::Bash => bash_reply(result),
            Self::Grep => self.typed(search::outcome(result, through_shell), through_shell),
            Self::Read(form) => {
                self.typed(Outcome::of_read(result, through_shell, &form.path), through_shell)
            }
            Self::Edit | Self::Write | Self::Find | Self::List => {
                self.typed(Outcome::of(result, through_shell), through_shell)
            }
        }
    }

    pub(super) fn unanswered(&self, why: &str) -> Reply {
        self.typed(Outcome::Failed(why.to_owned()), false)
    }

    fn typed(&self, outcome: Outcome, raw: bool) -> Reply {
        let refused = matches!(outcome, Outcome::Refused(_));
        let done = match outcome {
            Outcome::Done(text) => Ok(text),
            Outcome::Failed(text) | Outcome::Refused(text) => Err(bare(&text).to_owned()),
        };
        let listed = |done: Result<String, String>| match done {
            Ok(output) => Ok(PiListOutput { output, ..PiListOutput::default() }),
            Err(error) => Err(ErrorText { error }),
        };
        match self {
            Self::Read(form) => {
                use pi_read_exec_result::Result as Of;
                let result = match done {
                    Ok(text) => Of::Success(read_output(&form.text(&text, raw))),
                    Err(error) => Of::Error(ErrorText { error }),
                };
                Reply::PiReadResult(PiReadExecResult { result: Some(result) })
            }
            Self::Bash => Reply::PiBashResult(PiBashExecResult {
                result: Some(match done {
                    Ok(output) => pi_bash_exec_result::Result::Success(plain(output)),
                    Err(error) => pi_bash_exec_result::Result::Error(PiBashError {
                        error,
                        ..PiBashError::default()
                    }),
                }),
            }),
            Self::Edit => {
                use pi_edit_exec_result::Result as Of;
                let result = match done {
                    Ok(output) => Of::Success(PiEditSuccess { output, ..PiEditSuccess::default() }),
                    Err(reason) if refused => Of::Rejected(ReasonText { reason }),
                    Err(error) => Of::Error(ErrorText { error }),
                };
                Reply::PiEditResult(PiEditExecResult { result: Some(result) })
            }
            Self::Write => {
                use pi_write_exec_result::Result as Of;
                let result = match done {
                    Ok(output) => Of::Success(plain(output)),
                    Err(reason) if refused => Of::Rejected(ReasonText { reason }),
                    Err(error) => Of::Error(ErrorText { error }),
                };
                Reply::PiWriteResult(PiWriteExecResult { result: Some(result) })
            }
            Self::Grep => {
                use pi_grep_exec_result::Result as Of;
                let result = listed(done).map_or_else(Of::Error, Of::Success);
                Reply::PiGrepResult(PiGrepExecResult { result: Some(result) })
            }
            Self::Find => {
                use pi_find_exec_result::Result as Of;
                let result = listed(done).map_or_else(Of::Error, Of::Success);
                Reply::PiFindResult(PiFindExecResult { result: Some(result) })
            }
            Self::List => {
                use pi_ls_exec_result::Result as Of;
                let result = listed(done).map_or_else(Of::Error, Of::Success);
                Reply::PiLsResult(PiLsExecResult { result: Some(result) })
            }
        }
    }
}

/// Output of a command that failed is its error, with the exit code.
fn bash_reply(result: &ToolResult) -> Reply {
    let text = result.text();
    let output = shell::parse(&text, result.is_error);
    let refused = outcome::refused(&text, result.is_error);
    let result = if !refused && output.code == 0 && !output.timed_out && !output.aborted {
        pi_bash_exec_result::Result::Success(plain(output.whole()))
    } else {
        let error = match (refused, output.timed_out) {
            (true, _) => bare(&text).to_owned(),
            (false, true) => format!("{}\n\nCommand timed out", output.whole()),
            (false, false) => {
                format!("{}\n\nCommand exited with code {}", output.whole(), output.code)
            }
        };
        pi_bash_exec_result::Result::Error(PiBashError { error, ..PiBashError::default() })
    };
    Reply::PiBashResult(PiBashExecResult { result: Some(result) })
}

fn plain(output: String) -> PiOutput {
    PiOutput { output, ..PiOutput::default() }
}

fn read_output(text: &reading::Text) -> PiOutput {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let truncation = text.truncated.then(|| PiTruncation {
        truncated: true,
        total_lines: count(text.total_lines),
        output_lines: count(text.content.lines().count()),
        output_bytes: count(text.content.len()),
        ..PiTruncation::default()
    });
    PiOutput { output: text.content.clone(), truncation, ..PiOutput::default() }
}
