//! Proofs by things that nobody here wrote: official SDKs, a public client
//! of the same protocol, two independent implementations of Connect, a terminal
//! and a browser, and the kernel's own account of what the program does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{Outcome, rust::ignored_tests, setup};
use crate::command::{cargo, command, run};

pub(super) fn python_openai() -> anyhow::Result<Outcome> {
    python_test("test_openai*.py")
}

pub(super) fn python_anthropic() -> anyhow::Result<Outcome> {
    python_test("test_anthropic*.py")
}

pub(super) fn python_langchain() -> anyhow::Result<Outcome> {
    python_test("test_langchain*.py")
}

/// Requests made up from our own description of the API, and its answers held against it.
pub(super) fn schemathesis() -> anyhow::Result<Outcome> {
    python_test("test_schema*.py")
}

pub(super) fn node_openai() -> anyhow::Result<Outcome> {
    node_test("openai-sdk")
}

pub(super) fn node_anthropic() -> anyhow::Result<Outcome> {
    node_test("anthropic-sdk")
}

pub(super) fn node_ai() -> anyhow::Result<Outcome> {
    node_test("ai-sdk")
}

pub(super) fn peer() -> anyhow::Result<Outcome> {
    node_test("opencode-cursor-oauth")
}

pub(super) fn connect_node() -> anyhow::Result<Outcome> {
    node_test("connect-server")
}

/// The oracle is compiled apart from the rest, and once for all of its steps.
pub(super) fn oracle_build() -> anyhow::Result<Outcome> {
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
    Ok(Outcome::Passed)
}

/// The test programs of the oracle. They are started directly: cargo would wait until no other
/// step compiles.
fn oracle_list() -> PathBuf {
    crate::target().join("xtask/oracle.txt")
}

const ORACLE: [&str; 3] = ["--package", "ibeam-interop", "--locked"];

pub(super) fn connectrpc() -> anyhow::Result<Outcome> {
    oracle("connectrpc", &["--skip", OPENAI, "--skip", ACP, "--skip", SCHEMA], &[])
}

/// All that the gateway answers, in the types of others.
pub(super) fn async_openai() -> anyhow::Result<Outcome> {
    oracle("async-openai", &[OPENAI], &[])
}

/// All that is said over ACP, in the types of others.
pub(super) fn acp_schema() -> anyhow::Result<Outcome> {
    oracle("acp-schema", &[ACP], &[])
}

/// JSON Schema: its official test suite, and the verdicts of another validator.
pub(super) fn json_schema() -> anyhow::Result<Outcome> {
    let suite = match setup::json_schema_suite() {
        Ok(suite) => suite,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let suite = ("IBEAM_JSON_SCHEMA_SUITE", suite.as_path());
    oracle("json-schema", &[SCHEMA, "--include-ignored"], &[suite])
}

/// The oracle's modules with those types, and the one with schemas.
const OPENAI: &str = "openai::";
const ACP: &str = "acp";
const SCHEMA: &str = "schema::";

fn oracle(step: &str, tests: &[&str], variables: &[(&str, &Path)]) -> anyhow::Result<Outcome> {
    // The gateway runs inside the test; what it keeps must not land in a home folder.
    let home = crate::target().join("interop/home").join(step);
    let list = fs::read_to_string(oracle_list()).context("the step oracle-build")?;
    for program in list.lines() {
        run(command(program)
            .args(tests)
            .current_dir(crate::root().join("interop"))
            .envs(variables.iter().copied())
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_CONFIG_HOME", home.join("config")))?;
    }
    Ok(Outcome::Passed)
}

/// The real binary through every tool of the backend, while its system calls are
/// written down; and writes of a credential that end at each of theirs.
pub(super) fn strace() -> anyhow::Result<Outcome> {
    if let Err(error) = setup::strace() {
        return Ok(Outcome::NotRun(format!("{error:#}")));
    }
    ignored_tests("strace::")?;
    Ok(Outcome::Passed)
}

/// 500 turns in Cursor's CLI that end badly, and nothing is left of them; and a very long
/// answer to a client that takes its time.
pub(super) fn children_500() -> anyhow::Result<Outcome> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::NotRun("it looks into /proc".to_owned()));
    }
    ignored_tests("children::")?;
    Ok(Outcome::Passed)
}

