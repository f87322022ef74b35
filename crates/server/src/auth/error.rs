//! Why a credential was not read or written.

use std::path::PathBuf;

use super::KeychainError;
use crate::files::FileError;

/// Why one of ibeam's own credentials was not read or written. What was stored is as before.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is damaged: {what}; `ibeam login` creates a new one", path.display())]
    Malformed { path: PathBuf, what: String },
    /// The secrets are in the keychain instead of the file.
    #[error(transparent)]
    Keychain(#[from] KeychainError),
}

impl AuthFileError {
    /// Whether the next attempt may succeed. Such an error says nothing about the sign-in.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::File(error) => error.is_temporary(),
            Self::Malformed { .. } => false,
            Self::Keychain(error) => error.is_temporary(),
        }
    }
}
