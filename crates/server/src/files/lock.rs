//! Locks between processes, each on a file of its own: what a lock protects is often replaced, and
//! a lock would go with it. The system releases a lock when its holder ends, however that happens.
//!
//! *Invariant:* a lock's file is never reached through a link, which another user may have put in
//! its place, and no wait for a lock is without a limit.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
    time::Duration,
};

use tokio::time::sleep;

use super::{
    FileError,
    private::{never_follow, owner_only, refuse_link},
    replace::folder,
};

/// Between two tries: the first is short, since most holders are quick.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// How the name of a file begins that [`create`] has not named yet.
pub const UNNAMED: &str = ".lock";

/// Waits for the lock on a file, which is made if need be. No thread is blocked, and a caller that
/// is dropped leaves nothing behind. The lock is held until the file is closed.
///
/// # Errors
/// Another process still has it after `limit`, or the file cannot be opened.
pub async fn acquire(path: &Path, limit: Duration) -> Result<File, FileError> {
    let file = open(path)?;
    hold(&file, path, limit).await?;
    Ok(file)
}

/// As [`acquire`], for threads that may block.
///
/// # Errors
/// As [`acquire`].
pub fn acquire_blocking(path: &Path, limit: Duration) -> Result<File, FileError> {
    let file = open(path)?;
    hold_blocking(&file, path, limit)?;
    Ok(file)
}

/// Creates a file that is locked by the time it has its name, so that no other process ever
/// finds it unlocked while the lock is held.
///
/// # Errors
/// There is such a file already, or it cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    let file = tempfile::Builder::new().prefix(UNNAMED).tempfile_in(folder(path))?;
    file.as_file().lock()?;
    Ok(file.persist_noclobber(path)?)
}

/// Waits for the lock on a file or folder that is open already. `path` is for the error.
///
/// # Errors
/// Another process still has it after `limit`, or it cannot be locked.
pub async fn hold(file: &File, path: &Path, limit: Duration) -> Result<(), FileError> {
    let mut attempts = LockAttempts::new(limit);
    while let Some(pause) = attempts.next(file, path)? {
        sleep(pause).await;
    }
    Ok(())
}

/// As [`hold`], for threads that may block.
///
/// # Errors
/// As [`hold`].
pub fn hold_blocking(file: &File, path: &Path, limit: Duration) -> Result<(), FileError> {
    let mut attempts = LockAttempts::new(limit);
    while let Some(pause) = attempts.next(file, path)? {
        #[expect(
            clippy::disallowed_methods,
            reason = "the callers run where blocking is expected"
        )]
        std::thread::sleep(pause);
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    owner_only(options.read(true).write(true).create(true).truncate(false));
    never_follow(&mut options);
    options.open(path).map_err(|error| match refuse_link(path) {
        Err(link) => link,
        Ok(()) => FileError::io("open", path)(error),
    })
}

/// The tries to get one lock, without the waiting.
struct LockAttempts {
    limit: Duration,
    waited: Duration,
    pause: Duration,
}

impl LockAttempts {
    fn new(limit: Duration) -> Self {
        Self { limit, waited: Duration::ZERO, pause: FIRST_PAUSE }
    }

    /// Tries once. Returns the pause before the next attempt; `None` once it is locked.
    fn next(&mut self, file: &File, path: &Path) -> Result<Option<Duration>, FileError> {
        match file.try_lock() {
            Ok(()) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(FileError::io("lock", path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let pause = self.pause.min(self.limit.saturating_sub(self.waited));
        if pause.is_zero() {
            return Err(FileError::Locked { path: path.to_path_buf(), waited: self.waited });
        }
        self.waited += pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Ok(Some(pause))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_lock_ends_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let limit = Duration::from_secs(7);
        let held = acquire(&path, Duration::ZERO).await.unwrap();
        let began = Instant::now();
        let error = acquire(&path, limit).await.unwrap_err();
        assert!(matches!(&error, FileError::Locked { waited, .. } if *waited == limit), "{error}");
        assert_eq!(began.elapsed(), limit);
        let error = acquire_blocking(&path, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, FileError::Locked { .. }), "{error}");

        let release = async {
            sleep(Duration::from_secs(3)).await;
            drop(held);
        };
        let (next, ()) = tokio::join!(acquire(&path, limit), release);
        let again = acquire_blocking(&path, Duration::ZERO);
        assert!(next.is_ok() && matches!(again, Err(FileError::Locked { .. })));
        drop(next);
        assert!(acquire_blocking(&path, Duration::ZERO).is_ok());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn lock_file_is_never_opened_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("lock"), folder.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        for there in [false, true] {
            for opened in
                [acquire(&path, Duration::ZERO).await, acquire_blocking(&path, Duration::ZERO)]
            {
                assert!(matches!(opened, Err(FileError::Link { .. })), "{opened:?}");
            }
            assert_eq!(elsewhere.exists(), there);
            std::fs::write(&elsewhere, "").unwrap();
        }
    }
}
