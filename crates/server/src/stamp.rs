//! Distinguishes states of a file with one system call.

use std::{path::Path, time::SystemTime};

/// A file that was replaced has another inode, even if both were written in the same
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
    mode: u32,
}

impl FileStamp {
    /// None: the file does not exist.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let (inode, mode) = {
            use std::os::unix::fs::MetadataExt as _;
            (meta.ino(), meta.mode())
        };
        #[cfg(not(unix))]
        let (inode, mode) = (0, 0);
        Some(Self { modified: meta.modified().ok(), len: meta.len(), inode, mode })
    }
}
