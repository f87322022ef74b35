//! Races a raw byte relay, ibeam and a public peer on one simulator, with one
//! client, and prints every number as a ratio to the relay's. Then measures what
//! sessions save, and what they cost.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench talks to a person")]

mod backends;
mod child;
mod dialects;
mod http;
mod load;
mod measure;
mod page;
mod raw;
mod recipe;
mod relay;
mod report;
mod rules;
mod sessions;
mod simulator;
mod upstream;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "ibeam-bench",
    about = "Race a raw relay, ibeam and a public peer on one simulator"
)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    race: Race,
}

/// What the racers' processes are started as.
#[derive(Subcommand)]
enum Role {
    /// The raw byte relay
    #[command(hide = true)]
    Relay {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        simulator: std::net::SocketAddr,
    },
    /// The simulator
    #[command(hide = true)]
    Simulator {
        #[arg(long)]
        port: u16,
        #[command(flatten)]
        size: rules::Size,
    },
}

#[derive(clap::Args)]
struct Race {
    /// The ibeam binary
    #[arg(long, value_name = "FILE")]
    ibeam: Option<PathBuf>,
    /// A folder with the public peer and its packages
    #[arg(long, value_name = "FOLDER")]
    peer: Option<PathBuf>,
    /// Put the table into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// A few streams and events only: shows that the bench works, measures nothing
    #[arg(long)]
    smoke: bool,
    /// Only what sessions save and cost; without it, that and the race
    #[arg(long)]
    sessions: bool,
    /// How many sessions are parked
    #[arg(long, value_name = "N")]
    parked: Option<usize>,
}

impl Race {
    /// Racers run in folders of their own, so paths must not depend on ours.
    fn ibeam(&self) -> anyhow::Result<PathBuf> {
        let ibeam = self.ibeam.as_deref().context("--ibeam is missing")?;
        fs::canonicalize(ibeam).with_context(|| ibeam.display().to_string())
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.role {
        Some(Role::Relay { port, simulator }) => block_on(relay::run(port, simulator)),
        Some(Role::Simulator { port, size }) => block_on(simulator::run(port, size)),
        None => block_on(measure_all(&args.race)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_all(race: &Race) -> anyhow::Result<()> {
    if !race.sessions {
        report::race(race).await?;
    }
    sessions::measure(race).await
}

fn block_on(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
