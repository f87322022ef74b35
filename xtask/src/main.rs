//! Project tasks, run as `cargo xtask <task>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task runner talks to a person")]

mod args;
mod attack;
mod bench;
mod budget;
mod codegen;
mod command;
mod cpu;
mod deny;
mod gateway;
mod lexer;
mod metadata;
mod modules;
mod order;
mod plugin;
mod release;
mod runs;
mod scratch;
mod test;
mod translations;
#[cfg(test)]
mod workflows_tests;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, bail};

pub(crate) use self::workspace::{files_below, now, read, root, sha256, target};
use self::{args::TaskArgs, release::ReleaseOptions, test::TestOptions};

const HELP: &str = "\
Tasks of the ibeam project

Usage: cargo xtask TASK [OPTIONS]

  test           Run every check and test, installing under `target` what they need
    --fast         only what needs nothing but Rust, and tests only what a change concerns
    --fast --all   everything that needs nothing but Rust
    --only NAME    only the step of this name, else those whose name contains it
    --list         print the names of the steps
    --lanes N      how many steps run at a time [default: one more than there are cores]
  codegen        Regenerate crates/proto/src/generated from the .proto files
    --check        write nothing; fail if the committed code is stale
  plugin         Build the OpenCode plugin, and the file of it that is in the binary
  translations   Compare the translated pages with the English ones
    --accept       the translations are up to date: write the new hashes
  bench          Race a raw relay, ibeam and a public peer on one simulator, and measure sessions
    --write        put the tables into docs/performance.md
    --against FILE compare with an earlier ibeam binary, in the same rounds
    --rounds N     rounds that count [default: 12]; fewer than 8 give no verdicts
    --sessions     only what sessions save and cost
    --no-sessions  only the race
    --parked N     how many sessions are parked
    --no-peer      leave out the public peer, which needs npm
    -- ...         passed on to `ibeam-bench`
  attack         Attack the release binary over loopback beside an honest stream, and show what
                 each attack costs; fails if one costs too much
    --short        smaller attacks of a few seconds each
    --program FILE attack this binary
    --minutes N    all attacks in turn on one gateway, beside twenty clients with tool calls
    --only NAME    only attacks whose name contains this
  budget         Measure builds, tests, binary, memory and crates against docs/budget.toml
    --quick        only what an existing release binary shows: size, memory, crates
    --write        record the present values as the earlier ones
  order          Put the functions that run at the start next to each other in the program; after
                 the compiler or dependencies changed, when idle memory grows. Needs valgrind
  release        Make everything that a release has, and publish nothing
    --help         its options, with examples
";

fn main() -> ExitCode {
    let done = if budget::is_timed() {
        budget::timed()
    } else {
        task(TaskArgs::new(std::env::args().skip(1))).map(|()| ExitCode::SUCCESS)
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Not by `Debug`: a backtrace of the task runner does not help.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(mut args: TaskArgs) -> anyhow::Result<()> {
    let task = args.word();
    if args.flag("--help") || args.flag("-h") || task.as_deref() == Some("help") {
        print!("{}", if task.as_deref() == Some("release") { release::HELP } else { HELP });
        return Ok(());
    }
    match task.as_deref() {
        Some("codegen") => {
            let check = args.flag("--check");
            args.finish()?;
            codegen::generate(check)
        }
        Some("plugin") => {
            args.finish()?;
            test::plugin_folder()?;
            plugin::write()
        }
        Some("test") => test::run(TestOptions::parse(args)?),
        // Parts of `test`, which it runs as processes of their own.
        Some("step") => test::step(args),
        Some("install") => {
            args.finish()?;
            test::install();
            Ok(())
        }
        // A part of the step `secrets`: copies stdin to a file and to stdout.
        Some("copy") => {
            let file = args.word().context("copy needs a file")?;
            args.finish()?;
            test::copy(file.as_ref())
        }
        Some("translations") => {
            let accept = args.flag("--accept");
            args.finish()?;
            translations::compare_all(accept)
        }
        Some("attack") => attack::start(args),
        Some("bench") => bench::start(args),
        Some("budget") => budget::start(args),
        Some("order") => {
            args.finish()?;
            order::write()
        }
        Some("release") => release::start(&ReleaseOptions::parse(args)?),
        Some(other) => bail!("there is no task {other:?}; `cargo xtask --help` lists them"),
        None => bail!("which task? `cargo xtask --help` lists them"),
    }
}
