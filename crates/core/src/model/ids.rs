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

    /// The id of the `n`th call of a session: `sess_<id>__call_<n>`. Its session can be
    /// read from it, so that a result finds its way home without a header.
    #[must_use]
    pub fn in_session(session: SessionId, n: u32) -> Self {
        Self(format!("sess_{session}__call_{n}"))
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

/// The name of a turn that may wait for tool results: 96 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 12]);

impl SessionId {
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(*bytes.first_chunk().unwrap_or(&[0; 12]))
    }

    /// The session and the number of a call, if the id is one of ours.
    #[must_use]
    pub fn of_call(call_id: &str) -> Option<(Self, u32)> {
        let (session, call) = call_id.strip_prefix("sess_")?.split_once("__call_")?;
        // `+1` and `01` are numbers to a parser, and no ids of ours.
        let number: u32 = call.parse().ok().filter(|n: &u32| n.to_string() == call)?;
        Some((Self::parse(session)?, number))
    }

    /// Reads the form that [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 12];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_id_contains_its_session() {
        let session = SessionId::from_random([0xab; 16]);
        let id = CallId::in_session(session, 7);
        assert_eq!(id.as_str(), "sess_abababababababababababab__call_7");
        assert_eq!(SessionId::of_call(id.as_str()), Some((session, 7)));
        assert_eq!(CallId::sanitised(id.as_str()), id, "clients and backends take it as it is");
    }

    #[test]
    fn foreign_ids_name_no_session() {
        for id in [
            "call_1",
            "toolu_01",
            "sess_abc__call_1",
            "sess_ababababababababababABAB__call_1",
            "sess_abababababababababababab__call_01",
            "sess_abababababababababababab__call_+1",
            "sess_abababababababababababab__call_",
            "sess_éééééééééééé__call_1",
        ] {
            assert_eq!(SessionId::of_call(id), None, "{id}");
        }
    }
}
