//! Room on the disk, and whether we may use it.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::doctor::findings::{FolderFindings, Unwritten};
use ibeam_server::{
    auth::LocalUser,
    config::{self, Config},
};

/// More than a file system has left over in one that is full.
const PROBE: usize = 64 << 10;

pub(super) fn look(config: &Config, here: Option<&LocalUser>) -> Vec<FolderFindings> {
    let parent = |path: Option<&Path>| path.and_then(Path::parent).map(Path::to_path_buf);
    let own = [
        here.map(|here| here.config_dir().to_path_buf()),
        parent(config.access.keys_file.as_deref()),
        config::state_dir(),
        parent(config.store.file()),
        config::cache_dir(),
    ];
    let there: BTreeSet<PathBuf> =
        own.into_iter().flatten().filter_map(|folder| nearest(&folder)).collect();
    there
        .into_iter()
        .map(|path| FolderFindings { free: free(&path), written: write(&path), path })
        .collect()
}

/// The folder, or the one in which it would be made.
fn nearest(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.is_dir()).map(Path::to_path_buf)
}

/// Writes a file that has no name, where the system knows such, and is gone afterwards.
fn write(folder: &Path) -> Result<(), Unwritten> {
    let probe = || -> io::Result<()> {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(&vec![0; PROBE])?;
        file.sync_all()
    };
    probe().map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Unwritten::Full(error.to_string())
        }
        _ => Unwritten::Refused(error.to_string()),
    })
}

#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    // Some file systems have no size.
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
