//! Commands: to the client's shell, and its output back.

use ibeam_proto::agent::{
    ShellArgs, ShellFailure, ShellRejected, ShellResult, ShellSpawnError, ShellStream,
    ShellStreamExit, ShellStreamStart, ShellStreamStderr, ShellStreamStdout, ShellSuccess,
    ShellTimeout, exec_client_message::Message as Reply, shell_result::Result as Outcome,
    shell_stream::Event,
};

pub(super) use super::shell_text::{Output, parse};
use super::{
    ClientCall, Equipment, Order, Through, outcome, quote,
    schema::{Unit, may, must},
    table::{Capability, Slot},
};
use crate::model::ToolResult;

/// Which arm asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    Plain,
    Stream,
    MiniSwe,
}

/// What the result repeats.
#[derive(Clone, Debug)]
pub(super) struct Form {
    arm: Arm,
    command: String,
    directory: String,
    timeout_ms: i32,
}

/// `timeout_behavior` that ends the command. The other one keeps it running.
const CANCEL: i32 = 1;
/// `abort_reason` of a command that took too long, or that the user stopped.
const BY_USER: i32 = 1;
const BY_TIMEOUT: i32 = 2;
/// How long a client is asked to wait that would otherwise come back early.
const PATIENCE_MS: u32 = 120_000;

pub(super) fn call(args: &ShellArgs, arm: Arm, kit: &Equipment) -> Option<ClientCall> {
    // A background process would need an id that does not exist.
    if args.is_background {
        return None;
    }
    // A limit after which the command may go on is none for a client that ends it.
    let limit = match args.hard_timeout {
        Some(limit) => limit,
        None if args.timeout_behavior == CANCEL => args.timeout,
        None => 0,
    };
    let about = args.description.as_deref().filter(|text| !text.is_empty());
    let order = run(
        kit,
        &args.command,
        &args.working_directory,
        u32::try_from(limit).ok().filter(|limit| *limit > 0),
        about.unwrap_or("Runs a command that the model asked for"),
    )?;
    let form = Form {
        arm,
        command: args.command.clone(),
        directory: args.working_directory.clone(),
        timeout_ms: if limit > 0 { limit } else { args.timeout },
    };
    Some(order.with(super::Form::Shell(form), Through::Shell))
}

/// A call of the client's shell.
pub(super) fn run(
    kit: &Equipment,
    command: &str,
    directory: &str,
    limit_ms: Option<u32>,
    about: &str,
) -> Option<Order> {
    if command.trim().is_empty() {
        return None;
    }
    kit.call(Capability::Shell, |tool| {
        let mut given = vec![may(Slot::About, about)];
        if directory.is_empty() {
            given.push(must(Slot::Command, command));
        } else if tool.has(Slot::Directory) {
            given.extend([must(Slot::Command, command), must(Slot::Directory, directory)]);
        } else {
            given.push(must(Slot::Command, quote::in_directory(command, directory)));
        }
        let limit = limit_ms.or_else(|| tool.returns_early().then_some(PATIENCE_MS));
        match limit.zip(tool.time_unit()) {
            Some((limit, Unit::Milliseconds)) => given.push(may(Slot::Timeout, limit)),
            Some((limit, Unit::Seconds)) => {
                given.push(may(Slot::Timeout, f64::from(limit) / 1_000.0));
            }
            None => {}
        }
        tool.fill(&given)
    })
}

impl Form {
    /// A stream begins before there is anything to say.
    pub(super) fn opening(&self) -> Vec<Reply> {
        match self.arm {
            Arm::Stream => vec![event(Event::Start(ShellStreamStart { sandbox_policy: None }))],
            Arm::Plain | Arm::MiniSwe => Vec::new(),
        }
    }

