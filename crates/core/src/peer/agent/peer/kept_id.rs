//! The ids of calls that are remembered. Their number is bounded where they are kept; here their
//! length is.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::model::ids::hex;

/// The service's own ids have less than a hundred bytes.
const LONGEST: usize = 256;

/// What is kept of an id: its hash, if it is too long.
pub(super) fn kept_id(id: &str) -> Cow<'_, str> {
    match id.len() > LONGEST {
        true => Cow::Owned(hex(&Sha256::digest(id))),
        false => Cow::Borrowed(id),
    }
}

/// About how many bytes these ids take.
pub(super) fn ids_memory<'a>(ids: impl IntoIterator<Item = &'a String>) -> usize {
    const ENTRY: usize = 32;
    ids.into_iter().map(|id| ENTRY + id.len()).sum()
}
