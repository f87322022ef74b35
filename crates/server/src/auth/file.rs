//! ibeam's own credentials, a file for each profile:
//!
//! ```json
//! {"type": "oauth", "access": "…", "refresh": "…", "expires": 1234567890000}
//! ```
//!
//! and `apiKey` and `account` where they are known. `expires` is in milliseconds. Where
//! the user wants it so, the secrets are in the keychain ([`super::vault`]).

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tracing::{info, warn};

use super::{
    Account, AuthFileError, Credential, FileLock, KeychainError, Profile, SavedCredential,
    vault::{self, CredentialVault},
};
use crate::{
    config::CredentialStorage,
    files::{self, FileError, private},
};

/// In ibeam's config directory, which may hold less private things.
const DIR: &str = "credentials";

/// The credentials of one profile. Reading needs no lock, since the file is replaced as
/// a whole; writing is done through [`FileLock`].
#[derive(Clone, Debug)]
pub struct CredentialFile {
    dir: PathBuf,
    path: PathBuf,
    profile: Profile,
    vault: CredentialVault,
}

impl CredentialFile {
    /// The file of `profile` in ibeam's config directory (`CredentialPaths::config`).
    #[must_use]
    pub fn at(config_dir: &Path, profile: &Profile) -> Self {
        let dir = config_dir.join(DIR);
        let path = dir.join(format!("{profile}.json"));
        Self { dir, path, profile: profile.clone(), vault: CredentialVault::default() }
    }

    /// The same, with its secrets where the user wants them. They move with the next
    /// write.
    #[must_use]
    pub fn keeping(self, keep: CredentialStorage) -> Self {
        Self { vault: self.vault.keeping(keep), ..self }
    }

    #[cfg(test)]
    pub(super) fn with_vault(self, vault: CredentialVault) -> Self {
        Self { vault, ..self }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The profiles that have a file, in the order of their names.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn profiles(config_dir: &Path) -> Result<Vec<Profile>, AuthFileError> {
        let dir = config_dir.join(DIR);
        let failed = || FileError::io("list", &dir);
        let entries = match dir.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            outcome => outcome.map_err(failed())?,
        };
        let mut profiles = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed())?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            profiles.extend(name.and_then(|name| name.parse().ok()));
        }
        profiles.sort_unstable();
        Ok(profiles)
    }

    /// The credential in the file; `None` if there is no file.
    ///
    /// # Errors
    /// There is one, and it cannot or must not be used. The text says what to do.
    pub fn load(&self) -> Result<Option<Credential>, AuthFileError> {
        private::check_dir(&self.dir)?;
        match self.look() {
            // Another process may have moved it in between; the file knows by now.
            Err(AuthFileError::Keychain(KeychainError::Gone(_))) => self.look(),
            outcome => outcome,
        }
    }

    fn look(&self) -> Result<Option<Credential>, AuthFileError> {
        let Some(text) = self.read()? else { return Ok(None) };
        let malformed = |what: String| self.malformed(what);
        let mut fields = object(&text).map_err(malformed)?;
        self.vault.fill(&self.profile, &mut fields)?;
        parse(&fields).map(Some).map_err(malformed)
    }

    fn read(&self) -> Result<Option<String>, AuthFileError> {
        private::read(&self.path).map_err(|error| match error {
            FileError::Invalid { what, .. } => self.malformed(what.to_owned()),
            error => error.into(),
        })
    }

    fn malformed(&self, what: String) -> AuthFileError {
        AuthFileError::Malformed { path: self.path.clone(), what }
    }

    /// Whether there is a keychain to write to, if the user wants one. Blocks, and may
    /// ask the user.
    ///
    /// # Errors
    /// The keychain is unavailable. The text says what to do.
    pub fn reach(&self) -> Result<(), AuthFileError> {
        Ok(self.vault.reach(&self.profile)?)
    }

    /// Waits for the lock on the file, at most `wait`. Dropping it releases the lock.
    ///
    /// # Errors
    /// It took too long, or the directory cannot be written.
    pub async fn lock(&self, wait: Duration) -> Result<FileLock, AuthFileError> {
        FileLock::acquire(self, wait).await
    }

    pub fn lock_path(&self) -> PathBuf {
        self.dir.join(format!("{}.lock", self.profile))
    }

    pub(super) fn make_dir(&self) -> Result<(), AuthFileError> {
        Ok(private::make_secret_dir(&self.dir)?)
    }

    pub(super) fn save(&self, credential: &Credential) -> Result<SavedCredential, AuthFileError> {
        self.make_dir()?;
        // A killed process may have left its half of a file, and a secret in it.
        self.sweep()?;
        let mut fields = match self.read() {
            Ok(text) => text.and_then(|text| object(&text).ok()).unwrap_or_default(),
            // A file with wrong permissions is fixed by replacing it; one that is not text has
            // nothing to keep.
            Err(
                AuthFileError::File(FileError::Exposed { .. }) | AuthFileError::Malformed { .. },
            ) => Map::new(),
            Err(error) => return Err(error),
        };
        let (before, item) = (vault::kept(&fields), vault::has_item(&fields));
        write_fields(&mut fields, credential);
        let keep = self.vault.keep();
        match keep {
            CredentialStorage::File => vault::claim(&mut fields),
            // Before the file, which has the old secrets until these are safe.
            CredentialStorage::Keychain => {
                self.vault.stow(
                    &self.profile,
                    &mut fields,
                    before != Some(CredentialStorage::Keychain),
                )?;
            }
        }
        self.write(&fields)?;
        let moved = before.is_some_and(|before| before != keep).then_some(keep);
        let mut left = None;
        if item && keep == CredentialStorage::File {
            left = self.vault.forget(&self.profile).err();
            if left.is_none() {
                vault::disown(&mut fields);
                self.write(&fields)?;
            }
        }
        let saved = SavedCredential { moved, left };
        saved.notes().iter().for_each(|note| match saved.left {
            Some(_) => warn!("{note}"),
            None => info!("{note}"),
        });
        Ok(saved)
    }

    fn write(&self, fields: &Map<String, Value>) -> Result<(), AuthFileError> {
        let text = serde_json::to_string_pretty(fields)
            .map_err(|error| FileError::io("write", &self.path)(error.into()))?;
        Ok(private::replace(&self.path, &(text + "\n"))?)
    }

    fn sweep(&self) -> Result<(), FileError> {
        files::sweep(&self.path).map_err(FileError::io("clean up", &self.dir))
    }

    /// Deletes the file, and the keychain's item where the file or the user says that
    /// there may be one.
    pub(super) fn remove(&self) -> Result<bool, AuthFileError> {
        self.sweep()?;
        let fields = self.read().ok().flatten().and_then(|text| object(&text).ok());
        let item = fields.is_some_and(|fields| vault::has_item(&fields));
        // First, because only the file says that the item exists.
        let item = if item || self.vault.keep() == CredentialStorage::Keychain {
            self.vault.forget(&self.profile)?
        } else {
            false
        };
        let removed = files::remove(&self.path).map_err(FileError::io("delete", &self.path))?;
        Ok(removed || item)
    }
}

