//! A look at the machine: its processes, and what they hold open.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A process, and what it was started as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: u32,
    pub(super) line: String,
}

/// All that children of a gateway with this home started, even in sessions of their own.
pub(super) fn marked(home: &Path) -> Vec<Process> {
    let home = format!("HOME={}", home.display());
    let is_ours = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let has = |is: &dyn Fn(&[u8]) -> bool| environment.split(|byte| *byte == 0).any(is);
        has(&|entry| entry.starts_with(b"IBEAM_RUN=")) && has(&|entry| entry == home.as_bytes())
    };
    processes().into_iter().filter(is_ours).map(Process::of).collect()
}

/// The children of a process, including zombies.
pub(super) fn children(of: u32) -> Vec<Process> {
    let parent = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name before the fields may have spaces in it. The parent is the fourth.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.nth(1).and_then(|parent| parent.parse().ok())
    };
    processes().into_iter().filter(|id| parent(id) == Some(of)).map(Process::of).collect()
}

/// How many descriptors of each kind a process has open.
pub(super) fn descriptors(of: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for path in entries(Path::new(&format!("/proc/{of}/fd"))) {
        let target = fs::read_link(path).unwrap_or_default();
        let target = target.to_string_lossy();
        let kind = target.split_once(":[").map_or(&*target, |(kind, _)| kind);
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// Memory in MiB by this name of the kernel's.
pub(super) fn memory(of: u32, name: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{of}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

/// Nothing, where there is no such folder.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn processes() -> Vec<u32> {
    let name = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    entries(Path::new("/proc")).into_iter().filter_map(name).collect()
}

impl Process {
    fn of(id: u32) -> Self {
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        Self { id, line: line.replace('\0', " ") }
    }
}
