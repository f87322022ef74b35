//! Files of the user: replaced as a whole or not at all, through links, with their mode
//! and owner.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::SetupError;
use ibeam_server::random;

/// As many links as Linux follows.
const LINKS: usize = 40;

/// What stands beside a file, to be put in its place.
#[derive(Debug)]
pub(super) struct Staged {
    target: PathBuf,
    /// `None`: the file is to go.
    temporary: Option<PathBuf>,
}

impl Staged {
    /// `mode` is that of the file before the first setup; a private one loses what others
    /// may do.
    pub(super) fn new(
        path: &Path,
        text: Option<&str>,
        mode: Option<u32>,
        private: bool,
    ) -> Result<Self, SetupError> {
        let failed = || SetupError::io("write", path);
        let target = target(path).map_err(failed())?;
        let Some(text) = text else { return Ok(Self { target, temporary: None }) };
        let (begin, end) = beside(&target);
        let drawn = u32::from_be_bytes(random::bytes());
        let temporary = target.with_file_name(format!("{begin}{drawn}{end}"));
        let staged = Self { target, temporary: Some(temporary.clone()) };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            // Closed until it has the mode of the file it stands for.
            options.mode(if private || mode.is_some() { 0o600 } else { 0o666 });
        }
        let mut file = options.open(&temporary).map_err(failed())?;
        file.write_all(text.as_bytes()).map_err(failed())?;
        #[cfg(unix)]
        unix::like(&file, &staged.target, mode, private).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        Ok(staged)
    }

    pub(super) fn commit(mut self) -> Result<(), SetupError> {
        let failed = || SetupError::io("write", &self.target);
        match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.target).map_err(failed())?,
            None => match fs::remove_file(&self.target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed()(error));
                }
                _ => {}
            },
        }
        self.temporary = None;
        #[cfg(unix)]
        if let Some(dir) = self.target.parent() {
            // A new name is on the disk only when its folder is. Where that cannot be had,
            // the file is there all the same.
            let _ = fs::File::open(dir).and_then(|dir| dir.sync_all());
        }
        Ok(())
    }
}

/// What was not put in place goes.
impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// How the name of what stands beside a file begins and ends.
fn beside(target: &Path) -> (String, &'static str) {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    (format!(".{name}."), ".ibeam.tmp")
}

/// Removes what a process that was killed left beside a file. Only for who holds the lock.
pub(super) fn sweep(path: &Path) {
    let Ok(target) = target(path) else { return };
    let (begin, end) = beside(&target);
    let entries = target.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&begin) && name.ends_with(end)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// One file by itself.
pub(super) fn put(
    path: &Path,
    text: Option<&str>,
    mode: Option<u32>,
    private: bool,
) -> Result<(), SetupError> {
    Staged::new(path, text, mode, private)?.commit()
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

/// Removes those that are empty: what is in the others is somebody's.
pub(super) fn remove_folders<'a>(folders: impl Iterator<Item = &'a PathBuf>) {
    let mut folders: Vec<&PathBuf> = folders.collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    for folder in folders {
        let _ = fs::remove_dir(folder);
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

    /// Gives a new file the owner of the one it replaces, and the mode it is to have.
    pub(super) fn like(new: &File, old: &Path, mode: Option<u32>, private: bool) -> io::Result<()> {
        let Some(mode) = mode else { return Ok(()) };
        let mode = if private { mode & !0o077 } else { mode };
        if let (Ok(old), Ok(made)) = (fs::metadata(old), new.metadata())
            && (old.uid(), old.gid()) != (made.uid(), made.gid())
        {
            fchown(new, Some(old.uid()), Some(old.gid()))?;
        }
        new.set_permissions(Permissions::from_mode(mode))
    }
}
