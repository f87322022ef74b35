//! Starts a child, and ends it with everything that it started.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use ibeam_core::error::{ErrorCode, TurnError};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{
    environment::{MARK, Sight, cleaned},
    find::Program,
    tree::{self, Signal},
    trust::check_program,
};
use crate::{random, tasks::Tasks};

/// How long a child may take to end after the request to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long the system may take to report that a killed process is dead.
const DEATH: Duration = Duration::from_millis(500);

/// A running process, the leader of its own group. Dropping it kills the process and everything
/// that it started.
#[derive(Debug)]
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    leader: Option<u32>,
    mark: String,
    /// The process has ended, and everything that it started.
    over: bool,
    tasks: Tasks,
}

/// Its three streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

/// What is started, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spawn<'a> {
    pub(super) program: &'a Program,
    pub(super) folder: &'a Path,
    /// The prefix of the mark that all its processes will have.
    pub(super) name: &'a str,
    pub(super) sight: Sight,
}

/// Starts a program, after checking once more that no other user can replace it: it was found long
/// ago, and modes change.
///
/// # Errors
/// It was not started; the error has the reason.
pub(super) fn spawn(
    start: Spawn<'_>,
    args: &[OsString],
    tasks: &Tasks,
) -> Result<(Child, Pipes), TurnError> {
    let Spawn { program, folder, name, sight } = start;
    check(program)?;
    let mark = format!("{name}.{}", random::uuid());
    let mut command = CommandWrap::with_new(&program.path, |command| {
        command
            .args(&program.leading)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs(cleaned(std::env::vars_os(), program, sight))
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(process_wrap::tokio::ProcessGroup::leader());
    let mut process = command.spawn().map_err(|error| refused(&error, program))?;
    let pipes = Pipes {
        stdin: process.stdin().take(),
        stdout: process.stdout().take(),
        stderr: process.stderr().take(),
    };
    let leader = process.id();
    Ok((Child { process, leader, mark, over: false, tasks: tasks.clone() }, pipes))
}

impl Child {
    /// Waits until the process has ended, even if others of its group still run: in a container
    /// where we are the first process, those are our children, too. Safe to drop half-way.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.inner_mut().wait().await
    }

    /// The process has ended by itself; what it left running is ended.
    pub(super) async fn clear(&mut self) {
        if self.over {
            return;
        }
        self.signal(Signal::Kill);
        self.end_strays().await;
        self.over = true;
    }

    /// Asks it to end, and kills it if it does not. `None`: it was ended by a signal.
    pub(super) async fn end(&mut self) -> Option<i32> {
        self.signal(Signal::Ask);
        let ended = match timeout(GRACE, self.wait()).await {
            Ok(ended) => ended.ok(),
            Err(_elapsed) => {
                self.signal(Signal::Kill);
                // Without groups there is at least this process.
                let _ = self.process.start_kill();
                timeout(DEATH, self.wait()).await.ok().and_then(Result::ok)
            }
        };
        self.clear().await;
        ended.and_then(|status| status.code())
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader.filter(|_| !self.over) {
            tree::signal_group(leader, signal);
        }
    }

    async fn end_strays(&self) {
        let mark = self.mark.clone();
        // There is no time for this while the program shuts down.
        let _ = self.tasks.spawn_blocking(move || tree::end_marked(&mark)).await;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.over {
            self.signal(Signal::Kill);
            tree::end_marked(&self.mark);
        }
    }
}

/// The simulator is this program itself.
fn check(program: &Program) -> Result<(), TurnError> {
    if program.is_simulated() {
        return Ok(());
    }
    check_program(&program.path).map_err(|why| {
        if !program.path.exists() {
            return refused(&io::ErrorKind::NotFound.into(), program);
        }
        let text = format!("ibeam refuses to start {}: {why}.", program.path.display());
        TurnError::new(ErrorCode::Unavailable, text)
    })
}

/// Why no process was started, and what helps.
fn refused(error: &io::Error, program: &Program) -> TurnError {
    let path = program.path.display();
    let (code, text) = match error.kind() {
        io::ErrorKind::NotFound => (
            ErrorCode::Unavailable,
            format!("{path} no longer exists, or a file that it needs to run is missing."),
        ),
        io::ErrorKind::PermissionDenied => (
            ErrorCode::Unavailable,
            format!("This user is not allowed to run {path}. Check its permissions."),
        ),
        io::ErrorKind::ArgumentListTooLong => (
            ErrorCode::RequestTooLarge,
            format!("The command line for {path} is too long for this system."),
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => (
            ErrorCode::Unavailable,
            format!(
                "The system cannot start another process for {path}. Try again shortly, or \
                 lower `cursor_agent.max_processes`."
            ),
        ),
        _ => (ErrorCode::Unavailable, format!("{path} cannot be started: {error}.")),
    };
    TurnError::new(code, text).cause(error.to_string())
}

#[cfg(test)]
#[cfg(unix)]
#[path = "spawn_tests.rs"]
mod tests;
