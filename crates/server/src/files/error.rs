//! Why a file was not read, written or locked.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Why a file was not read, written or locked. Its content is as before.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The text ends in the command that fixes it.
    #[error(
        "other users can {what} {} (mode {mode:03o}), which must be private; run `{command}`",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32, what: &'static str, command: String },
    #[error("{} is a symbolic link, which ibeam does not follow", path.display())]
    Link { path: PathBuf },
    #[error("{} belongs to another user", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("{} is not valid: {what}", path.display())]
    Invalid { path: PathBuf, what: &'static str },
    #[error("no space is left to write {}; the previous content is kept", path.display())]
    Full { path: PathBuf, source: io::Error },
    #[error(
        "another process has held a lock on {} for {} s; try again when it has finished",
        path.display(),
        waited.as_secs()
    )]
    Locked { path: PathBuf, waited: Duration },
    #[error("cannot {what} {}: {error}", path.display())]
    Io { what: &'static str, path: PathBuf, error: io::Error },
}

impl FileError {
    /// Whether the next attempt may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Full { .. } | Self::Locked { .. } => true,
            Self::Exposed { .. }
            | Self::Link { .. }
            | Self::Foreign { .. }
            | Self::NotRegular { .. }
            | Self::Invalid { .. } => false,
        }
    }

    /// For `map_err`: what was being done, and to what.
    pub fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |error| {
            let path = path.to_path_buf();
            match error.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Self::Full { path, source: error },
                _ => Self::Io { what, path, error },
            }
        }
    }
}
