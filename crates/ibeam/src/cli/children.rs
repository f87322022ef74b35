//! Cursor's own CLI as a backend: its sign-in is its own, and so are the commands for it.

use std::process::{Command, ExitCode};

use anyhow::Context as _;
use ibeam_core::error::{ErrorCode, TurnError};

use super::{Refusal, block_on, say};
use ibeam_server::{config::Config, driver::child::CursorCli, tasks::Tasks};

/// The account that the CLI is signed in to.
///
/// # Errors
/// The CLI is not signed in or not installed.
pub(super) fn account(config: &Config) -> Result<String, TurnError> {
    let asked = block_on(async { Ok(cursor_cli(config).account().await) });
    asked.unwrap_or_else(|error| Err(TurnError::new(ErrorCode::Internal, error.to_string())))
}

/// The account that the CLI is signed in to, if no backend was chosen. Silent without a CLI.
pub(super) fn instead(config: &Config) -> Option<String> {
    if config.named_backend.is_some() {
        return None;
    }
    let asked = block_on(async {
        let cli = cursor_cli(config);
        Ok(match cli.program().await {
            Ok(_) => cli.account().await.map(Some),
            Err(error) if config.cursor_agent.bin.is_some() => Err(error),
            Err(_) => Ok(None),
        })
    });
    let trouble = match asked {
        Ok(Ok(account)) => return account,
        Ok(Err(error)) if error.code == ErrorCode::NotAuthenticated => return None,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    say(&format!("warning: Cursor's CLI is not used: {trouble}"));
    None
}

/// The error, which says what helps the CLI, with the other backend as a hint.
pub(super) fn refusal(error: &TurnError) -> Refusal {
    Refusal::new(error.to_string()).hint("or use Cursor's API instead: `--backend agent`")
}

/// Refuses to continue if the CLI is not installed or not signed in. A time-out is only a
/// warning.
pub(super) fn require_account(config: &Config) -> anyhow::Result<()> {
    match account(config) {
        Ok(_) => Ok(()),
        Err(error) if error.code == ErrorCode::Timeout => {
            say(&format!("warning: {error}"));
            Ok(())
        }
        Err(error) => Err(refusal(&error).into()),
    }
}

/// Runs one of its commands, which has the terminal to itself.
pub(super) fn hand_over(config: &Config, command: &str) -> anyhow::Result<ExitCode> {
    let found = block_on(async { Ok(cursor_cli(config).program().await) })?;
    let program = found.map_err(|error| refusal(&error))?;
    let mut child = Command::new(&program.path);
    child.args(&program.leading).arg(command);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IBEAM_") {
            child.env_remove(name);
        }
    }
    let status =
        child.status().with_context(|| format!("cannot run {}", program.path.display()))?;
    Ok(match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        None => ExitCode::FAILURE,
    })
}

/// Says who is signed in to it now.
pub(super) fn tell(config: &Config) {
    match account(config) {
        Ok(account) => say(&format!("Cursor's CLI is signed in as {account}.")),
        Err(error) => say(&error.to_string()),
    }
}

fn cursor_cli(config: &Config) -> CursorCli {
    CursorCli::of(config, false, &Tasks::new())
}
