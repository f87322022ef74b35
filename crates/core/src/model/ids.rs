//! Identifiers. None is made from a clock or a random source here: callers pass
//! random bytes, or the id is a hash of content.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The id of one tool call as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(String);

impl CallId {
    /// Cleans a backend's id: ids outside `[A-Za-z0-9_-]{1,64}` in a replayed
    /// history make the backend refuse the whole request. An id that must be changed
    /// gets a hash of the original, so that two of them stay two.
    #[must_use]
    pub fn sanitised(raw: &str) -> Self {
        const LONGEST: usize = 64;
        const HASHED: usize = 8;
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=LONGEST).contains(&raw.len()) && raw.chars().all(legal) {
            return Self(raw.to_owned());
        }
        let head = raw.chars().take(LONGEST - HASHED - 1);
        let clean: String = head.map(|c| if legal(c) { c } else { '_' }).collect();
        let digest: [u8; 32] = Sha256::digest(raw).into();
        let tail: String = hex(&digest).chars().take(HASHED).collect();
        Self(format!("{clean}_{tail}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A UUID in the v4 layout from 16 random bytes.
#[must_use]
pub fn uuid_from_random(bytes: [u8; 16]) -> String {
    uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string()
}

/// A UUID that only depends on `parts`: the same content gets the same id, so the
/// backend's caches stay warm across requests.
#[must_use]
pub fn uuid_from_content<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(digest.first_chunk::<16>().unwrap_or(&[0; 16]));
    uuid_from_random(bytes)
}

/// The lower-case hex form of bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
