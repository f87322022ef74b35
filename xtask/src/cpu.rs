//! CPU seconds, where the system reports them.

use std::fs;

/// Of this process and of all processes that it has waited for.
pub(crate) fn of_all() -> Option<f64> {
    Some(times()?.iter().sum())
}

/// Of the processes that it has waited for.
pub(crate) fn of_children() -> Option<f64> {
    let [_, _, user, system] = times()?;
    Some(user + system)
}

/// User and system time of this process, then of its children.
fn times() -> Option<[f64; 4]> {
    // Linux counts in hundredths on every architecture.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything; the times are the fields 14 to 17.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / TICKS);
    Some([next()?, next()?, next()?, next()?])
}
