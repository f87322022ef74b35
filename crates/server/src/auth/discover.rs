//! Looks for a credential, in an order that never changes: the environment, ibeam's own
//! file, and then, each with the user's consent, the files of other programs.
//!
//! *Invariant:* what stands earlier in the order and cannot be used is an error, not a
//! reason to take another account.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use super::{
    AuthFileError, Consents, Credential, CredentialFile, Found, Kind, Places, Profile, Source,
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

/// A directory that holds more than this is no directory of credentials.
const LEGACY_FILES: usize = 32;

/// What the search came to.
#[derive(Debug, Default)]
pub struct Discovery {
    pub found: Option<Found>,
    /// What stood in the order before it, and was not used.
    pub refused: Vec<Refused>,
}

/// A place that may hold a credential, and was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub kind: Kind,
    /// A path, or the name of a keychain item.
    pub place: String,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The user has not been asked. Only the place's existence was looked at.
    NoConsent,
    /// It was read, and this is wrong with it.
    Unusable(String),
}

impl Refused {
    /// What to run so that it is used.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        match self.why {
            Why::NoConsent => Some(format!("ibeam login --use {}", self.kind)),
            Why::Unusable(_) => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, place, why } = self;
        match why {
            Why::NoConsent => write!(
                f,
                "{} may be signed in ({place}); `ibeam login --use {kind}` lets ibeam read that",
                kind.owner()
            ),
            Why::Unusable(what) => write!(f, "cannot use {place} of {}: {what}", kind.owner()),
        }
    }
}

/// A credential was given, and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{0} has a space or another character that no token has")]
    Variable(&'static str),
    #[error(transparent)]
    File(#[from] AuthFileError),
}

impl From<FileError> for DiscoverError {
    fn from(error: FileError) -> Self {
        Self::File(error.into())
    }
}

/// Looks for the credential of `profile`. Other programs know no profiles: their files
/// are looked at for the default one only, so that a named one is never another account.
///
/// # Errors
/// A variable or ibeam's own file is there, and cannot be used.
pub fn discover(
    env: &Env,
    home: &Path,
    profile: &Profile,
    consents: &Consents,
) -> Result<Discovery, DiscoverError> {
    let places = Places::of(env, home);
    discover_in(&places, env, profile, consents)
}

pub(super) fn discover_in(
    places: &Places,
    env: &Env,
    profile: &Profile,
    consents: &Consents,
) -> Result<Discovery, DiscoverError> {
    let found = match from_env(env)? {
        Some(found) => Some(found),
        None => CredentialFile::at(places.config(), profile)
            .load()?
            .map(|credential| Found { credential, source: Source::Own(profile.clone()) }),
    };
    let mut search = Search { consents, found, refused: Vec::new() };
    if profile.is_default() {
        for kind in Kind::ALL {
            if search.found.is_none() {
                search.kind(kind, places, env);
            }
        }
    }
    Ok(Discovery { found: search.found, refused: search.refused })
}

fn from_env(env: &Env) -> Result<Option<Found>, DiscoverError> {
    let given = |name: &'static str| match env.get(name).map(|text| text.trim()) {
        None | Some("") => Ok(None),
        Some(text) => token(text).map(Some).ok_or(DiscoverError::Variable(name)),
    };
    for name in TOKEN_VARIABLES {
        if let Some(token) = given(name)? {
            let credential = Credential::of_access_token(token);
            return Ok(Some(Found { credential, source: Source::Env(name) }));
        }
    }
    let key = given(KEY_VARIABLE)?.map(Credential::of_api_key);
    Ok(key.map(|credential| Found { credential, source: Source::ApiKeyEnv }))
}

/// Goes through the files of other programs until one gives a credential.
struct Search<'a> {
    consents: &'a Consents,
    found: Option<Found>,
    refused: Vec<Refused>,
}

impl Search<'_> {
    fn kind(&mut self, kind: Kind, places: &Places, env: &Env) {
        match kind {
            Kind::Cli => {
                for path in places.cli_files() {
                    self.file(kind, &path, foreign::cli, Source::CliFile);
                }
            }
            Kind::Keychain => {
                let forced = env.get(STORE_VARIABLE).is_some_and(|store| store == "file");
                if places.has_keychain() && !forced {
                    self.keychain();
                }
            }
            Kind::Ide => {
                self.file(kind, &places.ide_database(), foreign::ide::read, Source::Ide);
            }
            Kind::Legacy => {
                for path in legacy_files(&places.legacy_dir()) {
                    self.file(kind, &path, foreign::legacy, Source::Legacy);
                }
            }
            Kind::OpenCode => {
                let path = places.open_code_file();
                self.file(kind, &path, foreign::open_code, Source::OpenCode);
            }
        }
    }

    fn file(
        &mut self,
        kind: Kind,
        path: &Path,
        read: fn(&Path) -> ForeignOutcome,
        source: fn(PathBuf) -> Source,
    ) {
        // Where something else stands, such as a pipe, opening it could take for ever.
        if self.found.is_none() && path.is_file() {
            let place = path.display().to_string();
            self.place(kind, place, || read(path), || source(path.to_path_buf()));
        }
    }

    /// There is something at `place`; what, is read only with consent.
    fn place(
        &mut self,
        kind: Kind,
        place: String,
        read: impl FnOnce() -> ForeignOutcome,
        source: impl FnOnce() -> Source,
    ) {
        if !self.consents.has(kind) {
            self.refused.push(Refused { kind, place, why: Why::NoConsent });
            return;
        }
        match read() {
            Ok(Some(credential)) => self.found = Some(Found { credential, source: source() }),
            // Nobody is signed in there.
            Ok(None) => {}
            Err(what) => self.refused.push(Refused { kind, place, why: Why::Unusable(what) }),
        }
    }

    #[cfg(target_os = "macos")]
    fn keychain(&mut self) {
        use foreign::keychain::{ACCESS, PROBE, PROGRAM, WAIT, is_there, read};
        let program = Path::new(PROGRAM);
        if self.found.is_none() && is_there(program, PROBE) {
            let source = || Source::Keychain(ACCESS);
            self.place(Kind::Keychain, ACCESS.to_owned(), || read(program, WAIT), source);
        }
    }

    #[cfg(not(target_os = "macos"))]
    fn keychain(&mut self) {}
}

/// Every file that the search may look at, in its order.
pub(super) fn foreign_files(places: &Places) -> Vec<(Kind, PathBuf)> {
    let files = |kind| match kind {
        Kind::Cli => places.cli_files(),
        Kind::Keychain => Vec::new(),
        Kind::Ide => vec![places.ide_database()],
        Kind::Legacy => legacy_files(&places.legacy_dir()),
        Kind::OpenCode => vec![places.open_code_file()],
    };
    let of = |kind| files(kind).into_iter().map(move |path| (kind, path));
    Kind::ALL.into_iter().flat_map(of).collect()
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
