//! The user's consents to read files of other programs. Each is given once for one kind, stored in
//! `consent.json` with its time, and can be revoked at any time.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde_json::{Map, Value};

use crate::files::{FileError, private};

const FILE: &str = "consent.json";

/// What a consent is for: the files of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsentKind {
    /// `auth.json` of the Cursor CLI.
    Cli,
    /// The Cursor CLI's items in the macOS keychain.
    Keychain,
    /// `state.vscdb` of the Cursor IDE.
    Ide,
    /// `~/.cursor/credentials`, as the programs kept them that ibeam stands in for.
    Legacy,
    /// The entry `cursor` in OpenCode's `auth.json`.
    OpenCode,
}

impl ConsentKind {
    /// In the order in which they are searched.
    pub const ALL: [Self; 5] = [Self::Cli, Self::Keychain, Self::Ide, Self::Legacy, Self::OpenCode];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Keychain => "keychain",
            Self::Ide => "ide",
            Self::Legacy => "legacy",
            Self::OpenCode => "opencode",
        }
    }

    /// The program that the credentials belong to, for a sentence.
    #[must_use]
    pub fn owner(self) -> &'static str {
        match self {
            Self::Cli | Self::Keychain => "the Cursor CLI",
            Self::Ide => "the Cursor IDE",
            Self::Legacy => "an older gateway",
            Self::OpenCode => "OpenCode",
        }
    }
}

impl fmt::Display for ConsentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ConsentKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join("`, `");
            format!("`{name}` is not one of `{names}`")
        })
    }
}

/// The consents given so far. A change is written at once.
#[derive(Clone, Debug)]
pub struct Consents {
    path: PathBuf,
    given: BTreeMap<ConsentKind, u64>,
}

impl Consents {
    /// Nothing is allowed, and nothing was read.
    #[must_use]
    pub fn none(config_dir: &Path) -> Self {
        Self { path: config_dir.join(FILE), given: BTreeMap::new() }
    }

    /// Those in the file, if there is one.
    ///
    /// # Errors
    /// There is one, and it cannot be used: nothing is allowed then.
    pub fn load(config_dir: &Path) -> Result<Self, FileError> {
        let mut consents = Self::none(config_dir);
        let fields = consents.fields()?;
        for kind in ConsentKind::ALL {
            if let Some(since) = fields.get(kind.as_str()).and_then(Value::as_u64) {
                consents.given.insert(kind, since);
            }
        }
        Ok(consents)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn has(&self, kind: ConsentKind) -> bool {
        self.given.contains_key(&kind)
    }

    /// Each consent, and since when it holds, in seconds since 1970.
    pub fn list(&self) -> impl Iterator<Item = (ConsentKind, u64)> {
        self.given.iter().map(|(kind, since)| (*kind, *since))
    }

    /// From now on files of this kind may be read. One that was given keeps its time.
    ///
    /// # Errors
    /// It could not be written, and does not hold.
    pub fn grant(&mut self, kind: ConsentKind, now_unix: u64) -> Result<(), FileError> {
        if self.has(kind) {
            return Ok(());
        }
        self.change(|fields| drop(fields.insert(kind.to_string(), now_unix.into())))?;
        self.given.insert(kind, now_unix);
        Ok(())
    }

    /// Revokes a consent. Returns whether there was one.
    ///
    /// # Errors
    /// It could not be written: the consent still holds.
    pub fn revoke(&mut self, kind: ConsentKind) -> Result<bool, FileError> {
        if !self.has(kind) {
            return Ok(false);
        }
        self.change(|fields| drop(fields.remove(kind.as_str())))?;
        self.given.remove(&kind);
        Ok(true)
    }

    /// Changes the file, not what is remembered of it: another process may have changed
    /// it, too, and later versions have more kinds.
    fn change(&self, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<(), FileError> {
        private::make_dir(self.path.parent().unwrap_or(Path::new(".")))?;
        let mut fields = self.fields()?;
        edit(&mut fields);
        private::replace(&self.path, &format!("{:#}\n", Value::Object(fields)))
    }

    fn fields(&self) -> Result<Map<String, Value>, FileError> {
        let Some(text) = private::read(&self.path)? else { return Ok(Map::new()) };
        serde_json::from_str(&text).map_err(|_| FileError::Invalid {
            path: self.path.clone(),
            what: "not a JSON object; delete it to reset the consents",
        })
    }
}