/// The errors of the parser say where, and quote nothing.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        Err(error) => Err(format!("not valid JSON at line {}", error.line())),
    }
}

fn parse(fields: &Map<String, Value>) -> Result<Credential, String> {
    match fields.get("type").map(Value::as_str) {
        None | Some(Some("oauth")) => {}
        Some(_) => return Err("`type` is not `oauth`".to_owned()),
    }
    let account = match fields.get("account") {
        None | Some(Value::Null) => None,
        Some(Value::Object(account)) => {
            Some(Account { email: text(account, "email")?, sub: text(account, "sub")? })
        }
        Some(_) => return Err("`account` is not an object".to_owned()),
    };
    let credential = Credential {
        access_token: secret(fields, "access")?,
        refresh_token: secret(fields, "refresh")?,
        api_key: secret(fields, "apiKey")?,
        account,
        expires: expires(fields)?,
    };
    if credential.is_empty() {
        return Err("it has no token".to_owned());
    }
    Ok(credential)
}

fn write_fields(fields: &mut Map<String, Value>, credential: &Credential) {
    let Credential { access_token, refresh_token, api_key, account, expires } = credential;
    let exposed = |secret: &Option<SecretString>| {
        secret.as_ref().map(|secret| Value::from(secret.expose_secret()))
    };
    let mut put = |name: &str, value: Option<Value>| match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    };
    put("type", Some("oauth".into()));
    put("access", exposed(access_token));
    put("refresh", exposed(refresh_token));
    put("apiKey", exposed(api_key));
    put("expires", expires.map(|seconds| seconds.saturating_mul(1000).into()));
    let account = account.as_ref().map(|Account { email, sub }| {
        let parts = [("email", email), ("sub", sub)];
        let parts = parts
            .iter()
            .filter_map(|(name, value)| Some(((*name).to_owned(), Value::from(value.as_deref()?))));
        Value::Object(parts.collect())
    });
    put("account", account);
}

/// A field that is missing, null or empty counts as absent.
pub(super) fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|t| !t.is_empty())),
        Some(_) => Err(format!("`{name}` is not a string")),
    }
}

/// A text that can stand in a header.
pub(super) fn secret(
    fields: &Map<String, Value>,
    name: &str,
) -> Result<Option<SecretString>, String> {
    let Some(text) = text(fields, name)? else { return Ok(None) };
    named_token(name, &text).map(Some)
}

/// The same for a text that was found under `name`.
pub(super) fn named_token(name: &str, text: &str) -> Result<SecretString, String> {
    token(text).ok_or_else(|| format!("`{name}` is not a valid token"))
}

/// What can be sent as a token. People copy it from a header, prefix and all.
pub(super) fn token(text: &str) -> Option<SecretString> {
    let text = text.trim();
    let text = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    let sound = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    sound.then(|| SecretString::from(text))
}

/// Seconds since 1970, of milliseconds.
pub(super) fn expires(fields: &Map<String, Value>) -> Result<Option<u64>, String> {
    let Some(value) = fields.get("expires").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    // Some write whole numbers as `1.7e12`.
    let whole = |number: f64| (number >= 0.0).then_some(number as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    let number = number.ok_or("`expires` is not a valid time")?;
    // Zero is how others write that they do not know.
    Ok(Some(number / 1000).filter(|at| *at > 0))
}
