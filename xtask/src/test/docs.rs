//! What documents say, tried.

use anyhow::Context as _;

use super::{
    NotRun,
    external::{node_script, watch_calls},
    setup,
};
use crate::command::run;

/// What the pages of `docs/clients` suggest to copy, with the programs that other steps install.
pub(super) fn clients() -> anyhow::Result<()> {
    let aider = setup::python_client("aider").context(NotRun)?;
    let llm = setup::python_client("llm").context(NotRun)?;
    let mut command =
        node_script("docs.test.mjs", setup::node_packages("clients").context(NotRun)?);
    command
        .env("IBEAM_DOCS", crate::root().join("docs/clients"))
        .env("IBEAM_NODE", setup::node_packages("node").context(NotRun)?)
        .env("IBEAM_PYTHON", setup::python().context(NotRun)?)
        .env("IBEAM_AIDER", aider)
        .env("IBEAM_LLM", llm);
    watch_calls(&mut command);
    run(&mut command)
}
