//! The file: created for its owner only, opened, and moved aside when it is damaged.
//!
//! *Invariant:* a file is moved away only by a process that has seen this very file broken. Another
//! one may have put a new file there meanwhile, which is then opened.
//!
//! *Invariant:* opening a file and moving it away exclude each other by a lock. SQLite finds a log
//! by its name: a connection to the file that is moved away would take the log of the new one for
//! its own, write to it and delete it.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use tracing::warn;

use super::{
    StoreError,
    schema::{self, StoreOwner},
};
use crate::files::{FileError, lock, private};

/// Another ibeam may be writing to the same file.
const BUSY: Duration = Duration::from_secs(2);

/// At the start, for other processes that open or replace the file, one after the other: a slow disk
/// must not cost one of them its store.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// The same while requests wait for the store. A process that was stopped in the middle may have the
/// lock.
pub(super) const LOCK_WAIT_SERVING: Duration = Duration::from_secs(2);

/// Pauses between the tries to open a file that others are writing to, in milliseconds: their
/// writes reach the disk.
const PAUSES: [u64; 8] = [20, 40, 80, 160, 320, 640, 1280, 2560];

/// What is left of the log after a checkpoint.
const LOG_BYTES: i64 = 16 << 20;

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusableFile {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("it is not writable")]
    ReadOnly,
    #[error("it is not a regular file")]
    NoFile,
    #[error("it was written by a later version of ibeam")]
    Later,
    #[error("it belongs to another program")]
    Foreign,
    #[error("it cannot be locked: {0}")]
    Lock(#[from] FileError),
}

impl From<rusqlite::Error> for UnusableFile {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Distinguishes a file from one that is later at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// None: the file does not exist, or the system has no such id.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Some(Self(meta.dev(), meta.ino()))
        }
        // A file that is open cannot be renamed there, so this is for files that were opened again.
        #[cfg(not(unix))]
        {
            let made = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
            Some(Self(made.as_secs(), u64::from(made.subsec_nanos())))
        }
    }
}

/// A connection, and the file that it has open.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) connection: Connection,
    pub(super) id: Option<FileId>,
}

/// Opens the file, if need be a new one. A broken one is moved to `<name>.broken`, once.
pub(super) fn open(path: &Path) -> Result<OpenedStore, UnusableFile> {
    let _lock = lock(path, LOCK_WAIT)?;
    open_locked(path)
}

/// Closes a connection to a broken file, moves the file aside and opens a new one, unless another
/// process has done so: then its new file is opened.
pub(super) fn replace(path: &Path, broken: OpenedStore) -> Result<OpenedStore, UnusableFile> {
    let OpenedStore { connection, id } = broken;
    let _lock = match lock(path, LOCK_WAIT_SERVING) {
        Ok(lock) => lock,
        Err(why) => {
            // Without the lock, the log may be that of a new file by now: it is left alone.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            return Err(why);
        }
    };
    // Not before: closing may write to the file, and delete its log.
    drop(connection);
    if id.is_some() && id == FileId::at(path) {
        move_aside(path)?;
    }
    open_locked(path)
}

/// The lock's own file stays: another process may be waiting for it. Beside what cannot be a store
/// there is none.
fn lock(path: &Path, wait: Duration) -> Result<File, UnusableFile> {
    let other = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    if other || path.file_name().is_none() {
        return Err(UnusableFile::NoFile);
    }
    create_folder(path)?;
    Ok(lock::acquire_blocking(&beside(path, ".lock"), wait)?)
}

fn open_locked(path: &Path) -> Result<OpenedStore, UnusableFile> {
    match connect_patiently(path) {
        Err(UnusableFile::Store(error)) if error.is_corrupt() => {
            move_aside(path)?;
            connect_patiently(path)
        }
        outcome => outcome,
    }
}

