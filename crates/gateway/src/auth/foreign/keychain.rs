//! The Cursor CLI's items in the macOS keychain, by the system's own program. The system
//! may ask the user, so the answer is waited for, though not for ever.

use std::{
    io::Read as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use secrecy::SecretString;

use super::{Outcome, some};
use crate::auth::{Credential, file::token};

/// By its full path: what else is called so is not asked.
#[cfg(target_os = "macos")]
pub(in crate::auth) const PROGRAM: &str = "/usr/bin/security";

pub(in crate::auth) const ACCESS: &str = "cursor-access-token";
const REFRESH: &str = "cursor-refresh-token";
const API_KEY: &str = "cursor-api-key";
const ACCOUNT: &str = "cursor-user";

/// A user has to find and answer a dialog.
#[cfg(target_os = "macos")]
pub(in crate::auth) const WAIT: Duration = Duration::from_secs(60);

/// What the program exits with when there is no such item.
const NOT_FOUND: i32 = 44;

const LONGEST: u64 = 64 << 10;

/// Whether there is something to read; no secret is asked for.
pub(in crate::auth) fn is_there(program: &Path) -> bool {
    [ACCESS, API_KEY].iter().any(|service| {
        let mut command = find(program, service);
        command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

pub(in crate::auth) fn read(program: &Path, wait: Duration) -> Outcome {
    some(Credential {
        access_token: item(program, ACCESS, wait)?,
        refresh_token: item(program, REFRESH, wait)?,
        api_key: item(program, API_KEY, wait)?,
        ..Credential::default()
    })
}

fn item(program: &Path, service: &str, wait: Duration) -> Result<Option<SecretString>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // `-w`: the secret alone, on stdout.
    let mut child =
        find(program, service).arg("-w").stdout(Stdio::piped()).spawn().map_err(unreadable)?;
    let text = child.stdout.take().and_then(|stdout| answer(&mut child, stdout, wait));
    let Some(text) = text else { return Err("no answer in time".to_owned()) };
    let status = child.wait().map_err(unreadable)?;
    match status.code() {
        Some(0) => match text.trim() {
            "" => Ok(None),
            text => token(text).map(Some).ok_or_else(|| format!("`{service}` is no token")),
        },
        Some(NOT_FOUND) => Ok(None),
        _ => Err(format!("refused by the keychain ({status})")),
    }
}

fn find(program: &Path, service: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["find-generic-password", "-a", ACCOUNT, "-s", service]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// What the program says until it closes its output; who is too late is ended.
fn answer(child: &mut Child, stdout: ChildStdout, wait: Duration) -> Option<String> {
    let (tx, rx) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(LONGEST).read_to_string(&mut text);
        // Nobody listens any more when the wait is over.
        let _ = tx.send(read.map(|_| text).unwrap_or_default());
    });
    let text = rx.recv_timeout(wait).ok();
    if text.is_none() {
        // It may have ended just now; either way it is gone after this.
        let _ = child.kill();
        let _ = child.wait();
    }
    text
}
