//! What documents say, tried.

use super::{Outcome, external::node_script, setup};
use crate::command::run;

pub(super) fn translations() -> anyhow::Result<Outcome> {
    crate::translations::check()?;
    Ok(Outcome::Passed)
}

/// What the pages of `docs/clients` tell people to copy, with the programs that other steps
/// install.
pub(super) fn clients() -> anyhow::Result<Outcome> {
    let install = || -> anyhow::Result<_> {
        let aider = setup::python_client("aider")?;
        let llm = setup::python_client("llm")?;
        Ok((setup::clients()?, setup::node()?, setup::python()?, aider, llm))
    };
    let (folder, node, python, aider, llm) = match install() {
        Ok(installed) => installed,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let mut command = node_script("docs.test.mjs", folder);
    command
        .env("IBEAM_DOCS", crate::root().join("docs/clients"))
        .env("IBEAM_NODE", node)
        .env("IBEAM_PYTHON", python)
        .env("IBEAM_AIDER", aider)
        .env("IBEAM_LLM", llm);
    match setup::strace() {
        Ok(program) => drop(command.env("IBEAM_STRACE", program)),
        Err(error) => println!("  what the gateway touches is not watched: {error:#}"),
    }
    run(&mut command)?;
    Ok(Outcome::Passed)
}
