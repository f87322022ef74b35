//! Project tasks, run as `cargo xtask <task>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task runner talks to a person")]

mod bench;
mod codegen;
mod command;
mod plugin;
mod release;
mod test;
mod translations;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the ibeam project")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Regenerate crates/proto/src/generated from the .proto files
    Codegen {
        /// Write nothing; fail when the committed code is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Build the OpenCode plugin, and the file of it that is in the binary
    Plugin,
    /// Run every check and test, installing under `target` what they need
    Test(test::Options),
    /// Copy stdin to a file and to stdout: a part of the step `secrets`
    #[command(hide = true)]
    Copy { file: std::path::PathBuf },
    /// Hold the translated pages against the English ones
    Translations(translations::Options),
    /// Race a raw relay, ibeam and a public peer on one simulator, and measure sessions
    Bench(bench::Options),
    /// Make everything that a release has, and publish nothing
    Release(release::Options),
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Codegen { check } => codegen::generate(check),
        Task::Plugin => plugin::write(),
        Task::Test(options) => test::run(&options),
        Task::Copy { file } => test::copy(&file),
        Task::Translations(options) => translations::run(&options),
        Task::Bench(options) => bench::start(&options),
        Task::Release(options) => release::start(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not by `Debug`: a backtrace of the task runner helps nobody.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace root: tasks may be started from any folder below it.
pub(crate) fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder; everything a task installs goes below it.
pub(crate) fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}
