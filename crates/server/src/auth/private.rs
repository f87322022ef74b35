//! Files that only their owner may read. They are made that way from the first byte,
//! replaced as a whole or not at all, and never reached through a link.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::lock_file::LockError;

/// Nothing that belongs into such a file is longer.
const LONGEST: u64 = 1 << 20;

/// Why one of ibeam's own files was not read or written. What was in it is as before.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    /// The text ends in the command that mends it.
    #[error(
        "other users can {what} {} (mode {mode:03o}), which must be private; run `{command}`",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32, what: &'static str, command: String },
    #[error("{} is a symbolic link, which ibeam does not follow for a secret", path.display())]
    Link { path: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NoFile { path: PathBuf },
    #[error("{} is damaged: {what}; `ibeam login` creates a new one", path.display())]
    Malformed { path: PathBuf, what: String },
    #[error("{} cannot be parsed: {what}", path.display())]
    Unreadable { path: PathBuf, what: &'static str },
    #[error("no space is left to write {}; the previous content is kept", path.display())]
    Full { path: PathBuf, source: io::Error },
    #[error(
        "another process has held a lock on {} for {} s; try again when it has finished",
        path.display(),
        waited.as_secs()
    )]
    Locked { path: PathBuf, waited: Duration },
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// What would be in the file is elsewhere.
    #[error(transparent)]
    Keychain(#[from] super::KeychainError),
}

impl From<LockError> for AuthFileError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Link { path } => Self::Link { path },
            LockError::Held { path, waited } => Self::Locked { path, waited },
            LockError::Io { what, path, error } => Self::io(what, &path)(error),
        }
    }
}

impl AuthFileError {
    /// It may be over the next time, and says nothing about who is signed in.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Full { .. } | Self::Locked { .. } => true,
            Self::Keychain(error) => error.is_passing(),
            Self::Exposed { .. }
            | Self::Link { .. }
            | Self::NoFile { .. }
            | Self::Malformed { .. }
            | Self::Unreadable { .. } => false,
        }
    }

    /// For `map_err`: what was being done, and to what.
    pub fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| {
            let path = path.to_path_buf();
            match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Self::Full { path, source },
                _ => Self::Io { what, path, source },
            }
        }
    }

    pub(super) fn malformed(path: &Path, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_path_buf(), what: what.into() }
    }
}

/// The text of a file that only its owner may read; `None` if there is no file.
pub fn read(path: &Path) -> Result<Option<String>, AuthFileError> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    unix::never_follow(&mut options);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            refuse_link(path)?;
            return Err(AuthFileError::io("read", path)(error));
        }
    };
    // Of what was opened, not of what stands at the path by now.
    let meta = file.metadata().map_err(AuthFileError::io("read", path))?;
    if !meta.is_file() {
        return Err(AuthFileError::NoFile { path: path.to_path_buf() });
    }
    #[cfg(unix)]
    unix::refuse_exposed(path, &meta, 0o077)?;
    let mut text = String::new();
    match file.take(LONGEST + 1).read_to_string(&mut text) {
        Ok(_) if text.len() as u64 > LONGEST => Err(AuthFileError::malformed(path, "too long")),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(AuthFileError::malformed(path, "not text"))
        }
        Err(error) => Err(AuthFileError::io("read", path)(error)),
    }
}

/// Puts `text` in place of the file at `path`. Afterwards there is the old file or the
/// new one, whatever happens in between, and on the disk once this returns.
pub fn replace(path: &Path, text: &str) -> Result<(), AuthFileError> {
    let failed = || AuthFileError::io("write", path);
    refuse_link(path)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let (prefix, suffix) = temporary(path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(suffix);
    #[cfg(unix)]
    builder.permissions(unix::mode(0o600));
    let mut file = builder.tempfile_in(dir).map_err(failed())?;
    file.write_all(text.as_bytes()).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    file.persist(path).map_err(|error| failed()(error.error))?;
    sync_dir(dir).map_err(failed())
}

/// Deletes what [`replace`] left behind when its process was killed. Only for who knows
/// that nobody else is at it.
pub(super) fn sweep(path: &Path) -> Result<(), AuthFileError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let failed = || AuthFileError::io("clean up", dir);
    let (prefix, suffix) = temporary(path);
    for entry in fs::read_dir(dir).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name();
        let left = name.to_str().is_some_and(|n| n.starts_with(&prefix) && n.ends_with(suffix));
        if left {
            fs::remove_file(entry.path()).map_err(failed())?;
        }
    }
    Ok(())
}

/// Deletes the file. Says whether there was one.
pub(super) fn remove(path: &Path) -> Result<bool, AuthFileError> {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(AuthFileError::io("delete", path)(error)),
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    sync_dir(dir).map_err(AuthFileError::io("delete", path))?;
    Ok(true)
}

/// Makes the directory, and those above it, for the owner alone. One that is there is
/// left as it is.
pub(crate) fn make_dir(dir: &Path) -> Result<(), AuthFileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(dir).map_err(AuthFileError::io("make the directory", dir))
}

/// Makes a directory that holds nothing but secrets, or closes one that is there to all
/// but its owner.
pub fn make_secret_dir(dir: &Path) -> Result<(), AuthFileError> {
    make_dir(dir)?;
    check_dir(dir)?;
    #[cfg(unix)]
    unix::close(dir).map_err(AuthFileError::io("close to others", dir))?;
    Ok(())
}

/// Refuses a directory in which others could put a file of their own in a secret's place.
pub(crate) fn check_dir(dir: &Path) -> Result<(), AuthFileError> {
    #[cfg(unix)]
    if let Ok(meta) = fs::metadata(dir) {
        unix::refuse_exposed(dir, &meta, 0o022)?;
    }
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

fn refuse_link(path: &Path) -> Result<(), AuthFileError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => Err(AuthFileError::Link { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

/// How the names of half-written files begin and end.
fn temporary(path: &Path) -> (String, &'static str) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (format!(".{name}."), ".tmp")
}

/// A new name is on the disk only when its directory is.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(dir)?.sync_all() {
        // Some network file systems have no such thing, and the name is there.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

#[cfg(unix)]
pub(crate) mod unix {
    use std::{
        fs::{self, Metadata, OpenOptions, Permissions},
        io,
        os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
        path::Path,
    };

    use rustix::fs::OFlags;

    use super::AuthFileError;

    pub(super) fn mode(bits: u32) -> Permissions {
        Permissions::from_mode(bits)
    }

    /// Nor waits for somebody to write, where a pipe stands in the file's place.
    pub(crate) fn never_follow(options: &mut OpenOptions) {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }

    pub(super) fn close(dir: &Path) -> io::Result<()> {
        let open = fs::metadata(dir)?.permissions().mode() & 0o077 != 0;
        if open { fs::set_permissions(dir, mode(0o700)) } else { Ok(()) }
    }

    pub(super) fn refuse_exposed(
        path: &Path,
        meta: &Metadata,
        forbidden: u32,
    ) -> Result<(), AuthFileError> {
        let mode = meta.permissions().mode() & 0o777;
        if mode & forbidden == 0 {
            return Ok(());
        }
        let wanted = if meta.is_dir() { "700" } else { "600" };
        Err(AuthFileError::Exposed {
            path: path.to_path_buf(),
            mode,
            what: if mode & forbidden & 0o044 != 0 { "read" } else { "change" },
            command: format!("chmod {wanted} {}", quoted(path)),
        })
    }

    /// As a shell takes it.
    pub fn quoted(path: &Path) -> String {
        let text = path.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,=".contains(c);
        if text.chars().all(plain) {
            return text.into_owned();
        }
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