/// A user signs in: in a terminal, with a browser.
pub(super) fn login() -> anyhow::Result<Outcome> {
    let ready = setup::login().and_then(|folder| Ok((folder, setup::chromium()?)));
    let (folder, chromium) = match ready {
        Ok(ready) => ready,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    run(node_script("login.test.mjs", folder).env("IBEAM_CHROMIUM", chromium))?;
    Ok(Outcome::Passed)
}

/// The feature `keychain`: its lints and tests, and then GNOME Keyring keeps the
/// credentials, while libsecret's own tool looks into it.
pub(super) fn keychain() -> anyhow::Result<Outcome> {
    let with =
        ["--locked", "--package", "ibeam", "--package", "ibeam-server", "--features", "keychain"];
    run(cargo().arg("clippy").args(with).args(["--all-targets", "--", "-D", "warnings"]))?;
    run(cargo().arg("test").args(with).args(["--lib", "--", "auth::", "config::"]))?;
    if let Err(error) = setup::keychain() {
        return Ok(Outcome::NotRun(format!("{error:#}")));
    }
    let real = ["--test", "it", "--", "--ignored", "--nocapture", "keychain::"];
    run(cargo().arg("test").args(with).args(real))?;
    Ok(Outcome::Passed)
}

/// The bench in miniature, so that it cannot rot between the days it is read.
pub(super) fn bench_smoke() -> anyhow::Result<Outcome> {
    run(command(program("ibeam-bench")).args(["--smoke", "--ibeam"]).arg(binary()))?;
    Ok(Outcome::Passed)
}

/// A debug build on a machine with other work is late by itself, so its limit is wider than that of
/// `cargo xtask attack`.
pub(super) fn attack_short() -> anyhow::Result<Outcome> {
    let mut attack = command(program("ibeam-bench"));
    run(attack.args(["attack", "--short", "--gap", "1000", "--program"]).arg(binary()))?;
    Ok(Outcome::Passed)
}

/// The server that hosts a client's tools: MCP's own test of servers, and its official SDK.
pub(super) fn mcp_host() -> anyhow::Result<Outcome> {
    let folder = match setup::mcp_host() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let host = program("examples/mcp-host");
    run(node_script("host.test.mjs", folder).env("IBEAM_MCP_HOST", host))?;
    Ok(Outcome::Passed)
}

/// MCP servers that others wrote, as the user's: over pipes, HTTP and the older transport, by
/// command and inside a turn; and the protocol's own test of clients.
pub(super) fn mcp_servers() -> anyhow::Result<Outcome> {
    let folder = match setup::mcp() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    run(node_script("servers.test.mjs", folder).arg("conformance.test.mjs"))?;
    Ok(Outcome::Passed)
}

fn python_test(pattern: &str) -> anyhow::Result<Outcome> {
    let python = match setup::python() {
        Ok(python) => python,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    run(command(python)
        .args(["-B", "-m", "unittest", "discover", "--verbose", "--pattern", pattern])
        .arg("--start-directory")
        .arg(crate::root().join("interop/python"))
        .env("IBEAM_BIN", binary())
        .env("IBEAM_SCENARIO", scenario()))?;
    Ok(Outcome::Passed)
}

/// All tests in a folder of `interop/node`.
fn node_test(name: &str) -> anyhow::Result<Outcome> {
    let folder = match setup::node() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let mut scripts = Vec::new();
    for entry in fs::read_dir(crate::root().join("interop/node").join(name))? {
        let script = entry?.file_name().to_string_lossy().into_owned();
        if script.ends_with(".test.mjs") {
            scripts.push(format!("{name}/{script}"));
        }
    }
    scripts.sort();
    let (first, more) = scripts.split_first().context("no test in that folder")?;
    run(node_script(first, folder).args(more))?;
    Ok(Outcome::Passed)
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
