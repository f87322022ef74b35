//! How long the last runs of all steps took.

use std::{fs, io, path::PathBuf, time::Duration};

/// Notes a run, with nothing built before it or with everything.
pub(crate) fn record(cold: bool, total: Duration) -> io::Result<()> {
    fs::write(file(cold), total.as_secs_f64().to_string())
}

/// The seconds of the last one.
pub(crate) fn last(cold: bool) -> Option<f64> {
    fs::read_to_string(file(cold)).ok()?.parse().ok()
}

fn file(cold: bool) -> PathBuf {
    crate::target().join(if cold { "xtask/cold-run" } else { "xtask/warm-run" })
}
