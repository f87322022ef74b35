//! Where the secrets of ibeam's own credentials are: in its file, or in the system's keychain if
//! the file says so.
//!
//! *Invariant:* what the file says is followed when it is read, what the user chose when it is
//! written. A changed setting takes effect with the next write, and until then the credential is
//! where it was.

mod queue;
mod system;

use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use self::{queue::PatientKeychain, system::SystemKeychain};
use crate::config::{CredentialStorage, KEYCHAIN_BUILD, Profile};

/// Under which all items of ibeam are; the account is the profile.
const SERVICE: &str = "ibeam";

/// The field of the file that says where the secrets are, if not in the file alone: in
/// the keychain, or there is a copy in it, which is not read any more.
const PLACE: &str = "secrets";
const IN_KEYCHAIN: &str = "keychain";
const IN_BOTH: &str = "both";

/// The fields that are secret.
const SECRETS: [&str; 3] = ["access", "refresh", "apiKey"];

/// A user has to find and answer a dialog.
const WAIT: Duration = Duration::from_secs(60);

/// Why a keychain call failed. As far as is known, nothing has changed in it. No message contains a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeychainError {
    #[error(
        "these credentials are in the system's keychain, which this build of ibeam does not \
         support; build one that does with `{KEYCHAIN_BUILD}`, or sign in again with `ibeam login`"
    )]
    NotBuilt,
    #[error("no keychain is available here ({0}); {START}, or {OTHERWISE}")]
    Unavailable(String),
    #[error("the keychain cannot be opened ({0}); unlock it and try again, or {OTHERWISE}")]
    Closed(String),
    #[error(
        "the keychain has not answered for {} s; check whether it shows a prompt, or {OTHERWISE}",
        .0.as_secs()
    )]
    NoAnswer(Duration),
    #[error(
        "the keychain has no item of the service `{SERVICE}` for the account `{0}` any more; \
         `ibeam login` creates a new one"
    )]
    Gone(String),
    #[error(
        "the item for `{account}` in the keychain is damaged: {what}; `ibeam login` creates a new \
         one"
    )]
    Malformed { account: String, what: String },
    #[error("the keychain stores at most {0} bytes, and these credentials are larger; {OTHERWISE}")]
    TooLong(u32),
    #[error("the keychain failed: {0}; {OTHERWISE}")]
    Failed(String),
}

impl KeychainError {
    /// It may answer the next time.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Closed(_) | Self::NoAnswer(_) | Self::Failed(_) => true,
            Self::NotBuilt | Self::Gone(_) | Self::Malformed { .. } | Self::TooLong(_) => false,
        }
    }
}

const START: &str = if cfg!(any(windows, target_os = "macos")) {
    "run ibeam where you are logged in"
} else {
    "start GNOME Keyring, KWallet or another Secret Service in your session"
};

const OTHERWISE: &str = "use a file instead: `IBEAM_CREDENTIALS=file ibeam login`";

/// The keychain of a system: a text for each account. Calls block, and may ask the user.
pub(super) trait Keychain: fmt::Debug + Send + Sync {
    fn get(&self, account: &str) -> Result<Option<SecretString>, KeychainError>;

    /// Puts a text in place of what is there, if anything is.
    fn set(&self, account: &str, text: &SecretString) -> Result<(), KeychainError>;

    /// Says whether there was one.
    fn delete(&self, account: &str) -> Result<bool, KeychainError>;
}

/// What came of a write, besides what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedCredential {
    /// The secrets were elsewhere before.
    pub moved: Option<CredentialStorage>,
    /// The keychain still has its copy.
    pub left: Option<KeychainError>,
}

impl SavedCredential {
    /// What the user should know of it.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.moved.map(|to| match to {
            CredentialStorage::Keychain => {
                "the credentials were moved from ibeam's file to the keychain".into()
            }
            CredentialStorage::File => {
                "the credentials were moved from the keychain to ibeam's file".into()
            }
        }));
        notes.extend(self.left.as_ref().map(|why| {
            format!("the keychain still has a copy, until the next write or `ibeam logout`: {why}")
        }));
        notes
    }
}

/// Puts secrets where the user wants them, and finds them where they are.
#[derive(Clone, Debug)]
pub(super) struct CredentialVault {
    keep: CredentialStorage,
    keychain: PatientKeychain,
}

impl Default for CredentialVault {
    /// One line of callers for the whole process: the keychain is one, too.
    fn default() -> Self {
        static HERE: LazyLock<PatientKeychain> =
            LazyLock::new(|| PatientKeychain::new(Arc::new(SystemKeychain), WAIT));
        Self { keep: CredentialStorage::File, keychain: HERE.clone() }
    }
}

