//! Real coding clients, each at a piece of work through the gateway.

use std::path::Path;

use super::{Outcome, external::node_script, setup};
use crate::command::run;

pub(super) fn claude_code() -> anyhow::Result<Outcome> {
    client("claude-code", None)
}

pub(super) fn codex() -> anyhow::Result<Outcome> {
    client("codex", None)
}

pub(super) fn opencode() -> anyhow::Result<Outcome> {
    client("opencode", None)
}

pub(super) fn pi() -> anyhow::Result<Outcome> {
    client("pi", None)
}

pub(super) fn aider() -> anyhow::Result<Outcome> {
    python_client("aider")
}

pub(super) fn llm() -> anyhow::Result<Outcome> {
    python_client("llm")
}

/// A client that comes from PyPI.
fn python_client(name: &str) -> anyhow::Result<Outcome> {
    match setup::python_client(name) {
        Ok(venv) => client(name, Some(&venv)),
        Err(error) => Ok(Outcome::NotRun(format!("{error:#}"))),
    }
}

fn client(name: &str, venv: Option<&Path>) -> anyhow::Result<Outcome> {
    let folder = match setup::clients() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let mut command = node_script(&format!("{name}.test.mjs"), folder);
    if let Some(venv) = venv {
        command.env("IBEAM_VENV", venv);
    }
    match setup::strace() {
        Ok(program) => drop(command.env("IBEAM_STRACE", program)),
        Err(error) => println!("  what the gateway touches is not watched: {error:#}"),
    }
    run(&mut command)?;
    Ok(Outcome::Passed)
}
