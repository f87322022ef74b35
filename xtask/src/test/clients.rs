//! Real coding clients, each at a piece of work through the gateway.

use std::path::Path;

use super::{Outcome, external::node_script, setup};
use crate::{
    command::{command, run},
    plugin,
};

pub(super) fn claude_code() -> anyhow::Result<Outcome> {
    client("claude-code", None)
}

pub(super) fn codex() -> anyhow::Result<Outcome> {
    client("codex", None)
}

pub(super) fn opencode() -> anyhow::Result<Outcome> {
    client("opencode", None)
}

/// The plugin: its own tests, whether the file in the binary is what the source gives, and
/// OpenCode with the packed package.
pub(super) fn opencode_plugin() -> anyhow::Result<Outcome> {
    // The terminal of the step `login` is used here, too.
    let ready = setup::plugin().and_then(|_| setup::login()).and_then(|_| setup::clients());
    let folder = match ready {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let built = plugin::build()?;
    plugin::check(&built)?;
    run(command("npm").args(["test", "--loglevel=error"]).current_dir(&built.folder))?;
    let mut command = node_script("opencode-plugin.test.mjs", folder);
    run(command.env("IBEAM_PLUGIN", plugin::pack(&built)?))?;
    Ok(Outcome::Passed)
}

pub(super) fn pi() -> anyhow::Result<Outcome> {
    client("pi", None)
}

pub(super) fn continue_dev() -> anyhow::Result<Outcome> {
    client("continue", None)
}

pub(super) fn aider() -> anyhow::Result<Outcome> {
    python_client("aider")
}

pub(super) fn llm() -> anyhow::Result<Outcome> {
    python_client("llm")
}

/// Those that `ibeam setup` wires, over settings of their own.
pub(super) fn set_up() -> anyhow::Result<Outcome> {
    client("setup", None)
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
