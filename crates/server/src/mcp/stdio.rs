//! A server as a child of this program: in its own process group, with few variables, and ended
//! with everything it started.

use std::{collections::VecDeque, io, process::Stdio, sync::Arc, time::Duration};

use ibeam_core::redact;
use parking_lot::Mutex;
#[cfg(unix)]
use process_wrap::tokio::ProcessGroup;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::{
    io::AsyncReadExt as _,
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use super::config::ServerProgram;
use crate::tasks::Tasks;

/// Bytes of its standard error that are kept.
const TAIL: usize = 4 << 10;
/// For reading the last output of a dead child.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// For it to exit after its standard input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Variables that programs need, none of them secret. The user configures the others.
const KEPT: &str = "\
    PATH HOME USER LOGNAME SHELL TERM LANG LC_ALL LC_CTYPE TZ TMPDIR XDG_CACHE_HOME \
    XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR APPDATA LOCALAPPDATA HOMEDRIVE \
    HOMEPATH USERNAME USERPROFILE SYSTEMDRIVE SYSTEMROOT PROGRAMFILES PATHEXT \
    COMSPEC TEMP";

/// A running child.
pub(super) struct ServerProcess {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) hold: ProcessGuard,
}

/// Dropping it ends the child.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Cancelled when its standard error is closed.
    silent: CancellationToken,
    _end: DropGuard,
}

impl ProcessGuard {
    /// The last lines of its standard error, without secrets. Waits a moment for the end of the
    /// output.
    pub(super) async fn complaint(&self) -> Option<String> {
        let _ = timeout(LAST_WORDS, self.silent.cancelled()).await;
        let tail = self.tail.lock();
        let bytes: Vec<u8> = tail.iter().copied().collect();
        drop(tail);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" | ");
        (!last.is_empty()).then(|| redact::text(&last).into_owned())
    }
}

pub(super) fn spawn(program: &ServerProgram, tasks: &Tasks) -> io::Result<ServerProcess> {
    let mut command = CommandWrap::with_new(&program.command, |command| {
        command.args(&program.args).env_clear();
        let kept = KEPT.split(' ').filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(kept);
        command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
        if let Some(folder) = &program.cwd {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    });
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(ProcessGroup::leader());
    let mut child = command.spawn()?;
    let missing = || io::Error::other("a standard stream is missing");
    let stdin = child.stdin().take().ok_or_else(missing)?;
    let stdout = child.stdout().take().ok_or_else(missing)?;
    let stderr = child.stderr().take().ok_or_else(missing)?;
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let (end, silent) = (CancellationToken::new(), CancellationToken::new());
    let done = silent.clone().drop_guard();
    tasks.spawn("mcp complaints", listen(stderr, Arc::clone(&tail), done));
    tasks.spawn("mcp child", reap(child, end.clone()));
    Ok(ServerProcess { stdin, stdout, hold: ProcessGuard { tail, silent, _end: end.drop_guard() } })
}

/// Ends a child that is not needed any more, and what a dead one left behind.
async fn reap(mut child: Box<dyn ChildWrapper>, end: CancellationToken) {
    let over = tokio::select! {
        status = child.wait() => status.is_ok(),
        () = end.cancelled() => timeout(GRACE, child.wait()).await.is_ok(),
    };
    // To the group, so that processes that outlive their parent end, too.
    let killed = child.start_kill();
    if !over {
        let _ = timeout(GRACE, child.wait()).await;
        debug!(?killed, "an MCP server had to be killed");
    }
}

async fn listen(mut stderr: ChildStderr, tail: Arc<Mutex<VecDeque<u8>>>, _done: DropGuard) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        let mut tail = tail.lock();
        tail.extend(buffer.get(..length).unwrap_or_default());
        let more = tail.len().saturating_sub(TAIL);
        tail.drain(..more);
    }
}
