//! The file with the hashes of the keys. It is replaced whole, so that a reader sees the
//! old one or the new one.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ibeam_core::model::ids;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{KeyHash, generate};
use crate::files::{self, FileAccess, FileError, lock, private};

const VERSION: u32 = 1;

/// Every request is compared with all of them.
const MOST: usize = 1000;

const NAME_CAP: usize = 64;

/// For others to change the file, which takes them a moment.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Why a key file cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("cannot use {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("other users can read or change {0}")]
    Open(PathBuf),
    #[error("{path} is not a key file: {reason}")]
    Broken { path: PathBuf, reason: String },
    #[error("{0} was written by a later version of ibeam")]
    Later(PathBuf),
    #[error("a key named `{0}` already exists")]
    Taken(String),
    #[error("`{0}` is not a valid key name")]
    Name(String),
    #[error("the limit of {MOST} keys is reached")]
    Many,
}

impl KeyFileError {
    /// What helps.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } | Self::File(_) => {
                "check that the folder exists and is yours".to_owned()
            }
            Self::Open(path) => format!("chmod 600 {}", path.display()),
            Self::Broken { path, .. } => {
                format!("remove {} and make new keys: `ibeam keys add NAME`", path.display())
            }
            Self::Later(_) => "use that version".to_owned(),
            Self::Taken(name) => {
                format!("choose another name, or first `ibeam keys revoke {name}`")
            }
            Self::Name(_) => "use up to 64 letters, digits, dots, dashes and underscores, \
                              a letter or a digit first"
                .to_owned(),
            Self::Many => "revoke some: `ibeam keys revoke NAME`".to_owned(),
        }
    }
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyInfo {
    pub name: String,
    /// Unix seconds.
    pub created: u64,
    pub limit: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeyDocument {
    version: u32,
    keys: Vec<KeyLine>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeyLine {
    name: String,
    sha256: String,
    created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
}

/// The keys, ready for comparing.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<KeyEntry>);

#[derive(Debug)]
pub(super) struct KeyEntry {
    pub(super) name: Arc<str>,
    pub(super) hash: KeyHash,
    pub(super) limit: Option<usize>,
}

impl KeySet {
    pub(super) fn keys(&self) -> &[KeyEntry] {
        &self.0
    }
}

/// A key file, there or not.
#[derive(Debug)]
pub struct KeyFile<'a>(&'a Path);

impl<'a> KeyFile<'a> {
    #[must_use]
    pub fn at(path: &'a Path) -> Self {
        Self(path)
    }

    /// All keys, in the order of their making. A file that is not there has none.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn list(&self) -> Result<Vec<KeyInfo>, KeyFileError> {
        let keys = self.load()?.keys.into_iter();
        Ok(keys
            .map(|KeyLine { name, created, limit, .. }| KeyInfo { name, created, limit })
            .collect())
    }

    /// Creates a key. It is shown only this once.
    ///
    /// # Errors
    /// The name is invalid or taken, or the file cannot be changed.
    pub fn add(
        &self,
        name: &str,
        limit: Option<usize>,
        now: u64,
    ) -> Result<SecretString, KeyFileError> {
        if !is_name(name) {
            return Err(KeyFileError::Name(name.chars().take(NAME_CAP).collect()));
        }
        let _lock = self.lock()?;
        let mut document = self.load()?;
        if document.keys.iter().any(|key| key.name == name) {
            return Err(KeyFileError::Taken(name.to_owned()));
        }
        if document.keys.len() >= MOST {
            return Err(KeyFileError::Many);
        }
        let key = generate();
        document.keys.push(KeyLine {
            name: name.to_owned(),
            sha256: ids::hex(&Sha256::digest(key.expose_secret())),
            created: now,
            limit,
        });
        self.save(&document)?;
        Ok(key)
    }

    /// Revokes a key. Returns how many are left, or `None` if there was no such key.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn revoke(&self, name: &str) -> Result<Option<usize>, KeyFileError> {
        // Nothing is made for the sake of a key that cannot be there.
        if !self.0.exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        let mut document = self.load()?;
        let before = document.keys.len();
        document.keys.retain(|key| key.name != name);
        if document.keys.len() == before {
            return Ok(None);
        }
        self.save(&document)?;
        Ok(Some(document.keys.len()))
    }

    pub(super) fn read(&self) -> Result<KeySet, KeyFileError> {
        let keys = self.load()?.keys.into_iter().map(|line| {
            let hash = from_hex(&line.sha256).ok_or_else(|| {
                self.broken(format!("the hash of `{}` is invalid", line.name.escape_debug()))
            })?;
            Ok(KeyEntry { name: line.name.into(), hash, limit: line.limit })
        });
        keys.collect::<Result<_, _>>().map(KeySet)
    }

    fn load(&self) -> Result<KeyDocument, KeyFileError> {
        let text = match std::fs::read(self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KeyDocument { version: VERSION, keys: Vec::new() });
            }
            Err(error) => return Err(self.io(error)),
        };
        if files::others_may_use(self.0) {
            return Err(KeyFileError::Open(self.0.to_path_buf()));
        }
        let document: KeyDocument =
            serde_json::from_slice(&text).map_err(|error| self.broken(error.to_string()))?;
        match document.version {
            VERSION => Ok(document),
            later if later > VERSION => Err(KeyFileError::Later(self.0.to_path_buf())),
            _ => Err(self.broken("it has no version".to_owned())),
        }
    }

    fn save(&self, document: &KeyDocument) -> Result<(), KeyFileError> {
        let text =
            serde_json::to_vec_pretty(document).map_err(|error| self.broken(error.to_string()))?;
        let text = [text.as_slice(), b"\n"].concat();
        files::replace(self.0, &text, FileAccess::Private).map_err(|error| self.io(error))
    }

    /// Held while the file is read, changed and written.
    fn lock(&self) -> Result<File, KeyFileError> {
        if let Some(folder) = self.0.parent() {
            private::make_dir(folder)?;
        }
        Ok(lock::acquire_blocking(&self.lock_path(), LOCK_WAIT)?)
    }

    pub fn lock_path(&self) -> PathBuf {
        self.0.with_extension("lock")
    }

    fn io(&self, source: io::Error) -> KeyFileError {
        KeyFileError::Io { path: self.0.to_path_buf(), source }
    }

    fn broken(&self, reason: String) -> KeyFileError {
        KeyFileError::Broken { path: self.0.to_path_buf(), reason }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_CAP
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn from_hex(text: &str) -> Option<KeyHash> {
    let mut hash = KeyHash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}
