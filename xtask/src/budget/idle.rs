//! The memory of a gateway that has nothing to do.

use std::{path::Path, time::Duration};

use anyhow::Context as _;

use crate::{command::command, gateway::MeasuredGateway};

/// In megabytes.
pub(super) struct IdleMemory {
    pub(super) all: f64,
    /// Not backed by a file.
    pub(super) own: f64,
    pub(super) files: f64,
}

/// How much of the program the kernel maps around what is touched depends on how the file is cached,
/// so the least of a few starts counts.
const STARTS: usize = 3;

/// None on systems that do not report it.
pub(super) fn memory(program: &Path) -> anyhow::Result<Option<IdleMemory>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let starts: anyhow::Result<Vec<_>> = (0..STARTS).map(|_| one_start(program)).collect();
    Ok(starts?.into_iter().min_by(|one, other| one.all.total_cmp(&other.all)))
}

fn one_start(program: &Path) -> anyhow::Result<IdleMemory> {
    let gateway = MeasuredGateway::start(&mut command(program), Duration::from_secs(10))?;
    let status = crate::read(format!("/proc/{}/status", gateway.id()).as_ref())?;
    let of = |name: &str| field(&status, name).with_context(|| format!("the kernel has no {name}"));
    Ok(IdleMemory { all: of("VmRSS:")?, own: of("RssAnon:")?, files: of("RssFile:")? })
}

/// A line such as `VmRSS:    20060 kB`, in megabytes.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
