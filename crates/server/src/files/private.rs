//! Files that only their owner may read. They are made that way from the first byte, replaced as
//! a whole or not at all, and never reached through a link.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::{FileAccess, FileError};

/// Nothing that belongs into such a file is longer.
const MAX_BYTES: u64 = 1 << 20;

/// The text of a private file; `None` if there is no file.
///
/// # Errors
/// The file cannot be read, or others may read it, too.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let mut options = OpenOptions::new();
    options.read(true);
    never_follow(&mut options);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            refuse_link(path)?;
            return Err(FileError::io("read", path)(error));
        }
    };
    // Of the opened file, not of the one that is at the path by now.
    let meta = file.metadata().map_err(FileError::io("read", path))?;
    if !meta.is_file() {
        return Err(FileError::NotRegular { path: path.to_path_buf() });
    }
    #[cfg(unix)]
    unix::refuse_exposed(path, &meta, 0o077)?;
    let invalid = |what| Err(FileError::Invalid { path: path.to_path_buf(), what });
    let mut text = String::new();
    match file.take(MAX_BYTES + 1).read_to_string(&mut text) {
        Ok(_) if text.len() as u64 > MAX_BYTES => invalid("too long"),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => invalid("not text"),
        Err(error) => Err(FileError::io("read", path)(error)),
    }
}

/// Puts `text` in place of the file at `path`, as [`super::replace`] does.
///
/// # Errors
/// The old file is still there, or the path is a link.
pub fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    refuse_link(path)?;
    super::replace(path, text.as_bytes(), FileAccess::Private).map_err(FileError::io("write", path))
}

/// Opens or creates files that only their owner may use.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes folders that only their owner may use.
#[must_use]
pub fn dir_builder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Makes the folder, and those above it, for the owner alone. One that is there is left as it
/// is.
///
/// # Errors
/// It cannot be made.
pub fn make_dir(dir: &Path) -> Result<(), FileError> {
    dir_builder().recursive(true).create(dir).map_err(FileError::io("make the directory", dir))
}

/// Makes a folder that holds nothing but secrets, or closes one that is there to all but its
/// owner.
///
/// # Errors
/// It cannot be made or closed, or others may write to it.
pub fn make_secret_dir(dir: &Path) -> Result<(), FileError> {
    make_dir(dir)?;
    check_dir(dir)?;
    #[cfg(unix)]
    unix::close(dir).map_err(FileError::io("close to others", dir))?;
    Ok(())
}

/// Makes a folder for secrets where a user wants it. One that is there is left as it is: it may have
/// other things in it, and others may need them.
///
/// # Errors
/// It cannot be made; or the one that is there is a link, belongs to another user, or is open to
/// others.
pub fn make_chosen_dir(dir: &Path) -> Result<(), FileError> {
    // With a slash at its end, a link would be followed.
    let dir: &Path = &dir.components().collect::<PathBuf>();
    refuse_link(dir)?;
    make_dir(dir)?;
    #[cfg(unix)]
    {
        refuse_link(dir)?;
        let meta = fs::symlink_metadata(dir).map_err(FileError::io("read", dir))?;
        unix::refuse_foreign(dir, &meta)?;
        unix::refuse_exposed(dir, &meta, 0o077)?;
    }
    Ok(())
}

/// Refuses a folder in which others could put a file of their own in a secret's place.
pub(crate) fn check_dir(dir: &Path) -> Result<(), FileError> {
    #[cfg(unix)]
    if let Ok(meta) = fs::metadata(dir) {
        unix::refuse_exposed(dir, &meta, 0o022)?;
    }
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

pub(super) fn refuse_link(path: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => Err(FileError::Link { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

/// Neither follows a link nor waits for a writer where a pipe stands in the file's place.
pub(crate) fn never_follow(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::{self, Metadata, Permissions},
        io,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
        path::Path,
    };

    use super::{super::quoted, FileError};

    pub(super) fn close(dir: &Path) -> io::Result<()> {
        let open = fs::metadata(dir)?.permissions().mode() & 0o077 != 0;
        if open { fs::set_permissions(dir, Permissions::from_mode(0o700)) } else { Ok(()) }
    }

    pub(super) fn refuse_foreign(path: &Path, meta: &Metadata) -> Result<(), FileError> {
        match meta.uid() == rustix::process::geteuid().as_raw() {
            true => Ok(()),
            false => Err(FileError::Foreign { path: path.to_path_buf() }),
        }
    }

    pub(super) fn refuse_exposed(
        path: &Path,
        meta: &Metadata,
        forbidden: u32,
    ) -> Result<(), FileError> {
        let mode = meta.permissions().mode() & 0o777;
        if mode & forbidden == 0 {
            return Ok(());
        }
        let wanted = if meta.is_dir() { "700" } else { "600" };
        Err(FileError::Exposed {
            path: path.to_path_buf(),
            mode,
            what: if mode & forbidden & 0o044 != 0 { "read" } else { "change" },
            command: format!("chmod {wanted} {}", quoted(path)),
        })
    }
}
