//! The child's name for a conversation, as it is kept in the store.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

#[derive(Deserialize, Serialize)]
struct StoredName<'a> {
    v: u32,
    #[serde(borrow)]
    session: std::borrow::Cow<'a, str>,
}

pub(super) fn write(session: &str) -> Bytes {
    let name = StoredName { v: VERSION, session: session.into() };
    // A number and a string: no error is possible.
    serde_json::to_vec(&name).unwrap_or_default().into()
}

/// `None` for what another version, or another backend, left.
pub(super) fn read(kept: &[u8]) -> Option<String> {
    let name: StoredName<'_> = serde_json::from_slice(kept).ok()?;
    (name.v == VERSION && !name.session.is_empty()).then(|| name.session.into_owned())
}
