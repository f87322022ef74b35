//! Tests with programs that others wrote: official SDKs, a public client of the same protocol, two
//! independent implementations of Connect, a terminal and a browser, and the kernel's own account
//! of what the program does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

use super::{NotRun, rust::ignored_tests, setup};
use crate::command::{cargo, command, run};

/// The oracle is compiled apart from the rest, and once for all of its steps.
pub(super) fn oracle_build() -> anyhow::Result<()> {
    let build = ["build", "--tests", "--examples", "--message-format=json-render-diagnostics"];
    let mut command = cargo();
    command.args(build).args(ORACLE).stderr(Stdio::inherit());
    println!("  $ cargo build --tests --examples {}", ORACLE.join(" "));
    let output = command.output().context("could not start cargo")?;
    if !output.status.success() {
        bail!("the oracle does not build: {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|one| one.pointer("/profile/test") == Some(&Value::Bool(true)));
    let programs: Vec<String> = tests
        .filter_map(|one| one.get("executable").and_then(Value::as_str).map(str::to_owned))
        .collect();
    fs::write(oracle_list(), programs.join("\n"))?;
    Ok(())
}

/// The test programs of the oracle. They are started directly: cargo would wait until no other
/// step compiles.
fn oracle_list() -> PathBuf {
    crate::target().join("xtask/oracle.txt")
}

const ORACLE: [&str; 3] = ["--package", "ibeam-interop", "--locked"];

/// The modules of the oracle that are steps of their own: all that the gateway answers and all that
/// it sends over ACP, in the types of others; and JSON Schema, by its official test suite and the
/// verdicts of another validator.
pub(super) const OPENAI: &str = "openai::";
pub(super) const ACP: &str = "acp";
pub(super) const SCHEMA: &str = "schema::";

pub(super) fn json_schema() -> anyhow::Result<()> {
    let suite = setup::json_schema_suite().context(NotRun)?;
    oracle("json-schema", &[SCHEMA, "--include-ignored"], Some(&suite))
}

pub(super) fn oracle(step: &str, tests: &[&str], suite: Option<&Path>) -> anyhow::Result<()> {
    // The gateway runs inside the test; what it keeps must not land in a home folder.
    let home = crate::target().join("interop/home").join(step);
    let list = fs::read_to_string(oracle_list()).context("the step oracle-build")?;
    for program in list.lines() {
        run(command(program)
            .args(tests)
            .current_dir(crate::root().join("interop"))
            .envs(suite.map(|suite| ("IBEAM_JSON_SCHEMA_SUITE", suite)))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_CONFIG_HOME", home.join("config")))?;
    }
    Ok(())
}

/// The real binary through every tool of the backend, while its system calls are
/// written down; and writes of a credential that end at each of theirs.
pub(super) fn strace() -> anyhow::Result<()> {
    setup::strace().context(NotRun)?;
    ignored_tests("strace::")
}

/// 500 turns in Cursor's CLI that end badly, and nothing is left of them; and a very long
/// answer to a client that takes its time.
pub(super) fn children_500() -> anyhow::Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(anyhow!("it looks into /proc").context(NotRun));
    }
    ignored_tests("children::")
}

/// A user signs in: in a terminal, with a browser.
pub(super) fn login() -> anyhow::Result<()> {
    let folder = setup::login().context(NotRun)?;
    let chromium = setup::chromium().context(NotRun)?;
    run(node_script("login.test.mjs", folder).env("IBEAM_CHROMIUM", chromium))
}

/// The feature `keychain`: its lints and tests, and then GNOME Keyring keeps the
/// credentials, while libsecret's own tool looks into it.
pub(super) fn keychain() -> anyhow::Result<()> {
    let with =
        ["--locked", "--package", "ibeam", "--package", "ibeam-server", "--features", "keychain"];
    run(cargo().arg("clippy").args(with).args(["--all-targets", "--", "-D", "warnings"]))?;
    run(cargo().arg("test").args(with).args(["--lib", "--", "auth::", "config::"]))?;
    setup::keychain().context(NotRun)?;
    let real = ["--test", "it", "--", "--ignored", "--nocapture", "keychain::"];
    run(cargo().arg("test").args(with).args(real))
}

/// The bench in miniature, which shows that it works.
pub(super) fn bench_smoke() -> anyhow::Result<()> {
    run(command(program("ibeam-bench")).args(["--smoke", "--ibeam"]).arg(binary()))
}

/// A debug build on a machine with other work is late by itself, so its limit is wider than that of
/// `cargo xtask attack`.
pub(super) fn attack_short() -> anyhow::Result<()> {
    let mut attack = command(program("ibeam-bench"));
    attack.args(["attack", "--short", "--gap", "1000", "--tries", "3", "--program"]);
    run(attack.arg(binary()))
}

/// The server that hosts a client's tools: MCP's own test of servers, and its official SDK.
pub(super) fn mcp_host() -> anyhow::Result<()> {
    let folder = setup::node_packages("mcp-host").context(NotRun)?;
    let host = program("examples/mcp-host");
    run(node_script("host.test.mjs", folder).env("IBEAM_MCP_HOST", host))
}

/// MCP servers that others wrote, as the user's: over pipes, HTTP and the older transport, by
/// command and inside a turn; and the protocol's own test of clients.
pub(super) fn mcp_servers() -> anyhow::Result<()> {
    let folder = setup::node_packages("mcp").context(NotRun)?;
    run(node_script("servers.test.mjs", folder).arg("conformance.test.mjs"))
}

/// The tests of `interop/python` in files like this.
pub(super) fn python_test(pattern: &str) -> anyhow::Result<()> {
    let python = setup::python().context(NotRun)?;
    run(command(python)
        .args(["-B", "-m", "unittest", "discover", "--verbose", "--pattern", pattern])
        .arg("--start-directory")
        .arg(crate::root().join("interop/python"))
        .env("IBEAM_BIN", binary())
        .env("IBEAM_SCENARIO", scenario()))
}

/// All tests in a folder of `interop/node`.
pub(super) fn node_test(name: &str) -> anyhow::Result<()> {
    let folder = setup::node_packages("node").context(NotRun)?;
    let mut scripts = Vec::new();
    for entry in fs::read_dir(crate::root().join("interop/node").join(name))? {
        let script = entry?.file_name().to_string_lossy().into_owned();
        if script.ends_with(".test.mjs") {
            scripts.push(format!("{name}/{script}"));
        }
    }
    scripts.sort();
    let (first, more) = scripts.split_first().context("no test in that folder")?;
    run(node_script(first, folder).args(more))
}

pub(super) fn node_script(script: &str, folder: PathBuf) -> Command {
    let mut command = command("node");
    command
        .args(["--test", "--test-reporter=spec", script])
        .current_dir(folder)
        .env("IBEAM_BIN", binary())
        .env("IBEAM_SCENARIO", scenario());
    command
}

/// Lets a script watch what the gateway touches, where strace works.
pub(super) fn watch_calls(script: &mut Command) {
    match setup::strace() {
        Ok(program) => drop(script.env("IBEAM_STRACE", program)),
        Err(error) => println!("  what the gateway touches is not watched: {error:#}"),
    }
}

/// What the simulator says to the SDKs.
fn scenario() -> PathBuf {
    crate::root().join("interop/sdks.toml")
}

/// The program that the step `build` made.
pub(super) fn binary() -> PathBuf {
    program("ibeam")
}

fn program(name: &str) -> PathBuf {
    crate::target().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}
