//! What a setup wrote, and what was there before it: `record.json` and the texts beside
//! it, for the owner alone.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::SetupError;
use crate::clients::machine::{self, FileContent};
use ibeam_server::{files::private, random};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SetupState {
    /// It is unknown which files are written.
    #[default]
    Writing,
    Done,
}

/// A key that a setup made for its client: by its name it is revoked, and its text is what
/// a second setup writes again.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct MadeKey {
    pub(crate) name: String,
    text: String,
}

impl MadeKey {
    pub(crate) fn new(name: String, key: &SecretString) -> Self {
        Self { name, text: key.expose_secret().to_owned() }
    }

    pub(crate) fn key(&self) -> SecretString {
        SecretString::from(self.text.as_str())
    }
}

impl fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeKey").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct SetupRecord {
    pub(super) state: SetupState,
    /// The key that was made.
    pub(super) key: Option<MadeKey>,
    pub(super) entries: Vec<SetupEntry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetupEntry {
    pub(super) path: PathBuf,
    /// None: it was not there.
    pub(super) before: Option<String>,
    /// None: it was to go, since only an earlier setup needed it.
    pub(super) after: Option<String>,
    /// What was overwritten, where that was the text of an earlier setup.
    pub(super) replaced: Option<String>,
    pub(super) mode: Option<u32>,
    /// It was written for its owner alone, whatever its mode was.
    pub(super) private: bool,
    /// Where `before` is kept, once the record is on the disk.
    pub(super) backup: Option<PathBuf>,
    /// Those that were made for it, the outermost first.
    pub(super) folders: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct RecordFile {
    v: u32,
    state: SetupState,
    key: Option<MadeKey>,
    /// How the names of the texts begin. Each save has its own, so that a record that was
    /// not replaced still has all of its texts, and no other.
    texts: String,
    files: Vec<RecordFileEntry>,
}

#[derive(Serialize, Deserialize)]
struct RecordFileEntry {
    path: PathBuf,
    was_there: bool,
    stays: bool,
    replaced: bool,
    mode: Option<u32>,
    private: bool,
    folders: Vec<PathBuf>,
}

const VERSION: u32 = 1;

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("record.json")
}

/// The texts of one save.
struct RecordTexts<'a> {
    dir: &'a Path,
    begin: &'a str,
}

impl RecordTexts<'_> {
    fn path(&self, index: usize, part: &str) -> PathBuf {
        self.dir.join(format!("{}-{index}.{part}", self.begin))
    }

    fn put(&self, index: usize, entry: &SetupEntry) -> Result<(), SetupError> {
        let SetupEntry { before, after, replaced, .. } = entry;
        for (part, text) in [("before", before), ("after", after), ("replaced", replaced)] {
            if let Some(text) = text {
                #[cfg(test)]
                super::faults::point()?;
                private::replace(&self.path(index, part), text)?;
            }
        }
        Ok(())
    }

    /// Deletes the others, or these. What cannot be deleted is never read.
    fn sweep(&self, these: bool) {
        let begin = format!("{}-", self.begin);
        for entry in fs::read_dir(self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let ours = name.to_str().is_some_and(|name| name.starts_with(&begin));
            if ours == these && (these || entry.path() != path(self.dir)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl SetupRecord {
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, SetupError> {
        let path = path(dir);
        let bad = |why: String| SetupError::Record { path: path.clone(), why };
        let Some(text) = private::read(&path)? else { return Ok(None) };
        let written: RecordFile =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if written.v != VERSION {
            return Err(bad(format!("version {} is unknown", written.v)));
        }
        let texts = RecordTexts { dir, begin: &written.texts };
        let mut entries = Vec::new();
        for (index, file) in written.files.into_iter().enumerate() {
            let text = |there: bool, path: &Path| there.then(|| kept(path)).transpose();
            let backup = texts.path(index, "before");
            entries.push(SetupEntry {
                before: text(file.was_there, &backup)?,
                after: text(file.stays, &texts.path(index, "after"))?,
                replaced: text(file.replaced, &texts.path(index, "replaced"))?,
                path: file.path,
                mode: file.mode,
                private: file.private,
                backup: file.was_there.then_some(backup),
                folders: file.folders,
            });
        }
        Ok(Some(Self { state: written.state, key: written.key, entries }))
    }

    /// The texts first, under names that no other record has. What the new record does not
    /// name goes once it is there: whatever happens in between, one of the two is whole.
    pub(super) fn save(&self, dir: &Path) -> Result<(), SetupError> {
        private::make_secret_dir(dir)?;
        let begin = random::uuid();
        let texts = RecordTexts { dir, begin: &begin };
        self.write(&texts).inspect_err(|_| texts.sweep(true))?;
        #[cfg(test)]
        super::faults::point()?;
        texts.sweep(false);
        Ok(())
    }

    fn write(&self, texts: &RecordTexts<'_>) -> Result<(), SetupError> {
        let mut files = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            texts.put(index, entry)?;
            files.push(RecordFileEntry {
                path: entry.path.clone(),
                was_there: entry.before.is_some(),
                stays: entry.after.is_some(),
                replaced: entry.replaced.is_some(),
                mode: entry.mode,
                private: entry.private,
                folders: entry.folders.clone(),
            });
        }
        let (state, key) = (self.state, self.key.clone());
        let written = RecordFile { v: VERSION, state, key, texts: texts.begin.to_owned(), files };
        let path = path(texts.dir);
        let text = serde_json::to_string_pretty(&written)
            .map_err(|error| SetupError::Record { path: path.clone(), why: error.to_string() })?;
        #[cfg(test)]
        super::faults::point()?;
        Ok(private::replace(&path, &text)?)
    }

    /// The record first: what is left then is never read.
    pub(super) fn remove(dir: &Path) -> Result<(), SetupError> {
        let path = path(dir);
        #[cfg(test)]
        super::faults::point()?;
        fs::remove_file(&path).map_err(SetupError::io("delete", &path))?;
        #[cfg(test)]
        super::faults::point()?;
        fs::remove_dir_all(dir).map_err(SetupError::io("delete", dir))
    }

    /// Folders that an earlier setup made are still not the user's; some may be gone and
    /// have to be made again.
    pub(super) fn take_over_folders(&mut self, earlier: &Self) {
        for entry in &mut self.entries {
            let made = earlier.entries.iter().find(|before| before.path == entry.path);
            if let Some(made) = made {
                let missing = std::mem::replace(&mut entry.folders, made.folders.clone());
                entry.folders.extend(missing.into_iter().filter(|it| !made.folders.contains(it)));
                entry.folders.sort_by_key(|folder| folder.components().count());
            }
        }
    }
}

fn kept(path: &Path) -> Result<String, SetupError> {
    let bad = |why: &str| SetupError::Record { path: path.to_path_buf(), why: why.to_owned() };
    match machine::read(path).map_err(SetupError::io("read", path))? {
        Some(FileContent::Bytes(bytes)) => {
            String::from_utf8(bytes).map_err(|_| bad("it is not text"))
        }
        Some(FileContent::Long | FileContent::NoFile) => Err(bad("it is not text")),
        None => Err(bad("it is missing")),
    }
}
