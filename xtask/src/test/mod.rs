//! `cargo xtask test`: every check of the project, in one run, with a table of
//! what passed, what failed and what could not be run.

mod clients;
mod docs;
mod external;
mod packages;
mod rust;
mod secrets;
mod setup;
mod sizes;

use std::time::Duration;

use anyhow::bail;
pub(crate) use secrets::copy;

use crate::args::Args;

pub(crate) struct Options {
    /// Only what needs nothing but Rust
    fast: bool,
    /// Only the step of this name, else those whose name contains it (may be given again)
    only: Vec<String>,
    /// Print the names of the steps and stop
    list: bool,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> anyhow::Result<Self> {
        let options = Self {
            fast: args.flag("--fast"),
            only: args.values("--only")?,
            list: args.flag("--list"),
        };
        args.finish()?;
        Ok(options)
    }
}

/// What a step may report besides failing.
pub(crate) enum Outcome {
    Passed,
    /// Could not be run here; the text says what is missing.
    NotRun(String),
}

/// One line of the table.
struct Step {
    name: &'static str,
    kind: Kind,
    run: fn(&Options) -> anyhow::Result<Outcome>,
}

impl Step {
    /// A whole name means that step alone; a part means all that have it.
    fn is_called(&self, name: &str) -> bool {
        let whole = STEPS.iter().any(|step| step.name == name);
        if whole { self.name == name } else { self.name.contains(name) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rust,
    External,
    /// Only by its name: it would build much a second time.
    Named,
}

enum Verdict {
    Passed,
    Failed(String),
    NotRun(String),
}

const STEPS: [Step; 45] = [
    Step { name: "fmt", kind: Kind::Rust, run: |_| rust::fmt() },
    Step { name: "codegen", kind: Kind::Rust, run: |_| rust::codegen() },
    Step { name: "codegen-full", kind: Kind::Named, run: |_| rust::codegen_full() },
    Step { name: "sizes", kind: Kind::Rust, run: |_| sizes::check() },
    Step { name: "translations", kind: Kind::Rust, run: |_| docs::translations() },
    Step { name: "lockfiles", kind: Kind::Rust, run: |_| rust::lockfiles() },
    Step { name: "clippy", kind: Kind::Rust, run: |options| rust::clippy(options.fast) },
    Step { name: "build", kind: Kind::Rust, run: |_| rust::build() },
    Step { name: "tests", kind: Kind::Rust, run: |_| rust::tests() },
    Step { name: "secrets", kind: Kind::Rust, run: |_| secrets::check() },
    Step { name: "doc-tests", kind: Kind::Rust, run: |_| rust::doc_tests() },
    Step { name: "deny", kind: Kind::Rust, run: |_| rust::deny() },
    Step { name: "random-requests", kind: Kind::External, run: |_| rust::random_requests() },
    Step { name: "strace", kind: Kind::External, run: |_| external::strace() },
    Step { name: "children-500", kind: Kind::External, run: |_| external::children_500() },
    Step { name: "login", kind: Kind::External, run: |_| external::login() },
    Step { name: "keychain", kind: Kind::Named, run: |_| external::keychain() },
    Step { name: "claude-code", kind: Kind::External, run: |_| clients::claude_code() },
    Step { name: "codex", kind: Kind::External, run: |_| clients::codex() },
    Step { name: "opencode", kind: Kind::External, run: |_| clients::opencode() },
    Step { name: "opencode-plugin", kind: Kind::External, run: |_| clients::opencode_plugin() },
    Step { name: "pi", kind: Kind::External, run: |_| clients::pi() },
    Step { name: "continue", kind: Kind::External, run: |_| clients::continue_dev() },
    Step { name: "aider", kind: Kind::External, run: |_| clients::aider() },
    Step { name: "llm", kind: Kind::External, run: |_| clients::llm() },
    Step { name: "packages", kind: Kind::External, run: |_| packages::packages() },
    Step { name: "first-token", kind: Kind::External, run: |_| packages::first_token() },
    Step { name: "setup-clients", kind: Kind::External, run: |_| clients::set_up() },
    Step { name: "docs-clients", kind: Kind::External, run: |_| docs::clients() },
    Step { name: "python-openai", kind: Kind::External, run: |_| external::python_openai() },
    Step { name: "python-anthropic", kind: Kind::External, run: |_| external::python_anthropic() },
    Step { name: "python-langchain", kind: Kind::External, run: |_| external::python_langchain() },
    Step { name: "schemathesis", kind: Kind::External, run: |_| external::schemathesis() },
    Step { name: "node-openai", kind: Kind::External, run: |_| external::node_openai() },
    Step { name: "node-anthropic", kind: Kind::External, run: |_| external::node_anthropic() },
    Step { name: "node-ai", kind: Kind::External, run: |_| external::node_ai() },
    Step { name: "opencode-cursor-oauth", kind: Kind::External, run: |_| external::peer() },
    Step { name: "connect-node", kind: Kind::External, run: |_| external::connect_node() },
    Step { name: "oracle-build", kind: Kind::External, run: |_| external::oracle_build() },
    Step { name: "connectrpc", kind: Kind::External, run: |_| external::connectrpc() },
    Step { name: "async-openai", kind: Kind::External, run: |_| external::async_openai() },
    Step { name: "acp-schema", kind: Kind::External, run: |_| external::acp_schema() },
    Step { name: "mcp-host", kind: Kind::External, run: |_| external::mcp_host() },
    Step { name: "mcp-servers", kind: Kind::External, run: |_| external::mcp_servers() },
    Step { name: "bench-smoke", kind: Kind::External, run: |_| external::bench_smoke() },
];

/// The folder with the OpenCode plugin and what builds it.
pub(crate) fn plugin_folder() -> anyhow::Result<std::path::PathBuf> {
    setup::plugin()
}

/// The Node folder with the public peer installed, for the bench.
pub(crate) fn peer_folder() -> anyhow::Result<std::path::PathBuf> {
    setup::node()
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let chosen: Vec<&Step> = STEPS
        .iter()
        .filter(|step| !options.fast || step.kind == Kind::Rust)
        .filter(|step| step.kind != Kind::Named || !options.only.is_empty() || options.list)
        .filter(|step| {
            options.only.is_empty() || options.only.iter().any(|name| step.is_called(name))
        })
        .collect();
    if options.list {
        for step in chosen {
            println!("{}", step.name);
        }
        return Ok(());
    }
    if chosen.is_empty() {
        bail!("no step has such a name; `cargo xtask test --list` prints them");
    }

    if options.only.is_empty() && !options.fast {
        setup::ahead();
    }
    let mut rows = Vec::new();
    for step in chosen {
        println!("\n=== {} ===", step.name);
        let started = now();
        let verdict = match (step.run)(options) {
            Ok(Outcome::Passed) => Verdict::Passed,
            Ok(Outcome::NotRun(why)) => Verdict::NotRun(why),
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        let took = started.elapsed();
        println!("--- {}: {} in {}", step.name, word(&verdict), seconds(took));
        rows.push((step.name, verdict, took));
    }
    summary(&rows, in_ci())
}

/// Under CI everything must have been run.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| matches!(value.as_str(), "1" | "true" | "TRUE" | "True"))
}

fn summary(rows: &[(&str, Verdict, Duration)], ci: bool) -> anyhow::Result<()> {
    let mut failed = 0;
    let mut not_run = 0;
    println!("\n{:<24}{:<10}{:>9}", "step", "result", "time");
    for (name, verdict, took) in rows {
        println!("{name:<24}{:<10}{:>9}", word(verdict), seconds(*took));
        match verdict {
            Verdict::Passed => {}
            Verdict::Failed(_) => failed += 1,
            Verdict::NotRun(_) => not_run += 1,
        }
    }
    let total: Duration = rows.iter().map(|row| row.2).sum();
    println!("{:<34}{:>9}", "total", seconds(total));
    for (name, verdict, _) in rows {
        match verdict {
            Verdict::Passed => {}
            Verdict::Failed(why) => eprintln!("\nFAILED   {name}: {why}"),
            Verdict::NotRun(why) => eprintln!("\nNOT RUN  {name}: {why}"),
        }
    }
    let passed = rows.len() - failed - not_run;
    println!("\n{passed} passed, {failed} failed, {not_run} skipped");
    if failed > 0 {
        bail!("{failed} of {} steps failed", rows.len());
    }
    if not_run > 0 && ci {
        bail!("{not_run} of {} steps could not be run, and CI asks for all", rows.len());
    }
    if not_run > 0 {
        println!("all that could run passed; {not_run} of {} steps DID NOT RUN", rows.len());
    } else {
        println!("all {} steps passed", rows.len());
    }
    Ok(())
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "ok",
        Verdict::Failed(_) => "FAILED",
        Verdict::NotRun(_) => "NOT RUN",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task runner times its steps; nothing here is paused"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