impl CredentialVault {
    #[cfg(test)]
    pub(super) fn of(keep: CredentialStorage, keychain: Arc<dyn Keychain>, wait: Duration) -> Self {
        Self { keep, keychain: PatientKeychain::new(keychain, wait) }
    }

    pub(super) fn keeping(self, keep: CredentialStorage) -> Self {
        Self { keep, ..self }
    }

    pub(super) fn keep(&self) -> CredentialStorage {
        self.keep
    }

    /// Whether there is a keychain to write to, if that is what the user wants. Better
    /// known before a sign-in than after it.
    pub(super) fn reach(&self, profile: &Profile) -> Result<(), KeychainError> {
        match self.keep {
            CredentialStorage::File => Ok(()),
            CredentialStorage::Keychain => self.get(profile).map(drop),
        }
    }

    /// Puts the secrets into the fields of a file that says they are in the keychain.
    pub(super) fn fill(
        &self,
        profile: &Profile,
        fields: &mut Map<String, Value>,
    ) -> Result<(), KeychainError> {
        if kept(fields) != Some(CredentialStorage::Keychain) {
            return Ok(());
        }
        let account = profile.as_str();
        let text = self.get(profile)?.ok_or_else(|| KeychainError::Gone(account.to_owned()))?;
        let malformed = |what: &str| KeychainError::Malformed {
            account: account.to_owned(),
            what: what.to_owned(),
        };
        let mut item: Map<String, Value> = serde_json::from_str(text.expose_secret())
            .map_err(|_| malformed("it is not a JSON object"))?;
        for name in SECRETS {
            match item.remove(name) {
                Some(secret) => drop(fields.insert(name.to_owned(), secret)),
                None => drop(fields.remove(name)),
            }
        }
        if kept_secrets(fields) { Ok(()) } else { Err(malformed("it has no token")) }
    }

    /// Takes the secrets out of the fields of a file, once they are in the keychain.
    pub(super) fn stow(
        &self,
        profile: &Profile,
        fields: &mut Map<String, Value>,
        look_again: bool,
    ) -> Result<(), KeychainError> {
        let names = || SECRETS.iter().copied();
        let item = names().filter_map(|name| Some((name.to_owned(), fields.get(name)?.clone())));
        let item = Value::Object(item.collect());
        let text = SecretString::from(item.to_string());
        let (account, given) = (profile.to_string(), text.clone());
        self.keychain.ask(move |keychain| keychain.set(&account, &given))?;
        // The file is about to lose the only other copy, to a keychain that may be new.
        if look_again {
            let stored = self.get(profile)?;
            let same = stored.is_some_and(|it| it.expose_secret() == text.expose_secret());
            if !same {
                return Err(KeychainError::Failed("it does not return what was stored".to_owned()));
            }
        }
        for name in names() {
            fields.remove(name);
        }
        fields.insert(PLACE.to_owned(), IN_KEYCHAIN.into());
        Ok(())
    }

    /// Deletes the item. Says whether there was one.
    pub(super) fn forget(&self, profile: &Profile) -> Result<bool, KeychainError> {
        let account = profile.to_string();
        self.keychain.ask(move |keychain| keychain.delete(&account))
    }

    fn get(&self, profile: &Profile) -> Result<Option<SecretString>, KeychainError> {
        let account = profile.to_string();
        self.keychain.ask(move |keychain| keychain.get(&account))
    }
}

/// Where the secrets of a file with these fields are; `None` if it has none.
pub(super) fn kept(fields: &Map<String, Value>) -> Option<CredentialStorage> {
    if fields.get(PLACE).and_then(Value::as_str) == Some(IN_KEYCHAIN) {
        return Some(CredentialStorage::Keychain);
    }
    kept_secrets(fields).then_some(CredentialStorage::File)
}

/// Whether the keychain has an item, be it one that is not read any more.
pub(super) fn has_item(fields: &Map<String, Value>) -> bool {
    fields.contains_key(PLACE)
}

/// The secrets are in the file from now on; what is in the keychain is a copy.
pub(super) fn claim(fields: &mut Map<String, Value>) {
    if let Some(place) = fields.get_mut(PLACE) {
        *place = IN_BOTH.into();
    }
}

/// The copy is gone.
pub(super) fn disown(fields: &mut Map<String, Value>) {
    fields.remove(PLACE);
}

fn kept_secrets(fields: &Map<String, Value>) -> bool {
    SECRETS.iter().any(|name| fields.get(*name).is_some_and(|secret| !secret.is_null()))
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