    pub(super) fn replies(&self, result: &ToolResult) -> Vec<Reply> {
        let text = result.text();
        if outcome::refused(&text, result.is_error) {
            return vec![self.rejected(text)];
        }
        let output = parse(&text, result.is_error);
        match self.arm {
            Arm::Plain => vec![Reply::ShellResult(self.result(output))],
            Arm::MiniSwe => vec![Reply::MiniSweAgentBashResult(self.result(output))],
            Arm::Stream => self.stream(output),
        }
    }

    pub(super) fn unanswered(&self, why: &str) -> Vec<Reply> {
        let result = ShellResult {
            result: Some(Outcome::SpawnError(ShellSpawnError {
                command: self.command.clone(),
                working_directory: self.directory.clone(),
                error: why.to_owned(),
            })),
            ..ShellResult::default()
        };
        match self.arm {
            Arm::Plain => vec![Reply::ShellResult(result)],
            Arm::MiniSwe => vec![Reply::MiniSweAgentBashResult(result)],
            // A stream has no error of its own.
            Arm::Stream => self.stream(Output {
                stderr: why.to_owned(),
                code: 1,
                aborted: true,
                ..Output::default()
            }),
        }
    }

    fn rejected(&self, reason: String) -> Reply {
        let rejected = ShellRejected {
            command: self.command.clone(),
            working_directory: self.directory.clone(),
            reason,
            is_readonly: false,
        };
        let result = |rejected| ShellResult {
            result: Some(Outcome::Rejected(rejected)),
            ..ShellResult::default()
        };
        match self.arm {
            Arm::Plain => Reply::ShellResult(result(rejected)),
            Arm::MiniSwe => Reply::MiniSweAgentBashResult(result(rejected)),
            Arm::Stream => event(Event::Rejected(rejected)),
        }
    }

    fn result(&self, output: Output) -> ShellResult {
        let (command, working_directory) = (self.command.clone(), self.directory.clone());
        let interleaved_output = Some(output.whole());
        let silent = output.stdout.is_empty() && output.stderr.is_empty();
        let result = if output.timed_out && silent {
            Outcome::Timeout(ShellTimeout {
                command,
                working_directory,
                timeout_ms: self.timeout_ms,
            })
        } else if output.code == 0 && !output.aborted {
            Outcome::Success(ShellSuccess {
                command,
                working_directory,
                stdout: output.stdout,
                stderr: output.stderr,
                interleaved_output,
                ..ShellSuccess::default()
            })
        } else {
            Outcome::Failure(ShellFailure {
                command,
                working_directory,
                exit_code: output.code,
                abort_reason: abort_reason(&output),
                aborted: output.timed_out || output.aborted,
                stdout: output.stdout,
                stderr: output.stderr,
                interleaved_output,
                ..ShellFailure::default()
            })
        };
        ShellResult { result: Some(result), ..ShellResult::default() }
    }

    /// What was printed, and the exit.
    fn stream(&self, output: Output) -> Vec<Reply> {
        let result = self.result(output.clone());
        let exit = ShellStreamExit {
            code: u32::try_from(output.code).unwrap_or(1),
            cwd: self.directory.clone(),
            aborted: output.timed_out || output.aborted,
            abort_reason: abort_reason(&output),
            ..ShellStreamExit::default()
        };
        let mut events = Vec::new();
        if !output.stdout.is_empty() {
            events.push(Event::Stdout(ShellStreamStdout { data: output.stdout }));
        }
        if !output.stderr.is_empty() {
            events.push(Event::Stderr(ShellStreamStderr { data: output.stderr }));
        }
        events.push(Event::Exit(exit));
        let mut replies: Vec<Reply> = events.into_iter().map(event).collect();
        // Without a result behind the stream a resumed run stays silent.
        replies.push(Reply::ShellResult(result));
        replies
    }
}

fn abort_reason(output: &Output) -> Option<i32> {
    match (output.timed_out, output.aborted) {
        (true, _) => Some(BY_TIMEOUT),
        (false, true) => Some(BY_USER),
        (false, false) => None,
    }
}

fn event(event: Event) -> Reply {
    Reply::ShellStream(ShellStream { event: Some(event) })
}
