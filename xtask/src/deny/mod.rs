//! The rules of `deny.toml`, checked without cargo-deny: that is a minute to compile, and has no
//! current prebuilt package. The same file serves both; what cargo-deny would read and this does
//! not is an error, so that no rule is silently skipped.

mod config;
mod graph;
mod rules;
mod spdx;

use anyhow::{Context as _, bail};

use self::{config::DenyConfig, graph::CrateGraph};
use crate::{
    command::{command, run, works},
    metadata::metadata,
};

pub(crate) fn check() -> anyhow::Result<()> {
    let path = crate::root().join("deny.toml");
    let config = DenyConfig::parse(&crate::read(&path)?).context("deny.toml")?;
    let graph = CrateGraph::new(&metadata(&["--all-features"])?)?;
    let faults = rules::faults(&config, &graph);
    if !faults.is_empty() {
        bail!("{} faults by deny.toml:\n  {}", faults.len(), faults.join("\n  "));
    }
    println!(
        "  {} crates: bans, licenses and sources are as deny.toml wants them",
        graph.crates.len()
    );

    // Where it is installed, it confirms that both read the file in the same way.
    if works("cargo-deny", &["--version"]) {
        // Advisories need a git host, which not every machine can reach.
        let all = ["--all-features", "check", "bans", "licenses", "sources"];
        run(command("cargo-deny").args(all))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "deny_tests.rs"]
mod tests;
