//! What is kept of a conversation in the store: the child's name for it, and what was said since.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// More than this is not kept beside a name: the store is not for files.
const TOLD_BYTES: usize = 4 << 20;

#[derive(Debug, Deserialize, Serialize)]
struct StoredChild<'a> {
    v: u32,
    /// Empty: the child had none yet.
    #[serde(borrow)]
    session: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    told: Cow<'a, str>,
}

/// From where a child continues a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChildState {
    pub(super) session: Option<String>,
    /// Behind that, as it stands in a prompt: what an interrupted answer was asked, and as much
    /// of it as the client saw.
    pub(super) told: String,
}

/// `None`: it is too much to be kept.
pub(super) fn write(session: Option<&str>, told: &str) -> Option<Bytes> {
    let session = session.unwrap_or_default().into();
    let state = StoredChild { v: VERSION, session, told: told.into() };
    // A number and two strings: no error is possible.
    (told.len() <= TOLD_BYTES).then(|| serde_json::to_vec(&state).unwrap_or_default().into())
}

/// `None` for what another version, or another backend, left.
pub(super) fn read(kept: &[u8]) -> Option<ChildState> {
    let StoredChild { v, session, told } = serde_json::from_slice(kept).ok()?;
    let session = Some(session.into_owned()).filter(|session| !session.is_empty());
    let is_known = v == VERSION && (session.is_some() || !told.is_empty());
    is_known.then(|| ChildState { session, told: told.into_owned() })
}
