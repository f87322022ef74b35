//! The Cursor account: where credentials are found, and where ibeam stores its own.
//!
//! *Invariant:* files of other programs are read with the user's consent, and never written.
//! ibeam's own file is written only under its lock.
//!
//! Everything here blocks, if only for a moment, except the wait for the lock; where a
//! keychain asks the user, for a minute. A server calls it by `Tasks::spawn_blocking`.

pub mod consent;
pub mod discover;
mod error;
mod exchange;
pub mod file;
mod foreign;
pub mod http;
pub mod local_user;
pub mod lock;
pub mod login;
pub mod paths;
pub mod tokens;
pub mod vault;

use std::{fmt, path::PathBuf};

use secrecy::SecretString;

pub use consent::{ConsentKind, Consents};
pub use discover::KEY_VARIABLE;
pub use discover::{DiscoverError, Discovery, RefusedCredential, RefusedReason, discover};
pub use error::AuthFileError;
pub use file::CredentialFile;
pub use local_user::LocalUser;
pub use lock::{FileLock, LOCK_WAIT};
pub use paths::CredentialPaths;
pub use paths::System;
pub use tokens::AccessTokens;
pub use vault::{KeychainError, SavedCredential};

pub use crate::config::Profile;

/// What gives access to an account. At least one of the three secrets is there: an API
/// key alone has to be exchanged before anything else.
#[derive(Clone, Debug, Default)]
pub struct Credential {
    pub access_token: Option<SecretString>,
    pub refresh_token: Option<SecretString>,
    pub api_key: Option<SecretString>,
    pub account: Option<Account>,
    /// When the access token ends, in seconds since 1970, as far as it was written down.
    /// The token itself knows better.
    pub expires: Option<u64>,
}

impl Credential {
    #[must_use]
    pub fn of_access_token(token: impl Into<SecretString>) -> Self {
        Self { access_token: Some(token.into()), ..Self::default() }
    }

    #[must_use]
    pub fn of_api_key(key: impl Into<SecretString>) -> Self {
        Self { api_key: Some(key.into()), ..Self::default() }
    }

    /// Whether there is nothing to sign in with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.access_token.is_none() && self.refresh_token.is_none() && self.api_key.is_none()
    }
}

/// The account, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub email: Option<String>,
    /// The subject of the token, such as `auth0|user_…`.
    pub sub: Option<String>,
}

impl Account {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> Option<String> {
        self.email.or(self.sub)
    }
}

/// Where a credential came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// An access token in this variable.
    Env(&'static str),
    /// `CURSOR_API_KEY`.
    ApiKeyEnv,
    /// ibeam's own file: the only one that is written.
    Own(Profile),
    /// The Cursor CLI's `auth.json`.
    CliFile(PathBuf),
    /// The service of the Cursor CLI's item in the macOS keychain.
    Keychain(&'static str),
    /// The IDE's `state.vscdb`.
    Ide(PathBuf),
    /// A file of the programs that ibeam stands in for.
    Legacy(PathBuf),
    /// OpenCode's `auth.json`.
    OpenCode(PathBuf),
}

impl CredentialSource {
    /// What needs the user's consent, for files of other programs.
    #[must_use]
    pub fn kind(&self) -> Option<ConsentKind> {
        match self {
            Self::Env(_) | Self::ApiKeyEnv | Self::Own(_) => None,
            Self::CliFile(_) => Some(ConsentKind::Cli),
            Self::Keychain(_) => Some(ConsentKind::Keychain),
            Self::Ide(_) => Some(ConsentKind::Ide),
            Self::Legacy(_) => Some(ConsentKind::Legacy),
            Self::OpenCode(_) => Some(ConsentKind::OpenCode),
        }
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.write_str(name),
            Self::ApiKeyEnv => f.write_str("CURSOR_API_KEY"),
            Self::Own(profile) => write!(f, "profile `{profile}`"),
            Self::CliFile(path) => write!(f, "Cursor CLI, {}", path.display()),
            Self::Keychain(service) => write!(f, "macOS keychain, {service}"),
            Self::Ide(path) => write!(f, "Cursor IDE, {}", path.display()),
            Self::Legacy(path) => write!(f, "older gateway, {}", path.display()),
            Self::OpenCode(path) => write!(f, "OpenCode, {}", path.display()),
        }
    }
}

/// A credential, and where it was.
#[derive(Clone, Debug)]
pub struct FoundCredential {
    pub credential: Credential,
    pub source: CredentialSource,
}

#[cfg(test)]
#[cfg(unix)]
#[path = "auth_tests/mod.rs"]
mod tests;
