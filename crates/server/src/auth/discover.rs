//! Looks for a credential, in an order that never changes: the environment, ibeam's own
//! file, and then, each with the user's consent, the files of other programs.
//!
//! *Invariant:* an earlier credential that cannot be used is an error, not a reason to use another
//! account.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use super::{
    AuthFileError, ConsentKind, Consents, Credential, CredentialFile, CredentialPaths,
    CredentialSource, FoundCredential, Profile,
    file::token,
    foreign::{self, ForeignOutcome},
};
use crate::{config::Env, files::FileError};

/// An access token as it is; the first that is set counts.
const TOKEN_VARIABLES: [&str; 3] =
    ["IBEAM_ACCESS_TOKEN", "CURSOR_ACCESS_TOKEN", "CURSOR_AUTH_TOKEN"];

pub const KEY_VARIABLE: &str = "CURSOR_API_KEY";

/// The Cursor CLI uses its file on macOS, too, where this says `file`.
const STORE_VARIABLE: &str = "AGENT_CLI_CREDENTIAL_STORE";

/// A directory with more files than this does not hold credentials.
const LEGACY_FILES: usize = 32;

/// The result of the search.
#[derive(Debug, Default)]
pub struct Discovery {
    pub found: Option<FoundCredential>,
    /// Credentials that come earlier in the order and were not used.
    pub refused: Vec<RefusedCredential>,
}

/// A place that may hold a credential, and was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCredential {
    pub kind: ConsentKind,
    /// A path, or the name of a keychain item.
    pub place: String,
    pub why: RefusedReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// The user has not been asked. Only the existence of the file was checked.
    NoConsent,
    /// It was read, and this is wrong with it.
    Unusable(String),
}

impl RefusedCredential {
    /// What to run so that it is used.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        match self.why {
            RefusedReason::NoConsent => Some(format!("ibeam login --use {}", self.kind)),
            RefusedReason::Unusable(_) => None,
        }
    }
}

impl fmt::Display for RefusedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, place, why } = self;
        match why {
            RefusedReason::NoConsent => write!(
                f,
                "{} may be signed in ({place}); `ibeam login --use {kind}` lets ibeam use that \
                 sign-in",
                kind.owner()
            ),
            RefusedReason::Unusable(what) => {
                write!(f, "cannot use {place} of {}: {what}", kind.owner())
            }
        }
    }
}

/// A credential was given, and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{0} has a space or another character that is invalid in a token")]
    Variable(&'static str),
    #[error(transparent)]
    File(#[from] AuthFileError),
}

impl From<FileError> for DiscoverError {
    fn from(error: FileError) -> Self {
        Self::File(error.into())
    }
}

/// Looks for the credential of `profile`. Other programs have no profiles: their files are used for
/// the default one only, so that a named profile is never another account.
///
/// # Errors
/// A variable or ibeam's own file is there, and cannot be used.
pub fn discover(
    env: &Env,
    home: &Path,
    profile: &Profile,
    consents: &Consents,
) -> Result<Discovery, DiscoverError> {
    let places = CredentialPaths::of(env, home);
    discover_in(&places, env, profile, consents)
}

pub(super) fn discover_in(
    places: &CredentialPaths,
    env: &Env,
    profile: &Profile,
    consents: &Consents,
) -> Result<Discovery, DiscoverError> {
    let found = match from_env(env)? {
        Some(found) => Some(found),
        None => CredentialFile::at(places.config(), profile).load()?.map(|credential| {
            FoundCredential { credential, source: CredentialSource::Own(profile.clone()) }
        }),
    };
    let mut search = CredentialSearch { consents, found, refused: Vec::new() };
    if profile.is_default() {
        for kind in ConsentKind::ALL {
            if search.found.is_none() {
                search.kind(kind, places, env);
            }
        }
    }
    Ok(Discovery { found: search.found, refused: search.refused })
}

fn from_env(env: &Env) -> Result<Option<FoundCredential>, DiscoverError> {
    let given = |name: &'static str| match env.get(name).map(|text| text.trim()) {
        None | Some("") => Ok(None),
        Some(text) => token(text).map(Some).ok_or(DiscoverError::Variable(name)),
    };
    for name in TOKEN_VARIABLES {
        if let Some(token) = given(name)? {
            let credential = Credential::of_access_token(token);
            return Ok(Some(FoundCredential { credential, source: CredentialSource::Env(name) }));
        }
    }
    let key = given(KEY_VARIABLE)?.map(Credential::of_api_key);
    Ok(key.map(|credential| FoundCredential { credential, source: CredentialSource::ApiKeyEnv }))
}

