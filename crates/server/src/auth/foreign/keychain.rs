//! The Cursor CLI's items in the macOS keychain, by the system's own program. The system may ask
//! the user, so this waits for an answer, up to a limit.

use std::{
    io::{self, Read as _},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use secrecy::SecretString;

use super::{ForeignOutcome, some};
use crate::auth::{Credential, file::named_token};

/// By its full path, so that no other program of that name is run.
#[cfg(target_os = "macos")]
pub(in crate::auth) const PROGRAM: &str = "/usr/bin/security";

pub(in crate::auth) const ACCESS: &str = "cursor-access-token";
const REFRESH: &str = "cursor-refresh-token";
const API_KEY: &str = "cursor-api-key";
const ACCOUNT: &str = "cursor-user";

/// A user has to find and answer a dialog.
#[cfg(target_os = "macos")]
pub(in crate::auth) const WAIT: Duration = Duration::from_secs(60);

/// Checking that an item exists does not ask the user.
#[cfg(target_os = "macos")]
pub(in crate::auth) const PROBE: Duration = Duration::from_secs(5);

/// The program's exit code for a missing item.
const NOT_FOUND: i32 = 44;

const LONGEST: u64 = 64 << 10;

/// Whether there is something to read; no secret is asked for.
pub(in crate::auth) fn is_there(program: &Path, wait: Duration) -> bool {
    [ACCESS, API_KEY].iter().any(|service| {
        let answer = run(&mut find(program, service), wait);
        matches!(answer, Ok(Some((status, _))) if status.success())
    })
}

pub(in crate::auth) fn read(program: &Path, wait: Duration) -> ForeignOutcome {
    some(Credential {
        access_token: item(program, ACCESS, wait)?,
        refresh_token: item(program, REFRESH, wait)?,
        api_key: item(program, API_KEY, wait)?,
        ..Credential::default()
    })
}

fn item(program: &Path, service: &str, wait: Duration) -> Result<Option<SecretString>, String> {
    // `-w`: the secret alone, on stdout.
    let answer = run(find(program, service).arg("-w"), wait);
    let answer = answer.map_err(|error| format!("cannot be read: {error}"))?;
    let Some((status, text)) = answer else { return Err("no answer in time".to_owned()) };
    match status.code() {
        Some(0) => match text.trim() {
            "" => Ok(None),
            text => named_token(service, text).map(Some),
        },
        Some(NOT_FOUND) => Ok(None),
        _ => Err(format!("refused by the keychain ({status})")),
    }
}

fn find(program: &Path, service: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["find-generic-password", "-a", ACCOUNT, "-s", service]);
    command
}

/// The output of the program; `None` if it took too long and was killed.
fn run(command: &mut Command, wait: Duration) -> io::Result<Option<(ExitStatus, String)>> {
    let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = streams.spawn()?;
    let (tx, rx) = mpsc::sync_channel(1);
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.map(|stdout| stdout.take(LONGEST).read_to_string(&mut text));
        // The receiver is gone when the wait is over.
        let _ = tx.send(if let Some(Ok(_)) = read { text } else { String::new() });
    });
    let Ok(text) = rx.recv_timeout(wait) else {
        // It may have ended just now; either way it is gone after this.
        let _ = child.kill();
        let _ = child.wait();
        return Ok(None);
    };
    Ok(Some((child.wait()?, text)))
}
