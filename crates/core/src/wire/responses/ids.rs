//! Ids of responses and of their items. An item's id holds its response's, so that a
//! reference to an item leads to the response that has it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::model::ids::hex;

const RESPONSE: &str = "resp_";

/// The `id` of a response, from random bytes.
#[must_use]
pub fn response_id(random: [u8; 16]) -> String {
    format!("{RESPONSE}{}", hex(&random))
}

/// The response that an item of ours belongs to; `None` for ids that clients made.
#[must_use]
pub fn response_of(item_id: &str) -> Option<String> {
    let (kind, rest) = item_id.split_once('_')?;
    let (response, place) = rest.split_once('_')?;
    let ours = matches!(kind, "msg" | "rs" | "fc" | "ctc" | "tsc" | "cmp")
        && response.len() == 32
        && response.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && !place.is_empty()
        && place.bytes().all(|byte| byte.is_ascii_digit());
    ours.then(|| format!("{RESPONSE}{response}"))
}

/// The id of the item at `place` in the output of a response.
pub(super) fn output_item(kind: &str, response: &str, place: usize) -> String {
    let response = response.strip_prefix(RESPONSE).unwrap_or(response);
    format!("{kind}_{response}_{place}")
}

/// An id for an input item that came without one. The same input gets the same id, so that
/// asking twice for a response's input gives one answer.
pub(super) fn input_item(kind: &str, place: usize, text: &str) -> String {
    let mut hash = DefaultHasher::new();
    (place, text).hash(&mut hash);
    format!("{kind}_in{:016x}{place:x}", hash.finish())
}
