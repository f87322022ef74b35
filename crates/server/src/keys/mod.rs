//! Keys for local clients: which may call, and which one called.
//!
//! Keys are random and long, so their SHA-256 is all that is kept. A request's key is
//! compared with every one there is, each time in the same way.

mod file;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ibeam_core::{challenge, constant_time, model::ids};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{info, warn};

use file::KeySet;
pub use file::{KeyFile, KeyFileError, KeyInfo};

use crate::{config::Config, random, stamp::FileStamp};

/// The prefix of every key, so that people and scanners recognize one.
pub const PREFIX: &str = "ibk_";

/// Identifies the owner of this process, whatever its key. No client can send it.
const OWNER: &[u8] = b"\0the owner of the gateway";

/// The file is checked again after this long, and at once for an unknown key.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) type KeyHash = [u8; 32];

/// The client that calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// SHA-256 of the valid key or, if none is needed, of the one that came. It distinguishes
    /// clients; the key itself is not passed on.
    pub id: [u8; 32],
    /// The name of the key, if it has one.
    pub name: Option<Arc<str>>,
    /// How many turns it may run at once, if the key has a limit.
    pub limit: Option<usize>,
    /// There are other keys, and it leaves room for them.
    pub shares: bool,
}

impl Caller {
    /// Up to this many slots of anything it need not leave room for other keys.
    pub(crate) fn assured(&self) -> usize {
        match self.limit {
            _ if !self.shares => usize::MAX,
            Some(own) => own,
            None => 0,
        }
    }
}

/// Why a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// It brought no key.
    Missing,
    Wrong,
}

/// All valid keys. Notices those that are added and revoked.
pub struct Keys {
    /// The one of the setting `api_key`.
    own: Option<KeyHash>,
    file: Option<PathBuf>,
    state: Mutex<KeysState>,
}

#[derive(Default)]
struct KeysState {
    /// Every request needs a key. Once set it stays set, also when the file is deleted or the last
    /// key revoked.
    required: bool,
    set: Arc<KeySet>,
    stamp: Option<FileStamp>,
    looked: Option<Instant>,
    /// The file has changed and could not be read: it is tried again.
    unread: bool,
    /// The key of this one process, which its user's other programs find.
    instance: Option<KeyHash>,
    /// The address under which they find it.
    authority: String,
}

/// A fresh key. It exists only here.
#[must_use]
pub fn generate() -> SecretString {
    SecretString::from(format!("{PREFIX}{}", ids::hex(&random::bytes::<32>())))
}

