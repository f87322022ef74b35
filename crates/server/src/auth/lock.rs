//! One process at a time refreshes or replaces a credential.

use std::{fs::File, time::Duration};

use super::{AuthFileError, Credential, CredentialFile, SavedCredential};
use crate::files::lock;

/// Enough for another process to try every way of refreshing and give up.
pub const LOCK_WAIT: Duration = Duration::from_secs(60);

/// The right to write a credential file, while it lives.
#[derive(Debug)]
pub struct FileLock {
    file: CredentialFile,
    /// Closing it releases the lock.
    _held: File,
}

impl FileLock {
    /// Waits for the lock. No thread is blocked meanwhile.
    pub(super) async fn acquire(
        file: &CredentialFile,
        wait: Duration,
    ) -> Result<Self, AuthFileError> {
        file.make_dir()?;
        let held = lock::acquire(&file.lock_path(), wait).await?;
        Ok(Self { file: file.clone(), _held: held })
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
    pub fn save(&self, credential: &Credential) -> Result<SavedCredential, AuthFileError> {
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