/// Goes through the files of other programs until one gives a credential.
struct CredentialSearch<'a> {
    consents: &'a Consents,
    found: Option<FoundCredential>,
    refused: Vec<RefusedCredential>,
}

impl CredentialSearch<'_> {
    fn kind(&mut self, kind: ConsentKind, places: &CredentialPaths, env: &Env) {
        match kind {
            ConsentKind::Cli => {
                for path in places.cli_files() {
                    self.file(kind, &path, foreign::cli, CredentialSource::CliFile);
                }
            }
            ConsentKind::Keychain => {
                let forced = env.get(STORE_VARIABLE).is_some_and(|store| store == "file");
                if places.has_keychain() && !forced {
                    self.keychain();
                }
            }
            ConsentKind::Ide => {
                self.file(kind, &places.ide_database(), foreign::ide::read, CredentialSource::Ide);
            }
            ConsentKind::Legacy => {
                for path in legacy_files(&places.legacy_dir()) {
                    self.file(kind, &path, foreign::legacy, CredentialSource::Legacy);
                }
            }
            ConsentKind::OpenCode => {
                let path = places.open_code_file();
                self.file(kind, &path, foreign::open_code, CredentialSource::OpenCode);
            }
        }
    }

    fn file(
        &mut self,
        kind: ConsentKind,
        path: &Path,
        read: fn(&Path) -> ForeignOutcome,
        source: fn(PathBuf) -> CredentialSource,
    ) {
        // Opening anything else, such as a pipe, could block for ever.
        if self.found.is_none() && path.is_file() {
            let place = path.display().to_string();
            self.place(kind, place, || read(path), || source(path.to_path_buf()));
        }
    }

    /// Something exists at `place`; it is read only with consent.
    fn place(
        &mut self,
        kind: ConsentKind,
        place: String,
        read: impl FnOnce() -> ForeignOutcome,
        source: impl FnOnce() -> CredentialSource,
    ) {
        if !self.consents.has(kind) {
            self.refused.push(RefusedCredential { kind, place, why: RefusedReason::NoConsent });
            return;
        }
        match read() {
            Ok(Some(credential)) => {
                self.found = Some(FoundCredential { credential, source: source() })
            }
            // That program is signed out.
            Ok(None) => {}
            Err(what) => self.refused.push(RefusedCredential {
                kind,
                place,
                why: RefusedReason::Unusable(what),
            }),
        }
    }

    #[cfg(target_os = "macos")]
    fn keychain(&mut self) {
        use foreign::keychain::{ACCESS, PROBE, PROGRAM, WAIT, is_there, read};
        let program = Path::new(PROGRAM);
        if self.found.is_none() && is_there(program, PROBE) {
            let source = || CredentialSource::Keychain(ACCESS);
            self.place(ConsentKind::Keychain, ACCESS.to_owned(), || read(program, WAIT), source);
        }
    }

    #[cfg(not(target_os = "macos"))]
    fn keychain(&mut self) {}
}

/// Every file that the search may look at, in its order.
pub(super) fn foreign_files(places: &CredentialPaths) -> Vec<(ConsentKind, PathBuf)> {
    let files = |kind| match kind {
        ConsentKind::Cli => places.cli_files(),
        ConsentKind::Keychain => Vec::new(),
        ConsentKind::Ide => vec![places.ide_database()],
        ConsentKind::Legacy => legacy_files(&places.legacy_dir()),
        ConsentKind::OpenCode => vec![places.open_code_file()],
    };
    let of = |kind| files(kind).into_iter().map(move |path| (kind, path));
    ConsentKind::ALL.into_iter().flat_map(of).collect()
}

/// `cursor.json` first, then the others by name.
fn legacy_files(dir: &Path) -> Vec<PathBuf> {
    let names = |entries: std::fs::ReadDir| {
        let entries = entries.take(LEGACY_FILES).collect::<io::Result<Vec<_>>>().ok()?;
        Some(entries.into_iter().map(|entry| entry.path()).collect::<Vec<_>>())
    };
    let mut files = dir.read_dir().ok().and_then(names).unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort_unstable_by_key(|path| (!path.ends_with("cursor.json"), path.clone()));
    files
}
