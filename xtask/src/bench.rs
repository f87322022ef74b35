//! `cargo xtask bench`: builds the release binaries and hands over to the
//! `ibeam-bench` program, so that this crate stays quick to build.

use clap::Args;

use crate::{
    command::{cargo, command, run},
    test,
};

#[derive(Args)]
pub(crate) struct Options {
    /// Put the tables into docs/performance.md
    #[arg(long)]
    write: bool,
    /// Only what sessions save and cost
    #[arg(long)]
    sessions: bool,
    /// How many sessions are parked
    #[arg(long, value_name = "N")]
    parked: Option<usize>,
    /// Leave out the public peer, which needs npm
    #[arg(long)]
    no_peer: bool,
    /// Handed to `ibeam-bench` as they are
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn start(options: &Options) -> anyhow::Result<()> {
    run(cargo().args([
        "build",
        "--release",
        "--locked",
        "--package",
        "ibeam",
        "--package",
        "ibeam-bench",
    ]))?;
    let release = crate::target().join("release");
    let mut bench = command(release.join("ibeam-bench"));
    bench.arg("--ibeam").arg(release.join("ibeam"));
    if options.sessions {
        bench.arg("--sessions");
    } else if !options.no_peer {
        match test::peer_folder() {
            Ok(folder) => {
                bench.arg("--peer").arg(folder);
            }
            Err(error) => eprintln!("NOT RUN: the public peer: {error:#}"),
        }
    }
    if let Some(parked) = options.parked {
        bench.arg(format!("--parked={parked}"));
    }
    if options.write {
        bench.arg("--write").arg(crate::root().join("docs/performance.md"));
    }
    run(bench.args(&options.rest))
}
