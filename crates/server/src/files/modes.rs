//! Whether other users of this machine can access a file.

use std::path::Path;

/// Whether users besides the owner may read or write the file.
pub(crate) fn others_may_use(path: &Path) -> bool {
    has_modes(path, 0o077)
}

/// The same for a file that a group of services may share.
pub(crate) fn strangers_may_use(path: &Path) -> bool {
    has_modes(path, 0o027)
}

#[cfg(unix)]
fn has_modes(path: &Path, any: u32) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & any != 0)
}

#[cfg(not(unix))]
fn has_modes(_: &Path, _: u32) -> bool {
    false
}
