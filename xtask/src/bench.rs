//! `cargo xtask bench`: builds the release binaries and hands over to the
//! `ibeam-bench` program, so that this crate stays quick to build.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::{
    args::Args,
    command::{cargo, command, run},
    test,
};

pub(crate) struct Options {
    /// Put the tables into docs/performance.md
    write: bool,
    /// Compare with an earlier ibeam binary, raced in the same rounds. Leaves out the sessions and
    /// the public peer
    against: Option<PathBuf>,
    /// Rounds of the race that count (default 12); fewer than 8 give no verdicts
    rounds: Option<usize>,
    /// Only what sessions save and cost
    sessions: bool,
    /// Only the race
    no_sessions: bool,
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
            against: args.value("--against")?,
            rounds: args.value("--rounds")?,
            sessions: args.flag("--sessions"),
            no_sessions: args.flag("--no-sessions"),
            parked: args.value("--parked")?,
            no_peer: args.flag("--no-peer"),
            rest: args.rest(),
        };
        args.finish()?;
        if options.against.is_some() && (options.write || options.sessions) {
            bail!("--against compares two programs: it goes with neither --write nor --sessions");
        }
        if options.sessions && options.no_sessions {
            bail!("--sessions and --no-sessions exclude each other");
        }
        Ok(options)
    }
}

pub(crate) fn start(options: &Options) -> anyhow::Result<()> {
    let release = crate::target().join("release");
    let earlier = options.against.as_deref().map(|file| earlier(file, &release)).transpose()?;
    // One command, so that crates which both programs use are built once: they ask for the same
    // features of them.
    run(cargo().args([
        "build",
        "--release",
        "--locked",
        "--package",
        "ibeam",
        "--package",
        "ibeam-bench",
    ]))?;
    let mut bench = command(release.join("ibeam-bench"));
    bench.arg("--ibeam").arg(release.join("ibeam"));
    if options.sessions {
        bench.arg("--sessions");
    } else if let Some(earlier) = &earlier {
        bench.arg("--against").arg(earlier);
    } else if !options.no_peer {
        match test::peer_folder() {
            Ok(folder) => {
                bench.arg("--peer").arg(folder);
            }
            Err(error) => eprintln!("NOT RUN: the public peer: {error:#}"),
        }
    }
    if options.no_sessions {
        bench.arg("--no-sessions");
    }
    if let Some(rounds) = options.rounds {
        bench.arg(format!("--rounds={rounds}"));
    }
    if let Some(parked) = options.parked {
        bench.arg(format!("--parked={parked}"));
    }
    if options.write {
        bench.arg("--write").arg(crate::root().join("docs/performance.md"));
    }
    run(bench.args(&options.rest))
}

/// The earlier binary, by a path that holds in any folder. Looked at before the build, which would
/// replace it if it were the one to be built.
fn earlier(file: &Path, release: &Path) -> anyhow::Result<PathBuf> {
    let file = fs::canonicalize(file).with_context(|| file.display().to_string())?;
    if fs::canonicalize(release.join("ibeam")).is_ok_and(|built| built == file) {
        bail!("{} is about to be rebuilt: copy the earlier binary elsewhere", file.display());
    }
    Ok(file)
}