fn move_aside(path: &Path) -> Result<(), UnusableFile> {
    let broken = beside(path, ".broken");
    std::fs::rename(path, &broken)?;
    // They belong to the file that was moved, and would be taken for the new one's.
    for log in ["-wal", "-shm"] {
        match std::fs::rename(beside(path, log), beside(&broken, log)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    warn!(
        path = %path.display(), moved_to = %broken.display(),
        "the store is damaged; starting with an empty one"
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "SQLite waits like this, too, on the same thread")]
fn wait(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Tries again while others are writing to the file.
fn connect_patiently(path: &Path) -> Result<OpenedStore, UnusableFile> {
    let try_once = || {
        make_private(path)?;
        let connection = connect(path)?;
        Ok(OpenedStore { connection, id: FileId::at(path) })
    };
    let mut outcome = try_once();
    for pause in PAUSES {
        if !matches!(&outcome, Err(UnusableFile::Store(error)) if error.is_busy()) {
            break;
        }
        wait(pause);
        outcome = try_once();
    }
    outcome
}

/// The broken file that was put aside, if there is one.
pub(super) fn put_aside(path: &Path) -> Option<FileId> {
    FileId::at(&beside(path, ".broken"))
}

/// Removes a broken file that was put aside and last written before `oldest`, in seconds since
/// 1970: what is in it is kept no longer than the rest.
pub(super) fn sweep(path: &Path, oldest: u64) {
    let [_, _, _, _, broken, broken_wal, broken_shm] = all_files(path);
    for file in [broken_wal, broken_shm, broken] {
        let written = std::fs::symlink_metadata(&file).and_then(|meta| meta.modified());
        let written = written.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let old = written.is_some_and(|at| at.as_secs() < oldest);
        if old && let Err(error) = std::fs::remove_file(&file) {
            warn!(path = %file.display(), %error, "cannot remove a damaged store");
        }
    }
}

/// Every file that a store at `path` may consist of or leave behind.
pub fn all_files(path: &Path) -> [PathBuf; 7] {
    let broken = beside(path, ".broken");
    let logs = |path: &Path| ["-wal", "-shm"].map(|ending| beside(path, ending));
    let ([wal, shm], [broken_wal, broken_shm]) = (logs(path), logs(&broken));
    [path.to_path_buf(), wal, shm, beside(path, ".lock"), broken, broken_wal, broken_shm]
}

/// How many bytes there are on disk, what is not in the main file yet included.
pub(super) fn bytes(path: &Path) -> u64 {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    length(path) + length(&beside(path, "-wal"))
}

fn connect(path: &Path) -> Result<Connection, UnusableFile> {
    // No `SQLITE_OPEN_URI`: a path is a path, whatever it begins with.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    match schema::owner(&connection)? {
        StoreOwner::Us => {}
        // Takes effect only while the file is empty, so it comes first.
        StoreOwner::Nobody => connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?,
        StoreOwner::Later => return Err(UnusableFile::Later),
        StoreOwner::Another => return Err(UnusableFile::Foreign),
    }
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(UnusableFile::ReadOnly);
    }
    // SQLite may refuse this without waiting; [`connect_patiently`] then begins again.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Survives the end of the process, however sudden; a power cut may cost the newest.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    set_up(&mut connection)?;
    Ok(connection)
}

/// What holds for a file and for memory alike.
pub(super) fn set_up(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    // Conversations go to no other file.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    schema::migrate(connection)
}

/// Makes sure that the file is there, and that other users cannot read it: SQLite gives its
/// companions the mode that it finds on the file.
fn make_private(path: &Path) -> Result<(), UnusableFile> {
    match std::fs::metadata(path) {
        // It is not opened here: closing it would take away the locks that another
        // connection of this process has on it.
        Ok(meta) if meta.is_file() => return Ok(restrict(path, &meta)?),
        Ok(_) => return Err(UnusableFile::NoFile),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    match private::owner_only(OpenOptions::new().write(true).create_new(true)).open(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

fn create_folder(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    private::dir_builder().recursive(true).create(parent)
}

#[cfg(unix)]
fn restrict(path: &Path, meta: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = meta.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & 0o700);
    std::fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// `store.db` and `-wal` make `store.db-wal`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
