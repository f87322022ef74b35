//! One process at a time refreshes or replaces a credential. The lock is on a file of
//! its own, since the credential's is replaced; the system lets go of it when its holder
//! ends, however that happens.

use std::{
    fs::{File, TryLockError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{AuthFileError, Credential, CredentialFile, Saved, private};

/// Enough for another process to try every way of refreshing and give up.
pub const LOCK_WAIT: Duration = Duration::from_secs(60);

/// Between two tries: the first is short, since most holders are quick.
const FIRST_STEP: Duration = Duration::from_millis(5);
const LAST_STEP: Duration = Duration::from_millis(100);

/// The right to write a credential file, while it lives.
#[derive(Debug)]
pub struct FileLock {
    file: CredentialFile,
    /// Closing it lets go.
    _held: File,
}

impl FileLock {
    /// Waits for the lock by asking again and again: no thread is blocked, and a caller
    /// that goes away leaves nothing behind.
    pub(super) async fn acquire(
        file: &CredentialFile,
        wait: Duration,
    ) -> Result<Self, AuthFileError> {
        let path = file.lock_path();
        file.make_dir()?;
        let held = private::open_lock(&path)?;
        let started = Instant::now();
        let mut step = FIRST_STEP;
        loop {
            match held.try_lock() {
                Ok(()) => return Ok(Self { file: file.clone(), _held: held }),
                Err(TryLockError::Error(error)) => {
                    return Err(AuthFileError::io("lock", &path)(error));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            let waited = started.elapsed();
            let Some(left) = wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(AuthFileError::Locked { path, waited });
            };
            sleep(step.min(left)).await;
            step = (step * 2).min(LAST_STEP);
        }
    }

    /// What is there now: another process may have refreshed it during the wait.
    ///
    /// # Errors
    /// As [`CredentialFile::load`].
    pub fn load(&self) -> Result<Option<Credential>, AuthFileError> {
        self.file.load()
    }

    /// Puts the credential in place of what is there. Fields that ibeam does not know
    /// stay. Waits for the disk.
    ///
    /// # Errors
    /// What was there is still there.
    pub fn save(&self, credential: &Credential) -> Result<Saved, AuthFileError> {
        self.file.save(credential)
    }

    /// Deletes the credential, wherever it is. Says whether there was one.
    ///
    /// # Errors
    /// It may still be there.
    pub fn remove(&self) -> Result<bool, AuthFileError> {
        self.file.remove()
    }
}
