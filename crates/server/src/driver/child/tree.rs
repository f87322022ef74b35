//! Ends a child with everything it started. Most of that is in its process group. Processes that
//! left the group still have the child's mark in their environment, and are found by it where the
//! system shows environments.

/// Ends all processes with this mark.
#[cfg(target_os = "linux")]
pub(super) fn end_marked(mark: &str) {
    linux::end(|value| value == mark.as_bytes());
}

/// Ends what dead programs left behind: all processes with one of these marks.
#[cfg(target_os = "linux")]
pub(super) fn end_named(names: &[String]) {
    linux::end(|value| {
        let name = value.split(|byte| *byte == b'.').next().unwrap_or_default();
        names.iter().any(|known| known.as_bytes() == name)
    });
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end_marked(_: &str) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn end_named(_: &[String]) {}

/// Sends a signal to the group that this process leads. It may no longer exist.
#[cfg(unix)]
pub(super) fn signal_group(leader: u32, signal: Signal) {
    use rustix::process::{Pid, kill_process_group};
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    if let Some(leader) = leader {
        let _ = kill_process_group(leader, signal.into());
    }
}

#[cfg(not(unix))]
pub(super) fn signal_group(_: u32, _: Signal) {}

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It may clean up first.
    Ask,
    Kill,
}

#[cfg(unix)]
impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Ask => Self::TERM,
            Signal::Kill => Self::KILL,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, io::Read as _};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::super::environment::MARK;

    /// Processes may start others during a search, so the search is repeated.
    const LOOKS: usize = 4;
    /// How much of an environment is read. The mark is near its beginning.
    const ENVIRONMENT: u64 = 4 << 20;

    pub(super) fn end(is_ours: impl Fn(&[u8]) -> bool) {
        for _ in 0..LOOKS {
            if look(&is_ours) == 0 {
                return;
            }
        }
    }

    fn look(is_ours: &impl Fn(&[u8]) -> bool) -> usize {
        let Ok(entries) = fs::read_dir("/proc") else { return 0 };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| end_one(*pid, is_ours)).count()
    }

    fn end_one(pid: i32, is_ours: &impl Fn(&[u8]) -> bool) -> bool {
        let Some(id) = Pid::from_raw(pid) else { return false };
        // Opened before the check: the number may be reused for another process afterwards, the
        // handle is not.
        let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return false };
        mark_of(pid).is_some_and(|mark| is_ours(&mark))
            && pidfd_send_signal(process, Signal::KILL).is_ok()
    }

    /// `None`: it has no mark, or belongs to another user. A dead process has no environment.
    fn mark_of(pid: i32) -> Option<Vec<u8>> {
        let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
        let mut all = Vec::new();
        file.take(ENVIRONMENT).read_to_end(&mut all).ok()?;
        let value = |entry: &[u8]| {
            entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        all.split(|byte| *byte == 0).find_map(value)
    }
}
