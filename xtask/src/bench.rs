//! `cargo xtask bench`: builds the release binaries and hands over to the
//! `ibeam-bench` program, so that this crate stays quick to build.

use crate::{
    args::Args,
    command::{cargo, command, run},
    test,
};

pub(crate) struct Options {
    /// Put the tables into docs/performance.md
    write: bool,
    /// Only what sessions save and cost
    sessions: bool,
    /// How many sessions are parked
    parked: Option<usize>,
    /// Leave out the public peer, which needs npm
    no_peer: bool,
    /// Handed to `ibeam-bench` as they are
    rest: Vec<String>,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> anyhow::Result<Self> {
        let options = Self {
            write: args.flag("--write"),
            sessions: args.flag("--sessions"),
            parked: args.value("--parked")?,
            no_peer: args.flag("--no-peer"),
            rest: args.rest(),
        };
        args.finish()?;
        Ok(options)
    }
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
