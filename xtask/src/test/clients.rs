//! Real coding clients, each at a piece of work through the gateway.

use std::path::Path;

use anyhow::Context as _;

use super::{
    NotRun,
    external::{node_script, watch_calls},
    setup,
};
use crate::{
    command::{command, run},
    plugin,
};

/// The plugin: its own tests, whether the file in the binary is what the source gives, and
/// OpenCode with the packed package.
pub(super) fn opencode_plugin() -> anyhow::Result<()> {
    // The terminal of the step `login` is used here, too.
    let ready =
        setup::plugin().and_then(|_| setup::login()).and_then(|_| setup::node_packages("clients"));
    let folder = ready.context(NotRun)?;
    let built = plugin::build()?;
    plugin::check(&built)?;
    run(command("npm").args(["test", "--loglevel=error"]).current_dir(&built.folder))?;
    let mut command = node_script("opencode-plugin.test.mjs", folder);
    run(command.env("IBEAM_PLUGIN", plugin::pack(&built)?))
}

/// A client that comes from npm.
pub(super) fn npm_client(name: &str) -> anyhow::Result<()> {
    client(name, None)
}

/// Clients that work with each way in which the service offers tools, over both transports.
const MATRIX_CLIENTS: [&str; 5] = ["opencode", "claude-code", "codex", "pi", "continue"];

/// Each of them under each setting, as a table.
pub(super) fn client_matrix() -> anyhow::Result<()> {
    let folder = setup::node_packages("clients").context(NotRun)?;
    let mut table = format!("| tools | transport | {} |\n", MATRIX_CLIENTS.join(" | "));
    table += "|---|---|---|---|---|---|---|\n";
    let mut failures = Vec::new();
    for tools in ["direct", "meta"] {
        for transport in ["h2", "h1"] {
            table += &format!("| {tools} | {transport} |");
            for client in MATRIX_CLIENTS {
                let mut command = node_script(&format!("{client}.test.mjs"), folder.clone());
                command.env("IBEAM_PAIRING", format!("{tools},{transport}"));
                watch_calls(&mut command);
                let result = run(&mut command);
                table += if result.is_ok() { " ok |" } else { " **failed** |" };
                failures.extend(result.err().map(|error| format!("{client}: {error:#}")));
            }
            table.push('\n');
        }
    }
    println!("{table}");
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// A client that comes from PyPI.
pub(super) fn python_client(name: &str) -> anyhow::Result<()> {
    client(name, Some(&setup::python_client(name).context(NotRun)?))
}

fn client(name: &str, venv: Option<&Path>) -> anyhow::Result<()> {
    let folder = setup::node_packages("clients").context(NotRun)?;
    let mut command = node_script(&format!("{name}.test.mjs"), folder);
    if let Some(venv) = venv {
        command.env("IBEAM_VENV", venv);
    }
    watch_calls(&mut command);
    run(&mut command)
}
