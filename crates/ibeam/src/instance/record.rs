//! What a gateway writes down of itself, for other programs of its user. Each has two
//! files: one that says where it is, and one whose lock it holds for as long as it lives,
//! so that what a killed one left behind is not taken for a gateway.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use ibeam_core::model::ids;
use serde::{Deserialize, Serialize};

use ibeam_server::{
    clock,
    files::{FileError, lock, private},
    random,
};

pub(super) const VERSION: u32 = 1;

/// More than that are not looked at.
const MOST: usize = 256;

/// A process that has not locked its file after so long never will.
const UNNAMED_FOR: Duration = Duration::from_secs(60);

/// Random bytes in a name.
const NAME: usize = 8;

/// Where a gateway is, and what it is. No `Debug`: it holds the key.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct InstanceRecord {
    pub(super) v: u32,
    pub(super) url: String,
    pub(super) key: String,
    pub(super) pid: u32,
    pub(super) version: String,
    pub(super) shared: bool,
    #[serde(flatten)]
    pub(super) kind: InstanceKind,
}

/// The properties in which gateways that answer differently differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstanceKind {
    pub(super) profile: String,
    /// `agent`, `cli` or `acp`.
    pub(super) backend: String,
    pub(super) sim: bool,
    /// The origin that stands for Cursor, or what the simulator plays.
    pub(super) upstream: String,
    /// Stands for a credential of the environment, which comes before the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

/// A record on the disk, of a process that lives.
#[derive(Clone)]
pub(super) struct InstanceEntry {
    pub(super) record: InstanceRecord,
    path: PathBuf,
    lock: PathBuf,
}

impl InstanceEntry {
    /// Whether the process lives.
    pub(super) fn is_alive(&self) -> bool {
        is_held(&self.lock)
    }

    /// See [`Registration::is_in_use`].
    pub(super) fn hold(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        file.lock_shared()?;
        Ok(file)
    }

    /// See [`Registration::is_in_use`].
    pub(super) fn is_in_use(&self) -> bool {
        is_in_use(&self.path)
    }
}

/// Keeps the files of this process in place. Dropped, they are gone.
#[derive(Debug)]
pub struct Registration {
    record: PathBuf,
    lock: PathBuf,
    /// Closing it lets go.
    _held: File,
}

impl Registration {
    /// Writes down where this process is.
    pub(super) fn new(folder: &Path, record: &InstanceRecord) -> Result<Self, FileError> {
        private::make_secret_dir(folder)?;
        let name = ids::hex(&random::bytes::<NAME>());
        let lock = folder.join(format!("{name}.lock"));
        let held = lock::create(&lock).map_err(FileError::io("lock", &lock))?;
        let record_path = folder.join(format!("{name}.json"));
        let registration = Self { record: record_path, lock, _held: held };
        let text = serde_json::to_string(record).map_err(io::Error::from);
        let text = text.map_err(FileError::io("write", &registration.record))?;
        private::replace(&registration.record, &text)?;
        Ok(registration)
    }

    /// Whether a program that was started for this process still runs. It has a lock on the
    /// record, which others may share.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        is_in_use(&self.record)
    }

    /// Other programs do not find the process any more, though it still lives.
    pub fn retire(&self) {
        // If it cannot be removed, a program that finds it gets no answer there.
        let _ = fs::remove_file(&self.record);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.retire();
        let _ = fs::remove_file(&self.lock);
    }
}

/// All gateways of the user that live. What others left behind is cleared away.
pub(super) fn living(folder: &Path) -> Vec<InstanceEntry> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.take(MOST).filter_map(Result::ok).map(|entry| entry.path()) {
        if !is_ours(&path) {
            if is_left_unnamed(&path) {
                let _ = fs::remove_file(&path);
            }
            continue;
        }
        let lock = path.with_extension("lock");
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") if is_held(&lock) => {
                // One that cannot be used is none of this version's.
                let record = read(&path);
                found.extend(record.map(|record| InstanceEntry { record, path, lock }));
            }
            // Its end was a sudden one.
            Some("json") => {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(&lock);
            }
            Some("lock") if !is_held(&path) => drop(fs::remove_file(&path)),
            _ => {}
        }
    }
    found
}

/// Other files in the folder are left alone.
fn is_ours(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    name.len() == 2 * NAME && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A lock of a process that was killed before it had its name.
fn is_left_unnamed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(lock::UNNAMED) && is_old(path) && !is_held(path)
}

fn is_old(path: &Path) -> bool {
    let made = fs::metadata(path).and_then(|metadata| metadata.modified());
    let made = made.ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    made.is_some_and(|made| clock::unix_now().saturating_sub(made) > UNNAMED_FOR)
}

fn is_in_use(record: &Path) -> bool {
    let locked = File::open(record).map(|file| file.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

fn read(path: &Path) -> Option<InstanceRecord> {
    let text = private::read(path).ok().flatten()?;
    let record: InstanceRecord = serde_json::from_str(&text).ok()?;
    (record.v == VERSION).then_some(record)
}

/// Whether a process holds the lock. One that cannot be asked about is.
fn is_held(lock: &Path) -> bool {
    match File::open(lock).map(|file| file.try_lock_shared()) {
        Ok(Ok(())) => false,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
