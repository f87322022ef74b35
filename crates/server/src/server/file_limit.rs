//! How many files the system lets us have open. Every connection is one.

use ibeam_core::backend::{BackendKind, Needs};

use super::connections::LEAVING;
use crate::{config::Config, mcp::host::callers};

/// Kept for the store, the log, and connections that take the place of others.
const SPARE: usize = 64 + LEAVING;

/// Files that one child takes: its three streams, and what starting one needs for a moment.
const PER_CHILD: usize = 8;

/// Files that are kept for Cursor's CLI where it answers: the processes, and their connections to
/// hosted tools.
pub(super) fn of_children(config: &Config) -> usize {
    let children = config.cursor_agent.children;
    match config.named_backend.map(BackendKind::needs) {
        Some(Needs::Account) => 0,
        None | Some(Needs::CursorAgent) => {
            children.saturating_mul(PER_CHILD).saturating_add(callers::limit(children))
        }
    }
}

/// How many of `wanted` client connections there can be beside `upstream` other ones, to the
/// backend and to hosted tools. Asks the system for as much as it gives.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosted_tools_are_in_the_budget_where_the_cli_may_answer() {
        let mut config = Config::default();
        config.cursor_agent.children = 8;
        for (needs, files) in [(Needs::Account, 0), (Needs::CursorAgent, 64 + 256)] {
            config.named_backend = Some(needs.default_backend());
            assert_eq!(of_children(&config), files, "{needs:?}");
        }
        config.named_backend = None;
        assert_eq!(of_children(&config), 64 + 256);
    }
}
