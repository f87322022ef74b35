//! Runs the system's own tools.

use std::{fmt, io, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    time::timeout,
};

/// For one command. Starting a socket or removing a task takes a moment.
const TIME: Duration = Duration::from_secs(60);

/// What one may print; more is not read.
const OUTPUT: u64 = 256 << 10;

/// A command as it would be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: &'static str,
    pub(crate) args: Vec<String>,
}

impl CommandLine {
    pub(crate) fn new<const N: usize>(program: &'static str, args: [&str; N]) -> Self {
        Self { program, args: args.map(str::to_owned).to_vec() }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for arg in &self.args {
            match arg.contains(char::is_whitespace) || arg.is_empty() {
                true => write!(f, " \"{arg}\"")?,
                false => write!(f, " {arg}")?,
            }
        }
        Ok(())
    }
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What runs commands: the system, or a test that writes them down.
pub(crate) trait CommandRunner {
    /// # Errors
    /// There is no such program, or it does not end.
    fn run(&self, line: &CommandLine) -> io::Result<Ran>;
}

/// The machine we are on.
#[derive(Debug)]
pub(crate) struct SystemRunner;

impl CommandRunner for SystemRunner {
    fn run(&self, line: &CommandLine) -> io::Result<Ran> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ran = runtime.block_on(async {
            match timeout(TIME, run(line)).await {
                Ok(ran) => ran,
                Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
            }
        });
        runtime.shutdown_background();
        ran
    }
}

async fn run(line: &CommandLine) -> io::Result<Ran> {
    let mut child = Command::new(line.program)
        .args(&line.args)
        // What it says is read by a program.
        .env("LC_ALL", "C")
        .env("SYSTEMD_COLORS", "0")
        .env("SYSTEMD_PAGER", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::join!(text(stdout), text(stderr));
    let status = child.wait().await?;
    Ok(Ran { ok: status.success(), stdout: stdout?, stderr: stderr? })
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}
