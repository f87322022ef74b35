//! Replaces files as a whole or not at all.
//!
//! The new content is written beside the file and reaches the disk before it takes the file's
//! name, and the name reaches the disk before the call returns. So a crash at any point leaves
//! the old file or the new one.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use tempfile::TempPath;

/// How the names of files end that are not in their place yet.
const ENDING: &str = ".ibeam.tmp";

/// The permissions of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// For its owner alone.
    Private,
    /// These bits, as far as the umask allows them.
    New(u32),
    /// These bits, and the owner of the file that is replaced.
    Inherited(u32),
}

/// The next content of a file, written beside it. Dropping it removes it.
#[derive(Debug)]
pub struct StagedFile {
    temporary: TempPath,
    target: PathBuf,
}

impl StagedFile {
    /// Writes the bytes beside `target` and waits until they are on the disk.
    ///
    /// # Errors
    /// They cannot be written. Nothing is left behind.
    pub fn write(target: &Path, bytes: &[u8], access: FileAccess) -> io::Result<Self> {
        let prefix = prefix(target);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(ENDING);
        #[cfg(unix)]
        builder.permissions(unix::at_first(access));
        let mut file = builder.tempfile_in(folder(target))?;
        file.write_all(bytes)?;
        #[cfg(unix)]
        if let FileAccess::Inherited(mode) = access {
            unix::inherit(file.as_file(), target, mode)?;
        }
        file.as_file().sync_all()?;
        Ok(Self { temporary: file.into_temp_path(), target: target.to_path_buf() })
    }

    /// The file that is to be replaced.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts the new content in its place.
    ///
    /// # Errors
    /// The file cannot be replaced, or the disk fails afterwards.
    pub fn commit(self) -> io::Result<()> {
        self.temporary.persist(&self.target).map_err(|error| error.error)?;
        sync_folder(&self.target)
    }
}

/// Replaces one file.
///
/// # Errors
/// As [`StagedFile`].
pub fn replace(path: &Path, bytes: &[u8], access: FileAccess) -> io::Result<()> {
    StagedFile::write(path, bytes, access)?.commit()
}

/// Deletes a file. Says whether there was one.
///
/// # Errors
/// It cannot be deleted, or the disk fails afterwards.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        outcome => outcome.and_then(|()| sync_folder(path)).map(|()| true),
    }
}

/// Deletes what a killed process left beside a file. The caller must know that no other process
/// is replacing the file.
///
/// # Errors
/// The folder cannot be read, or a leftover cannot be deleted.
pub fn sweep(path: &Path) -> io::Result<()> {
    let prefix = prefix(path);
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with(ENDING)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new name is on the disk only when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder(path)).and_then(|folder| folder.sync_all()) {
        // Some network file systems cannot sync a folder, and one that cannot be listed cannot be
        // opened. The name is there all the same.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::{self, File, Permissions},
        io,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
        path::Path,
    };

    use super::FileAccess;

    pub(super) fn at_first(access: FileAccess) -> Permissions {
        Permissions::from_mode(match access {
            // Closed until it has the owner and the mode of the file that it replaces.
            FileAccess::Private | FileAccess::Inherited(_) => 0o600,
            FileAccess::New(mode) => mode,
        })
    }

    pub(super) fn inherit(new: &File, old: &Path, mode: u32) -> io::Result<()> {
        if let (Ok(old), Ok(new_meta)) = (fs::metadata(old), new.metadata())
            && (old.uid(), old.gid()) != (new_meta.uid(), new_meta.gid())
        {
            fchown(new, Some(old.uid()), Some(old.gid()))?;
        }
        new.set_permissions(Permissions::from_mode(mode))
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
