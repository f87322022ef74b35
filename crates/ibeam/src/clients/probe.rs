//! Tries a client that has been set up, as its user would: it is asked for what is in a file,
//! which takes an answer and a tool. In a folder with nothing else, without a
//! keyboard, and with the rights to read.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use ibeam_core::{model::ids, redact};
use process_wrap::tokio::{CommandWrap, KillOnDrop};
use tokio::time::timeout;

use super::{ClientSpec, UserMachine};
use ibeam_server::random;

/// A client that has to install something of its own first takes a minute.
const PATIENCE: Duration = Duration::from_secs(150);
/// What is read of what it says.
const LONGEST: u64 = 4 << 20;
/// How much of the output of a failed test is shown.
const LAST_LINES: usize = 6;

const FILE: &str = "probe.txt";

/// Why the client did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientProbeError {
    #[error("it cannot be tested: {0}")]
    NotStarted(#[from] io::Error),
    #[error("it did not finish within {} s", PATIENCE.as_secs())]
    Late,
    #[error("its answer does not have the content of the file that it was asked to read{0}")]
    Silent(String),
}

/// A client that can be tried.
#[derive(Debug)]
pub(crate) struct ClientProbe {
    program: PathBuf,
    args: &'static [&'static str],
}

impl ClientSpec {
    /// The program to try, where it is installed and can be used without a person.
    pub(crate) fn probe(&self, machine: &UserMachine) -> Option<ClientProbe> {
        let args = self.headless?;
        let program = self.programs.iter().find_map(|program| machine.program(program))?;
        Some(ClientProbe { program, args })
    }
}

impl ClientProbe {
    /// # Errors
    /// It does not start, does not end, or does not say what is in the file.
    pub(crate) async fn run(&self, model: &str) -> Result<(), ClientProbeError> {
        let folder = tempfile::Builder::new().prefix("ibeam-probe-").tempdir()?;
        let secret = ids::hex(&random::bytes::<8>());
        fs::write(folder.path().join(FILE), format!("{secret}\n"))?;
        // In files: what it leaves behind may keep a pipe open for ever.
        let (mut said, mut complained) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let streams = (said.try_clone()?, complained.try_clone()?);
        let mut command = self.command(folder.path(), model, streams);
        let mut child = command.spawn()?;
        let ended = timeout(PATIENCE, child.wait()).await;
        // With whatever it has started.
        let _ = child.start_kill();
        match ended {
            Err(_late) => return Err(ClientProbeError::Late),
            Ok(status) => drop(status?),
        }
        let answer = text(&mut said)?;
        if answer.contains(&secret) {
            return Ok(());
        }
        let words = text(&mut complained)?;
        Err(ClientProbeError::Silent(last(if words.trim().is_empty() { &answer } else { &words })))
    }

    fn command(&self, folder: &Path, model: &str, (out, err): (File, File)) -> CommandWrap {
        let prompt = format!("Read the file `{FILE}` and answer with what is in it.");
        let filled = |arg: &&str| arg.replace("{model}", model).replace("{prompt}", &prompt);
        let mut command = CommandWrap::with_new(&self.program, |command| {
            command.args(self.args.iter().map(filled)).current_dir(folder);
            // Some believe the shell rather than the system about where they are.
            command.env("PWD", folder).env("NO_COLOR", "1");
            command.stdin(Stdio::null()).stdout(out).stderr(err);
            // With the environment that it gets from its user: a plugin of ours reads it, too.
        });
        command.wrap(KillOnDrop);
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        command
    }
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of its output, below the error.
fn last(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    let text = redact::text(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    last.iter().map(|line| format!("\n  | {line}")).collect()
}

#[cfg(test)]
#[cfg(unix)]
#[path = "probe_tests.rs"]
mod tests;
