//! Which files of project folders the user approved. Kept in `mcp-approved.json` in ibeam's
//! own folder: the path of each file, and the SHA-256 of the content that was approved.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::files::{FileError, private};

const FILE: &str = "mcp-approved.json";

/// A change is written at once.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    path: PathBuf,
    /// Hash of the approved content, by path.
    approved: BTreeMap<String, String>,
}

impl Approvals {
    /// No file is approved, and nothing was read.
    #[must_use]
    pub fn none(config_dir: &Path) -> Self {
        Self { path: config_dir.join(FILE), approved: BTreeMap::new() }
    }

    /// # Errors
    /// The file is there and cannot be trusted or read. Nothing is approved then.
    pub fn load(config_dir: &Path) -> Result<Self, FileError> {
        let mut approvals = Self::none(config_dir);
        // A folder that others can write to may hold an approval that the user never gave.
        private::check_dir(config_dir)?;
        if let Some(text) = private::read(&approvals.path)? {
            let read = serde_json::from_str(&text);
            approvals.approved = read.map_err(|_| FileError::Invalid {
                path: approvals.path.clone(),
                what: "not a JSON object of strings; delete it and approve files again",
            })?;
        }
        Ok(approvals)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether exactly this content was approved at this path.
    #[must_use]
    pub fn has(&self, path: &Path, hash: &str) -> bool {
        path.to_str().and_then(|path| self.approved.get(path)).is_some_and(|known| known == hash)
    }

    /// Approves this content, in place of what was approved at this path before.
    ///
    /// # Errors
    /// It could not be written, and is not approved.
    pub fn approve(&mut self, path: &Path, hash: &str) -> Result<(), FileError> {
        let Some(name) = path.to_str() else {
            let what = "its path is not valid Unicode";
            return Err(FileError::Invalid { path: path.to_path_buf(), what });
        };
        private::make_dir(self.path.parent().unwrap_or(Path::new(".")))?;
        let mut approved = self.approved.clone();
        approved.insert(name.to_owned(), hash.to_owned());
        private::replace(&self.path, &format!("{:#}\n", serde_json::json!(approved)))?;
        self.approved = approved;
        Ok(())
    }
}
