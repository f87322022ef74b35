//! Races a raw byte relay, ibeam, an earlier build of it and a public peer on one simulator,
//! with one client, in alternating rounds, and prints ratios with their spread. Then measures
//! what sessions save, and what they cost.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench talks to a person")]

mod against;
mod attack;
mod backends;
mod child;
mod dialects;
mod http;
mod http2_frames;
mod lane;
mod load;
mod measure;
mod metric;
mod page;
mod race;
mod raw;
mod recipe;
mod relay;
mod report;
mod rules;
mod sessions;
mod simulator;
mod stats;
mod upstream;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "ibeam-bench",
    about = "Race a raw relay, ibeam and a public peer on one simulator"
)]
struct BenchArgs {
    #[command(subcommand)]
    role: Option<RacerRole>,
    #[command(flatten)]
    options: BenchOptions,
}

/// What the racers' processes are started as.
#[derive(Subcommand)]
enum RacerRole {
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
    /// Attack a gateway over loopback, and show what that costs
    Attack(attack::AttackOptions),
}

#[derive(clap::Args)]
struct BenchOptions {
    /// The ibeam binary
    #[arg(long, value_name = "FILE")]
    ibeam: Option<PathBuf>,
    /// An earlier ibeam binary: it takes part in the race, and a table compares the two. Leaves
    /// out the sessions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "sessions"])]
    against: Option<PathBuf>,
    /// A folder with the public peer and its packages
    #[arg(long, value_name = "FOLDER")]
    peer: Option<PathBuf>,
    /// Rounds of the race that count, after one that does not; with the peer at most six
    #[arg(long, value_name = "N", value_parser = rounds)]
    rounds: Option<usize>,
    /// Put the tables into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// A few streams and events only: shows that the bench works, measures nothing
    #[arg(long)]
    smoke: bool,
    /// Only what sessions save and cost; without it, that and the race
    #[arg(long)]
    sessions: bool,
    /// Only the race
    #[arg(long, conflicts_with = "sessions")]
    no_sessions: bool,
    /// How many sessions are parked
    #[arg(long, value_name = "N")]
    parked: Option<usize>,
}

impl BenchOptions {
    fn ibeam(&self) -> anyhow::Result<PathBuf> {
        absolute(self.ibeam.as_deref().context("--ibeam is missing")?)
    }
}

fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds) if rounds > 0 => Ok(rounds),
        _ => Err("must be a number from 1".to_owned()),
    }
}

/// Racers run in folders of their own, so paths must not depend on ours.
fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(file).with_context(|| file.display().to_string())
}

fn main() -> ExitCode {
    let args = BenchArgs::parse();
    let done = match args.role {
        Some(RacerRole::Relay { port, simulator }) => block_on(relay::run(port, simulator)),
        Some(RacerRole::Simulator { port, size }) => block_on(simulator::run(port, size)),
        Some(RacerRole::Attack(options)) => block_on(attack::run(&options)),
        None => block_on(measure_all(&args.options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_all(options: &BenchOptions) -> anyhow::Result<()> {
    if !options.sessions {
        race::run(options).await?;
    }
    if options.no_sessions || options.against.is_some() {
        return Ok(());
    }
    sessions::measure(options).await
}

fn block_on(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