impl Keys {
    /// The keys of a gateway with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let mut keys = Self::single(config.access.api_key.as_ref());
        keys.file.clone_from(&config.access.keys_file);
        // One listener that others can reach is enough: all of them share the keys.
        keys.state.get_mut().required |= config.exposed().is_some();
        keys.look(true);
        keys
    }

    /// Only this one, or none: then everyone may call.
    #[must_use]
    pub fn single(key: Option<&SecretString>) -> Self {
        let own = key.map(|key| Sha256::digest(key.expose_secret()).into());
        let state = KeysState { required: own.is_some(), ..KeysState::default() };
        Self { own, file: None, state: Mutex::new(state) }
    }

    /// The caller that these belong to, a bearer token and a plain key.
    ///
    /// # Errors
    /// A key is needed, and none of them is one.
    pub fn check(&self, bearer: Option<&str>, plain: Option<&str>) -> Result<Caller, KeyRefusal> {
        self.look(false);
        match self.known(bearer, plain) {
            // It may have been added a moment ago.
            Err(KeyRefusal::Wrong) if self.look(true) => self.known(bearer, plain),
            outcome => outcome,
        }
    }

    /// From now on this key is valid, too, as long as the process runs. It identifies the owner of
    /// the process, who is the same caller after a restart with another key. `authority` is where
    /// they find it, such as `127.0.0.1:18741`.
    pub fn admit(&self, key: &SecretString, authority: &str) {
        let mut state = self.state.lock();
        state.instance = Some(Sha256::digest(key.expose_secret()).into());
        authority.clone_into(&mut state.authority);
    }

    /// Shows that this process has the key of [`Keys::admit`]. None: it has none, or the
    /// challenge is not a valid one.
    #[must_use]
    pub fn prove(&self, challenge: &str) -> Option<String> {
        let state = self.state.lock();
        let instance = state.instance.filter(|_| challenge::is_challenge(challenge))?;
        Some(challenge::proof(&instance, &state.authority, challenge))
    }

    /// Whether every request needs a key.
    #[must_use]
    pub fn are_required(&self) -> bool {
        self.state.lock().required
    }

    fn known(&self, bearer: Option<&str>, plain: Option<&str>) -> Result<Caller, KeyRefusal> {
        let (required, set, instance) = {
            let state = self.state.lock();
            (state.required, Arc::clone(&state.set), state.instance)
        };
        // Without required keys a caller can pose as any other: shares would protect nothing.
        let keys = set.keys().len() + usize::from(self.own.is_some());
        let shares = required && keys + usize::from(instance.is_some()) > 1;
        let brings = |hash: KeyHash| {
            let given = [bearer, plain].into_iter().flatten();
            given.fold(false, |any, given| any | constant_time::eq(&Sha256::digest(given), &hash))
        };
        if instance.is_some_and(brings) {
            return Ok(Caller { id: Sha256::digest(OWNER).into(), shares, ..Caller::default() });
        }
        if !required {
            let id = Sha256::digest(bearer.or(plain).unwrap_or_default()).into();
            return Ok(Caller { id, ..Caller::default() });
        }
        let mut found = None;
        for given in [bearer, plain].into_iter().flatten() {
            let given: KeyHash = Sha256::digest(given).into();
            // All of them, so that the time reveals nothing.
            for key in set.keys() {
                if constant_time::eq(&given, &key.hash) {
                    found = Some(Caller {
                        id: given,
                        name: Some(Arc::clone(&key.name)),
                        limit: key.limit,
                        shares,
                    });
                }
            }
            if self.own.is_some_and(|own| constant_time::eq(&given, &own)) {
                found = Some(Caller { id: given, shares, ..Caller::default() });
            }
        }
        let missing = bearer.is_none() && plain.is_none();
        found.ok_or(if missing { KeyRefusal::Missing } else { KeyRefusal::Wrong })
    }

    /// Checks whether the file has changed. True: it has.
    fn look(&self, now: bool) -> bool {
        let Some(path) = &self.file else { return false };
        let mut state = self.state.lock();
        let due = state.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        if !due && (!now || state.unread) {
            return false;
        }
        state.looked = Some(Instant::now());
        let stamp = FileStamp::of(path);
        if stamp == state.stamp && !state.unread {
            return false;
        }
        let first = state.stamp.is_none();
        let again = stamp == state.stamp;
        state.stamp = stamp;
        state.required |= stamp.is_some();
        match KeyFile::at(path).read() {
            Ok(set) => {
                if !first {
                    info!(keys = set.keys().len(), "the API keys have changed");
                }
                state.set = Arc::new(set);
                state.unread = false;
            }
            // Revoked keys may still be in there, but no others are accepted.
            Err(error) => {
                if !again {
                    warn!("cannot reload the API keys, so they stay as they were: {error}");
                }
                // The system may have been short of something; a file that is wrong
                // stays wrong until it is changed.
                state.unread = matches!(error, KeyFileError::Io { .. } | KeyFileError::File(_));
            }
        }
        true
    }
}

impl Default for Keys {
    /// Everyone may call.
    fn default() -> Self {
        Self::single(None)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Keys")
            .field("own", &self.own.is_some())
            .field("file", &self.file)
            .field("required", &state.required)
            .field("keys", &state.set.keys().len())
            .finish()
    }
}

/// Which clients may call, according to a key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPolicy {
    /// There is no file: every client on this machine.
    Open,
    /// The file has no key: no client.
    Shut,
    /// Clients with a key.
    Keys,
}

/// Reads the policy of a key file before the server starts.
///
/// # Errors
/// The file cannot be used.
pub fn policy(path: Option<&Path>) -> Result<KeyPolicy, KeyFileError> {
    let Some(path) = path else { return Ok(KeyPolicy::Open) };
    match KeyFile::at(path).list()?.len() {
        0 if FileStamp::of(path).is_none() => Ok(KeyPolicy::Open),
        0 => Ok(KeyPolicy::Shut),
        _ => Ok(KeyPolicy::Keys),
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
