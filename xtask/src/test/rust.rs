//! The checks that need nothing but Rust.

use std::{
    fs::{self, File},
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use super::{TestOptions, secrets};
use crate::command::{cargo, run, works};

/// The packages of the one build that all steps share. Cargo compiles a crate anew for each set
/// of features, and the packages that are chosen decide those: a step that chose others would
/// compile half of the tree again. The oracle is apart, because it changes how serde_json orders
/// objects and which library compresses.
pub(super) const EVERYDAY: [&str; 4] = ["--workspace", "--exclude", "ibeam-interop", "--locked"];

pub(super) fn fmt() -> anyhow::Result<()> {
    run(cargo().args(["fmt", "--all", "--", "--check"]))?;
    run(cargo().args(["fmt", "--manifest-path", "tools/codegen/Cargo.toml", "--", "--check"]))
}

pub(super) fn clippy(options: &TestOptions) -> anyhow::Result<()> {
    let mut command = cargo();
    command.arg("clippy").arg("--all-targets");
    if options.fast {
        command.args(EVERYDAY);
    } else {
        command.args(["--workspace", "--locked"]);
    }
    run(command.args(["--", "-D", "warnings"]))
}

/// The server as a library without the simulator. Only checked: what it does is the same.
pub(super) fn without_sim() -> anyhow::Result<()> {
    let chosen = ["--locked", "--package", "ibeam-server", "--no-default-features"];
    run(cargo().arg("clippy").args(chosen).args(["--", "-D", "warnings"]))
}

/// Everything that later steps run: the tests, the examples, the program and the bench. The
/// development profile: speed is the business of the bench.
pub(super) fn build(options: &TestOptions) -> anyhow::Result<()> {
    let mut command = cargo();
    command.arg("build").args(EVERYDAY).args(["--tests", "--bin", "ibeam"]);
    if !options.fast {
        command.args(["--examples", "--bin", "ibeam-bench"]);
    }
    run(&mut command)?;
    if has_nextest() {
        TestPrograms::write()?;
    }
    Ok(())
}

/// All tests, with everything they print and leave behind recorded where that can be: the step
/// `secrets` reads it.
pub(super) fn tests(options: &TestOptions) -> anyhow::Result<()> {
    if !options.is_short() && secrets::unusable().is_none() {
        return secrets::suite();
    }
    let nextest = has_nextest();
    let mut command = test_command(nextest);
    if nextest && options.is_short() {
        println!("  without the tests of large worlds (`.config/nextest.toml`): --all has them");
        command.args(["--profile", "fast"]);
    }
    if nextest && !options.packages.is_empty() {
        let each = options.packages.iter().map(|name| format!("package({name})"));
        command.args(["-E", &each.collect::<Vec<_>>().join(" + ")]);
    }
    run(&mut command)
}

pub(super) fn has_nextest() -> bool {
    works("cargo", &["nextest", "--version"])
}

pub(super) fn test_command(nextest: bool) -> Command {
    let mut command = cargo();
    if !nextest {
        println!("  cargo-nextest is not installed: plain `cargo test`");
        command.args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"]).args(EVERYDAY);
        return command;
    }
    command.args(["nextest", "run", "--no-fail-fast"]);
    // Most of the time is spent in tests that wait for processes and sockets. Those that measure
    // have the machine for themselves (`.config/nextest.toml`).
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    command.arg(format!("--test-threads={}", 2 * cores));
    match TestPrograms::of_this_run() {
        Some(built) => built.use_in(&mut command),
        None => drop(command.args(EVERYDAY)),
    }
    command
}

/// The files in which the step `build` lists the test programs. With them nextest does not ask
/// cargo, which would wait until no other step compiles.
pub(super) struct TestPrograms {
    binaries: PathBuf,
    metadata: PathBuf,
}

impl TestPrograms {
    fn here() -> Self {
        let folder = crate::target().join("xtask");
        Self { binaries: folder.join("binaries.json"), metadata: folder.join("metadata.json") }
    }

    fn write() -> anyhow::Result<()> {
        let here = Self::here();
        let list =
            ["nextest", "list", "--tests", "--list-type=binaries-only", "--message-format=json"];
        output_to(cargo().args(list).args(EVERYDAY), &here.binaries)?;
        let metadata = ["metadata", "--format-version=1", "--all-features", "--locked"];
        output_to(cargo().args(metadata), &here.metadata)
    }

    fn of_this_run() -> Option<Self> {
        let here = Self::here();
        (here.binaries.exists() && here.metadata.exists()).then_some(here)
    }

    /// A new run does not use what an earlier one built.
    pub(super) fn forget() {
        fs::remove_file(Self::here().binaries).ok();
    }

    fn use_in(&self, command: &mut Command) {
        command.arg("--binaries-metadata").arg(&self.binaries);
        command.arg("--cargo-metadata").arg(&self.metadata);
    }
}

/// Runs to the end, and keeps what it prints in a file.
fn output_to(command: &mut Command, path: &Path) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let file = File::create(&new).with_context(|| new.display().to_string())?;
    run(command.stdout(file))?;
    fs::rename(&new, path)?;
    Ok(())
}

/// Tests that the suite leaves out, by a part of their names. Their output is shown.
pub(super) fn ignored_tests(part: &str) -> anyhow::Result<()> {
    let nextest = has_nextest();
    let mut command = test_command(nextest);
    if nextest {
        let chosen = format!("test(/^(.*::)?{part}/)");
        command.args(["--run-ignored", "only", "--success-output", "immediate", "-E", &chosen]);
    } else {
        command.args(["--", "--ignored", "--nocapture", part]);
    }
    run(&mut command)
}

pub(super) fn doc_tests() -> anyhow::Result<()> {
    run(cargo().args(["test", "--doc"]).args(EVERYDAY))
}

/// Lock files hold versions and hashes, never the address of a registry: each
/// user's own configuration decides that.
pub(super) fn lockfiles() -> anyhow::Result<()> {
    for folder in ["node", "clients", "login", "mcp", "mcp-host"] {
        let lock = crate::root().join("interop").join(folder).join("package-lock.json");
        if crate::read(&lock)?.contains("\"resolved\": \"http") {
            bail!(
                "{} names a registry; write it with `omit-lockfile-registry-resolved`",
                lock.display()
            );
        }
    }
    Ok(())
}
