//! Which of several accounts is used. The user chooses; ibeam never switches by itself.

use std::{fmt, str::FromStr};

/// The name of an account's credentials: lower case, so that it is one file on every
/// file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile(String);

/// Why a name cannot be a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    #[error("has no name")]
    Empty,
    #[error("has more than {} characters", Profile::LONGEST)]
    Long,
    #[error(
        "may only contain `a` to `z`, `0` to `9`, `-` and `_`, and must begin with a letter or \
             digit"
    )]
    Characters,
    #[error("is a name that Windows reserves")]
    Reserved,
}

impl Profile {
    /// The one that is used when none is named.
    pub const DEFAULT: &str = "default";

    const LONGEST: usize = 32;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Profile {
    type Err = InvalidProfile;

    fn from_str(name: &str) -> Result<Self, InvalidProfile> {
        let first = name.bytes().next().ok_or(InvalidProfile::Empty)?;
        if name.len() > Self::LONGEST {
            return Err(InvalidProfile::Long);
        }
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if !plain(first) || !name.bytes().all(|b| plain(b) || matches!(b, b'-' | b'_')) {
            return Err(InvalidProfile::Characters);
        }
        if is_device(name) {
            return Err(InvalidProfile::Reserved);
        }
        Ok(Self(name.to_owned()))
    }
}

/// A file of that name, whatever its ending, is a device on Windows.
fn is_device(name: &str) -> bool {
    let numbered = |prefix| {
        let digit = name.strip_prefix(prefix).map(str::as_bytes);
        matches!(digit, Some([b'1'..=b'9']))
    };
    matches!(name, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
