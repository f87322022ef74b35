//! How many files the system lets us have open. Every connection is one.

use super::crowd::LEAVING;

/// Kept for the store, the log, and connections that take the place of others.
const SPARE: usize = 64 + LEAVING;

/// How many of `wanted` client connections there can be beside `upstream` ones to the
/// backend. Asks the system for as much as it gives.
pub(super) fn connections(wanted: usize, upstream: usize) -> usize {
    let needed = wanted.saturating_add(upstream).saturating_add(SPARE);
    let allowed = allowed(needed);
    if allowed >= needed {
        return wanted;
    }
    // A crowd of clients must not keep us from reaching the backend.
    let fit = allowed.saturating_sub(upstream.min(allowed / 4)).saturating_sub(SPARE);
    let fit = fit.clamp(1, wanted);
    tracing::warn!(
        "the system allows {allowed} open files, so at most {fit} client connections are taken; \
         raise it with `ulimit -n {needed}`"
    );
    fit
}

#[cfg(unix)]
fn allowed(needed: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let is = |limit: Option<u64>| {
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    };
    if is(now.current) >= needed {
        return is(now.current);
    }
    let most = is(now.maximum).min(needed) as u64;
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: now.maximum }) {
        Ok(()) => is(Some(most)),
        Err(_) => is(now.current),
    }
}

#[cfg(not(unix))]
fn allowed(_: usize) -> usize {
    usize::MAX
}
