//! The checks that need nothing but Rust.

use std::{fs, process::Command};

use anyhow::{Context as _, bail};

use super::{Outcome, secrets};
use crate::command::{cargo, run, works};

/// A heavy oracle is not part of the everyday run; it has a step of its own.
const APART: [&str; 2] = ["--exclude", "ibeam-interop"];

pub(super) fn fmt() -> anyhow::Result<Outcome> {
    run(cargo().args(["fmt", "--all", "--", "--check"]))?;
    run(cargo().args(["fmt", "--manifest-path", "tools/codegen/Cargo.toml", "--", "--check"]))?;
    Ok(Outcome::Passed)
}

pub(super) fn codegen() -> anyhow::Result<Outcome> {
    crate::codegen::verify()?;
    Ok(Outcome::Passed)
}

/// Generates the code and compares it, which builds the generator.
pub(super) fn codegen_full() -> anyhow::Result<Outcome> {
    crate::codegen::generate(true)?;
    Ok(Outcome::Passed)
}

pub(super) fn clippy(fast: bool) -> anyhow::Result<Outcome> {
    let mut command = cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    if fast {
        command.args(APART);
    }
    run(command.args(["--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

/// All tests, with everything they tell written down where that can be: the step `secrets`
/// reads it.
pub(super) fn tests() -> anyhow::Result<Outcome> {
    match secrets::unusable() {
        Some(_) => run(&mut test_command(has_nextest()))?,
        None => secrets::suite()?,
    }
    Ok(Outcome::Passed)
}

pub(super) fn has_nextest() -> bool {
    works("cargo", &["nextest", "--version"])
}

pub(super) fn test_command(nextest: bool) -> Command {
    let mut command = cargo();
    if nextest {
        command.args(["nextest", "run", "--no-fail-fast"]);
    } else {
        println!("  cargo-nextest is not installed: plain `cargo test`");
        command.args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    }
    command.args(["--workspace", "--locked"]).args(APART);
    command
}

/// A million random requests from their bytes to the backend's first message. Left out of
/// `--fast`, because it builds the profile that people run.
pub(super) fn random_requests() -> anyhow::Result<Outcome> {
    let test = ["test", "--release", "--locked", "--package", "ibeam-core", "--test", "it"];
    let chosen = ["--", "--ignored", "--exact", "--nocapture", "random::a_million_random_requests"];
    run(cargo().args(test).args(chosen))?;
    Ok(Outcome::Passed)
}

pub(super) fn doc_tests() -> anyhow::Result<Outcome> {
    run(cargo().args(["test", "--doc", "--workspace", "--locked"]).args(APART))?;
    Ok(Outcome::Passed)
}

pub(super) fn deny() -> anyhow::Result<Outcome> {
    crate::deny::check()?;
    Ok(Outcome::Passed)
}

/// Lock files hold versions and hashes, never the address of a registry: each
/// user's own configuration decides that.
pub(super) fn lockfiles() -> anyhow::Result<Outcome> {
    for folder in ["node", "clients", "login", "mcp", "mcp-host"] {
        let lock = crate::root().join("interop").join(folder).join("package-lock.json");
        let text = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
        if text.contains("\"resolved\": \"http") {
            bail!(
                "{} names a registry; write it with `omit-lockfile-registry-resolved`",
                lock.display()
            );
        }
    }
    Ok(Outcome::Passed)
}
