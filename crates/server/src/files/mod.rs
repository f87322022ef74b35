//! Files between crashes, other processes and other users: replaced as a whole, locked, and
//! private where they hold secrets.
//!
//! *Invariant:* every file that ibeam replaces is replaced by [`StagedFile`], and every lock between
//! processes that may have to be waited for is taken by [`lock`].

mod error;
pub mod lock;
mod modes;
pub mod private;
mod replace;

use std::path::Path;

pub use error::FileError;
pub(crate) use modes::{others_may_use, strangers_may_use};
#[cfg(unix)]
pub(crate) use replace::folder;
pub use replace::{FileAccess, StagedFile, remove, replace, sweep};

/// A path as a shell takes it.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(not(unix)) {
        return format!("\"{text}\"");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,=".contains(c);
    if text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
