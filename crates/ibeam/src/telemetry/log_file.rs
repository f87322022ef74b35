//! The log as a file, for where stderr is not kept. It is private to its owner, and does not
//! grow for ever: what is full becomes `FILE.1`, in place of the one before. Several gateways
//! may write to the same one.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use ibeam_server::files::{lock, private};

/// Of each of the two.
const CAP: u64 = 4 << 20;

/// For another gateway to rename the file, which takes it a moment.
const LOCK_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    cap: u64,
}

impl LogFile {
    /// Continues the file of an earlier process.
    ///
    /// # Errors
    /// It cannot be written there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with(path, CAP)
    }

    fn with(path: &Path, cap: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let file = append(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, written, cap })
    }

    /// Another gateway that writes here may have put our file away. What it does with that
    /// next would take our lines along.
    fn follow(&mut self) -> io::Result<()> {
        if is_at(&self.file, &self.path) { Ok(()) } else { self.reopen() }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = append(&self.path)?;
        self.written = file.metadata()?.len();
        self.file = file;
        Ok(())
    }

    /// Only one of us at a time: a second one would put the new file in place of the full one.
    fn turn_over(&mut self) -> io::Result<()> {
        lock::hold_blocking(&self.file, &self.path, LOCK_WAIT).map_err(io::Error::other)?;
        if !is_at(&self.file, &self.path) {
            return self.reopen();
        }
        let done = fs::rename(&self.path, older(&self.path)).and_then(|()| self.reopen());
        if done.is_err() {
            self.file.unlock()?;
        }
        done
    }

    /// Where the file cannot be put away, it goes on, up to twice its size; then it begins
    /// again.
    fn make_do(&mut self) {
        if self.written > self.cap.saturating_mul(2) && self.file.set_len(0).is_ok() {
            self.written = 0;
        }
    }
}

/// Whether the file is the one with that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let same = |own: fs::Metadata, named: fs::Metadata| {
        (own.dev(), own.ino()) == (named.dev(), named.ino())
    };
    file.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|named| same(own, named)))
}

/// There is no cheap way to find out.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// The file before this one.
pub(crate) fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

fn append(path: &Path) -> io::Result<File> {
    private::owner_only(OpenOptions::new().create(true).append(true)).open(path)
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let more = line.len() as u64;
        // What fails here leaves us with the file that we have.
        let _ = self.follow();
        if self.written > 0
            && self.written.saturating_add(more) > self.cap
            && self.turn_over().is_err()
        {
            self.make_do();
        }
        self.file.write_all(line)?;
        self.written = self.written.saturating_add(more);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_rotates_between_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/ibeam.log");
        let mut log = LogFile::with(&path, 8).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(fs::read_to_string(older(&path)).unwrap(), "one\ntwo\n");
        // The next process continues.
        let mut log = LogFile::with(&path, 8).unwrap();
        log.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "four\n");
        assert_eq!(fs::read_to_string(older(&path)).unwrap(), "three\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
        // A line of more than a file is still written.
        log.write_all(b"much longer than that\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "much longer than that\n");
    }

    #[cfg(unix)]
    #[test]
    fn two_gateways_share_a_log_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.log");
        let mut one = LogFile::with(&path, 8).unwrap();
        let mut two = LogFile::with(&path, 8).unwrap();
        two.write_all(b"a\n").unwrap();
        one.write_all(b"1234\n").unwrap();
        one.write_all(b"5678\n").unwrap();
        assert_eq!(fs::read_to_string(older(&path)).unwrap(), "a\n1234\n");
        // It follows to the new file, and does not put that away for want of room in the old.
        two.write_all(b"bc\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "5678\nbc\n");
        assert_eq!(fs::read_to_string(older(&path)).unwrap(), "a\n1234\n");
        // It was removed.
        fs::remove_file(&path).unwrap();
        one.write_all(b"d\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "d\n");
    }

    #[test]
    fn failed_rotation_continues_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.log");
        // A folder with something in it is in its place.
        fs::create_dir_all(older(&path).join("in the way")).unwrap();
        let mut log = LogFile::with(&path, 8).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        for _ in 0..100 {
            log.write_all(b"four\n").unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= 24);
    }

    #[cfg(unix)]
    #[test]
    fn log_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.log");
        LogFile::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
