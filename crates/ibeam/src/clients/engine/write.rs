//! Files of the user: replaced as a whole or not at all, through links, with their mode
//! and owner.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::SetupError;
use ibeam_server::files::{self, Access};

/// As many links as Linux follows.
const LINKS: usize = 40;

/// A change of one file that has not happened yet.
#[derive(Debug)]
pub(super) enum StagedEdit {
    Write(files::Staged),
    Delete(PathBuf),
}

impl StagedEdit {
    /// `mode` is that of the file before the first setup; a private one loses what others
    /// may do. Without a text the file is to be deleted.
    pub(super) fn new(
        path: &Path,
        text: Option<&str>,
        mode: Option<u32>,
        private: bool,
    ) -> Result<Self, SetupError> {
        let failed = || SetupError::io("write", path);
        let target = target(path).map_err(failed())?;
        let Some(text) = text else { return Ok(Self::Delete(target)) };
        let access = match (mode, private) {
            (Some(mode), true) => Access::Inherited(mode & !0o077),
            (Some(mode), false) => Access::Inherited(mode),
            (None, true) => Access::Private,
            (None, false) => Access::New(0o666),
        };
        files::Staged::write(&target, text.as_bytes(), access).map(Self::Write).map_err(failed())
    }

    pub(super) fn commit(self) -> Result<(), SetupError> {
        match self {
            Self::Write(staged) => {
                let target = staged.target().to_path_buf();
                staged.commit().map_err(SetupError::io("write", &target))
            }
            Self::Delete(target) => {
                files::remove(&target).map(drop).map_err(SetupError::io("write", &target))
            }
        }
    }
}

/// Removes what a killed process left beside a file. The caller holds the lock.
pub(super) fn sweep(path: &Path) {
    // A leftover that cannot be removed does no harm.
    let _ = target(path).and_then(|target| files::sweep(&target));
}

/// One file by itself.
pub(super) fn put(
    path: &Path,
    text: Option<&str>,
    mode: Option<u32>,
    private: bool,
) -> Result<(), SetupError> {
    StagedEdit::new(path, text, mode, private)?.commit()
}

/// Where a path leads, also when nothing is there yet.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("/")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many links"))
}

/// The permissions of a file, where there are such.
pub(super) fn mode(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).ok().map(|meta| meta.permissions().mode() & 0o7777)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// A file or folder that its owner made read-only is meant so, even if this process could
/// write it all the same.
pub(super) fn refuse_read_only(path: &Path) -> Result<(), SetupError> {
    let target = target(path).map_err(SetupError::io("read", path))?;
    let mut place = Some(target.as_path());
    while let Some(at) = place {
        match fs::metadata(at) {
            Ok(meta) if meta.permissions().readonly() => {
                return Err(SetupError::ReadOnly { path: at.to_path_buf() });
            }
            // The folder of a file is written to, too.
            Ok(meta) if meta.is_dir() => return Ok(()),
            Ok(_) => place = at.parent(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => place = at.parent(),
            Err(error) => return Err(SetupError::io("read", at)(error)),
        }
    }
    Ok(())
}

/// The folders that a file needs and that are not there, the outermost first.
pub(super) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let target = target(path).unwrap_or_else(|_| path.to_path_buf());
    let missing = target.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

pub(super) fn make_folders<'a>(
    folders: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), SetupError> {
    for folder in folders {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SetupError::io("make the folder", folder)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes those that are empty: the others have files of the user.
pub(super) fn remove_folders<'a>(folders: impl Iterator<Item = &'a PathBuf>) {
    let mut folders: Vec<&PathBuf> = folders.collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
}
