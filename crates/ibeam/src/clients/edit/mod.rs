//! Changes to texts that people wrote: comments, order and layout stay, what is not
//! well-formed is refused, and a change that is there already changes nothing. Text to
//! text; no file is touched.
//!
//! Paths are keys from the top, such as `["provider", "cursor"]`. Values are JSON's in all
//! three formats.

pub(crate) mod json;
pub(crate) mod toml;
pub(crate) mod yaml;

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
