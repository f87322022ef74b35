//! Which version of Cursor's CLI ibeam says it is.

use std::path::Path;

/// What we call ourselves when no CLI is installed: a build that was seen to work
/// with this profile in August 2026.
pub const DEFAULT_CLIENT_VERSION: &str = "cli-2026.08.11-e8db854";

/// Where the CLI keeps its builds, below the home directory.
pub const CLI_VERSIONS: &str = ".local/share/cursor-agent/versions";

/// The newest CLI build under `home`, as a client version. Builds are named by date
/// and commit, so the greatest name is the newest.
#[must_use]
pub fn installed_cli_version(home: &Path) -> Option<String> {
    let entries = std::fs::read_dir(home.join(CLI_VERSIONS)).ok()?;
    let newest = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_build(name))
        .max()?;
    Some(format!("cli-{newest}"))
}

/// `2026.08.11-e8db854`, perhaps with more after a further dash.
fn is_build(name: &str) -> bool {
    let Some((date, rest)) = name.split_once('-') else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let lengths: Vec<usize> = date.split('.').map(str::len).collect();
    let commit = rest.split('-').next().unwrap_or_default();
    lengths == [4, 2, 2]
        && date.split('.').all(digits)
        && commit.len() >= 7
        && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
#[path = "client_version_tests.rs"]
mod tests;
