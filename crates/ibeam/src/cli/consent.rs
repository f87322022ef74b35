//! Questions to the user, in a terminal.

use std::io::{IsTerminal as _, Write as _};

use super::Refusal;

/// Whether there is a terminal to ask on.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the user. None: the answer was a line without text.
pub(super) fn ask(question: &str) -> anyhow::Result<Option<bool>> {
    let mut out = anstream::stderr().lock();
    let _ = write!(out, "{question} ").and_then(|()| out.flush());
    drop(out);
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer)?;
    Ok(match answer.trim().to_ascii_lowercase().as_str() {
        // Not the end of the input.
        "" if read > 0 => None,
        answer => Some(matches!(answer, "y" | "yes")),
    })
}

/// Asks whether changes are to be made.
pub(super) fn consent(question: &str) -> anyhow::Result<()> {
    match ask(&format!("{question} [Y/n]"))? {
        None | Some(true) => Ok(()),
        Some(false) => Err(Refusal::new("nothing was changed").into()),
    }
}
