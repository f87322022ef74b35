//! Project tasks, run as `cargo xtask <task>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task runner talks to a person")]

mod codegen;

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
}

fn main() -> anyhow::Result<()> {
    match Args::parse().task {
        Task::Codegen { check } => codegen::run(check),
    }
}

/// The workspace root: tasks may be started from any folder below it.
pub(crate) fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
