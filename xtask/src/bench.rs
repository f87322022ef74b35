//! `cargo xtask bench`: builds the release binaries and hands over to the
//! `ibeam-bench` program, so that this crate stays quick to build.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::{
    args::TaskArgs,
    command::{cargo, command, run},
    test,
};

pub(crate) fn start(mut args: TaskArgs) -> anyhow::Result<()> {
    let write = args.flag("--write");
    let against: Option<PathBuf> = args.value("--against")?;
    let rounds: Option<usize> = args.value("--rounds")?;
    let sessions = args.flag("--sessions");
    let no_sessions = args.flag("--no-sessions");
    let parked: Option<usize> = args.value("--parked")?;
    let no_peer = args.flag("--no-peer");
    let rest = args.rest();
    args.finish()?;
    if against.is_some() && (write || sessions) {
        bail!("--against compares two programs: it goes with neither --write nor --sessions");
    }
    if sessions && no_sessions {
        bail!("--sessions and --no-sessions exclude each other");
    }
    let release = crate::target().join("release");
    let earlier = against.as_deref().map(|file| earlier(file, &release)).transpose()?;
    // One command, so that crates which both programs use are built once: they ask for the same
    // features of them.
    let both = ["--package", "ibeam", "--package", "ibeam-bench"];
    run(cargo().args(["build", "--release", "--locked"]).args(both))?;
    let mut bench = command(release.join("ibeam-bench"));
    bench.arg("--ibeam").arg(release.join("ibeam"));
    if sessions {
        bench.arg("--sessions");
    } else if let Some(earlier) = &earlier {
        bench.arg("--against").arg(earlier);
    } else if !no_peer {
        match test::peer_folder() {
            Ok(folder) => {
                bench.arg("--peer").arg(folder);
            }
            Err(error) => eprintln!("NOT RUN: the public peer: {error:#}"),
        }
    }
    bench.args(no_sessions.then_some("--no-sessions"));
    bench.args(rounds.map(|rounds| format!("--rounds={rounds}")));
    bench.args(parked.map(|parked| format!("--parked={parked}")));
    if write {
        bench.arg("--write").arg(crate::root().join("docs/performance.md"));
    }
    run(bench.args(rest))
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
