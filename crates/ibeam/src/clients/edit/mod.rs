//! Changes to texts that people wrote: comments, order and layout stay, what is not
//! well-formed is refused, and a change that is there already changes nothing. Text to
//! text; no file is touched.
//!
//! Paths are keys from the top, such as `["provider", "cursor"]`. Values are JSON's in all
//! three formats.

pub(crate) mod json;
pub(crate) mod toml;
pub(crate) mod yaml;

use std::fmt::Display;

use serde_json::Value;

/// A text of settings in one of the formats.
pub(crate) trait SettingsDocument: Display + Sized {
    /// # Errors
    /// The text is not well-formed, or cannot be edited.
    fn parse(text: &str) -> Result<Self, EditRefused>;

    /// The value at a path.
    fn get(&self, path: &[&str]) -> Option<Value>;

    /// Puts a value at a path. What leads there is created.
    ///
    /// # Errors
    /// Another value is in the way, or a key of the path is there twice.
    fn set(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused>;
}

/// One whose lists can be extended.
pub(crate) trait ListDocument: SettingsDocument {
    /// Puts a value at the end of the list at a path, unless the list has it.
    ///
    /// # Errors
    /// Another value is in the way.
    fn push_unique(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused>;
}

/// One whose keys can be removed.
pub(crate) trait KeyRemoval: SettingsDocument {
    /// Removes what is at a path, if anything is.
    fn remove(&mut self, path: &[&str]);
}

/// Some editors begin a file with it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text without a byte order mark, and the mark.
fn split_mark(text: &str) -> (&'static str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    }
}

/// Why a text is not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct EditRefused {
    /// Counted from 1, where it is known.
    pub(crate) line: Option<usize>,
    pub(crate) why: String,
}

impl EditRefused {
    fn new(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into() }
    }

    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }

    /// Something else is on the path. `wanted` has its article.
    fn in_the_way(path: &[&str], wanted: &str) -> Self {
        match path {
            [] => Self::new(format!("it is not {wanted}")),
            path => Self::new(format!("`{}` is not {wanted}", path.join("."))),
        }
    }
}
