//! Where the workspace is, and what time it is.

/// The workspace root: tasks may be started from any folder below it.
pub(crate) fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder; everything a task installs goes below it.
pub(crate) fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task runner times its steps; nothing here is paused"
)]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}
