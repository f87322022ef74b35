//! The blob store the backend keeps its conversation in. It lives on our side of
//! the wire: the backend asks for blobs by the SHA-256 of their bytes and hands
//! over new ones.

use std::{borrow::Cow, collections::HashMap, fmt};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer as _,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// What one conversation may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobLimits {
    pub count: usize,
    pub blob_bytes: usize,
    pub total_bytes: usize,
}

impl Default for BlobLimits {
    fn default() -> Self {
        Self { count: 20_000, blob_bytes: 32 << 20, total_bytes: 256 << 20 }
    }
}

/// Why a blob was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BlobRefused {
    #[error("the blob is too large")]
    TooLarge,
    #[error("the store is full")]
    Full,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Blobs {
    map: HashMap<Bytes, Bytes>,
    /// What the backend handed over; our own content does not count.
    accepted: usize,
    bytes: usize,
    /// Ids of blobs that are new since they were last taken.
    fresh: Vec<Bytes>,
    limits: BlobLimits,
}

impl Blobs {
    #[must_use]
    pub(super) fn new(limits: BlobLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Keeps our own content and gives its id. Our own content is bounded by the
    /// request's size, so no limit applies.
    pub(super) fn put(&mut self, data: impl Into<Bytes>) -> Bytes {
        let data = data.into();
        let id = Bytes::copy_from_slice(&Sha256::digest(&data));
        if self.map.insert(id.clone(), data).is_none() {
            self.fresh.push(id.clone());
        }
        id
    }

    /// Puts back what was kept from an earlier turn. It is not new.
    pub(super) fn restore(&mut self, id: Bytes, data: Bytes) {
        self.map.insert(id, data);
    }

    /// The ids and contents that came since this was last asked.
    pub(super) fn take_fresh(&mut self) -> Vec<(Bytes, Bytes)> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.into_iter().filter_map(|id| Some((id.clone(), self.get(&id)?))).collect()
    }

    /// From here on all of it counts as new: it is to be kept in another place.
    pub(super) fn all_fresh(&mut self) {
        self.fresh = self.map.keys().cloned().collect();
    }

    /// About how many bytes all of it takes.
    #[must_use]
    pub(super) fn memory(&self) -> usize {
        const ENTRY: usize = 160;
        self.map.values().map(|data| data.len() + ENTRY).sum()
    }

    /// Whether a blob of the backend is not too large. What it says is only read then.
    #[must_use]
    pub(super) fn takes(&self, data: &[u8]) -> bool {
        data.len() <= self.limits.blob_bytes
    }

    /// Keeps what the backend hands over, under the id it names: it is the backend
    /// that asks for it again.
    ///
    /// # Errors
    /// The blob is over a limit.
    pub(super) fn accept(&mut self, id: &[u8], data: &[u8]) -> Result<(), BlobRefused> {
        if !self.takes(data) {
            return Err(BlobRefused::TooLarge);
        }
        if let Some(kept) = self.map.get_mut(id) {
            // The id is the hash, so this is the same content again; or it is not,
            // and then the backend wants the new one.
            if kept != data {
                // What it grows by counts, or small blobs would make room for large ones.
                let more = data.len().saturating_sub(kept.len());
                if self.bytes.saturating_add(more) > self.limits.total_bytes {
                    return Err(BlobRefused::Full);
                }
                self.bytes += more;
                *kept = Bytes::copy_from_slice(data);
                if !self.fresh.iter().any(|fresh| fresh == id) {
                    self.fresh.push(Bytes::copy_from_slice(id));
                }
            }
            return Ok(());
        }
        if self.accepted >= self.limits.count
            || self.bytes.saturating_add(data.len()) > self.limits.total_bytes
        {
            return Err(BlobRefused::Full);
        }
        self.accepted += 1;
        self.bytes += data.len();
        // The bytes sit in a larger read buffer: keep only what is needed.
        let id = Bytes::copy_from_slice(id);
        self.map.insert(id.clone(), Bytes::copy_from_slice(data));
        self.fresh.push(id);
        Ok(())
    }

    #[must_use]
    pub(super) fn get(&self, id: &[u8]) -> Option<Bytes> {
        self.map.get(id).cloned()
    }
}

/// A message of the assistant as it is stored. What it says is read once its role is known.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(rename = "role")]
    _role: Assistant,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The one role that is read. The parser stops at another one, which mostly comes first: a large
/// message of the user costs little.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Assistant {
    Assistant,
}

/// One part of a stored message.
#[derive(Deserialize)]
pub(super) struct StoredPart<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) text: Option<String>,
    pub(super) result: Option<String>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow, rename = "providerOptions")]
    options: Option<&'a RawValue>,
}

/// Reasoning of a stored message that its provider has signed.
pub(super) struct StoredReasoning<'a> {
    pub(super) text: String,
    pub(super) signature: String,
    pub(super) options: Option<&'a RawValue>,
}

/// Reads the content of a stored message part by part, so that it is never in memory as a tree.
/// A text alone is one part.
pub(super) fn for_each_part<'a>(
    content: &'a RawValue,
    take: impl FnMut(StoredPart<'a>),
) -> serde_json::Result<()> {
    struct Parts<F>(F);
    impl<'de, F: FnMut(StoredPart<'de>)> Visitor<'de> for Parts<F> {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a text or a list of parts")
        }

        fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
            let (kind, text) = (Cow::Borrowed("text"), Some(text.to_owned()));
            let part =
                StoredPart { kind, text, result: None, args: None, signature: None, options: None };
            (self.0)(part);
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut parts: A) -> Result<(), A::Error> {
            while let Some(part) = parts.next_element()? {
                (self.0)(part);
            }
            Ok(())
        }
    }
    serde_json::Deserializer::from_str(content.get()).deserialize_any(Parts(take))
}

fn stored(data: &[u8]) -> serde_json::Result<Stored<'_>> {
    serde_json::from_slice(data)
}

/// A message of the assistant that the service has stored.
#[derive(Default)]
pub(super) struct StoredAnswer<'a> {
    /// Empty if it has none.
    pub(super) text: String,
    pub(super) signed: Vec<StoredReasoning<'a>>,
}

/// The message of the assistant in `data`, if it is one. Some answers exist only there.
#[must_use]
pub(super) fn assistant_message(data: &[u8]) -> Option<StoredAnswer<'_>> {
    // Most blobs are protobuf; do not start a JSON parser for those.
    if data.first() != Some(&b'{') {
        return None;
    }
    let content = stored(data).ok()?.content;
    let mut answer = StoredAnswer::default();
    let read = for_each_part(content, |part| match (&*part.kind, part.text) {
        ("text", Some(text)) => answer.text.push_str(&text),
        ("reasoning", text) => {
            let signature: Option<String> =
                part.signature.and_then(|signature| serde_json::from_str(signature.get()).ok());
            if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
                let (text, options) = (text.unwrap_or_default(), part.options);
                answer.signed.push(StoredReasoning { text, signature, options });
            }
        }
        _ => {}
    });
    read.ok()?;
    Some(answer)
}

/// The text of a stored message of the assistant.
#[must_use]
pub(super) fn assistant_text(data: &[u8]) -> Option<String> {
    assistant_message(data).map(|answer| answer.text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_hash_of_the_exact_bytes() {
        let mut blobs = Blobs::default();
        let id = blobs.put(&br#"{"role":"system","content":"x"}"#[..]);
        assert_eq!(
            crate::model::ids::hex(&id),
            "83237f3a3f22696de23a89cb52ecfc7a208c11acf3d07a7d039126039140d8c3"
        );
        assert!(blobs.get(&id).is_some());
        assert_eq!(blobs.get(b"other"), None);
    }

    #[test]
    fn limits_hold_and_a_replaced_blob_is_counted_once() {
        let limits = BlobLimits { count: 2, blob_bytes: 4, total_bytes: 6 };
        let mut blobs = Blobs::new(limits);
        let put = |blobs: &mut Blobs, id: &'static str, data: &'static str| {
            blobs.accept(id.as_bytes(), data.as_bytes())
        };
        assert_eq!(put(&mut blobs, "a", "12345"), Err(BlobRefused::TooLarge));
        assert_eq!(put(&mut blobs, "a", "1234"), Ok(()));
        assert_eq!(put(&mut blobs, "a", "12"), Ok(()), "a replaced blob counts once");
        assert_eq!(put(&mut blobs, "b", "123"), Err(BlobRefused::Full), "too many bytes");
        assert_eq!(put(&mut blobs, "b", "12"), Ok(()));
        assert_eq!(put(&mut blobs, "c", ""), Err(BlobRefused::Full), "too many blobs");
        blobs.put("our own content is not limited");
    }

    #[test]
    fn repeatedly_replaced_blob_stays_within_the_limits() {
        let limits = BlobLimits { count: 4, blob_bytes: 100, total_bytes: 110 };
        let mut blobs = Blobs::new(limits);
        for id in ["a", "b"] {
            blobs.accept(id.as_bytes(), b"1").unwrap();
        }
        assert_eq!(blobs.accept(b"a", &[1; 100]), Ok(()));
        assert_eq!(blobs.accept(b"b", &[1; 100]), Err(BlobRefused::Full));
        for byte in 0..200 {
            blobs.accept(b"a", &[byte; 10]).unwrap();
        }
        assert_eq!(blobs.take_fresh().len(), 2);
    }

    #[test]
    fn new_blobs_are_reported_once() {
        let mut blobs = Blobs::default();
        blobs.restore("old".into(), "kept".into());
        let own = blobs.put("mine");
        blobs.accept(b"theirs", b"1").unwrap();
        let fresh: Vec<_> = blobs.take_fresh().into_iter().map(|(id, _)| id).collect();
        assert_eq!(fresh, [own, Bytes::from("theirs")]);
        blobs.put("mine");
        blobs.accept(b"theirs", b"1").unwrap();
        assert_eq!(blobs.take_fresh(), []);
        blobs.accept(b"theirs", b"2").unwrap();
        assert_eq!(blobs.take_fresh(), [(Bytes::from("theirs"), Bytes::from("2"))]);
    }

    #[test]
    fn message_of_another_role_is_read_only_up_to_its_role() {
        let blob = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(1000));
        let stopped = stored(blob.as_bytes()).err().unwrap();
        assert!(stopped.column() < 20, "{stopped}");
    }

    #[test]
    fn assistant_messages_are_recognised() {
        for (data, want) in [
            (r#"{"role":"assistant","content":"hi"}"#, Some("hi")),
            (
                r#"{"role":"assistant","id":"1","content":[{"type":"reasoning","text":"hm"},
                   {"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                Some("ab"),
            ),
            (r#"{"role":"user","content":"hi"}"#, None),
            (r#"{"content":"hi","role":"user"}"#, None),
            (r#"{"content":"hi","role":"assistant"}"#, Some("hi")),
            (r#"{"role":"assistant","content":[]}"#, None),
            (r#"{"role":"assistant","content":7}"#, None),
            (r#"{"role":"assistant","content":[{"type":"text","text":"a"},7]}"#, None),
            ("\n\x02hi", None),
            ("{broken", None),
        ] {
            assert_eq!(assistant_text(data.as_bytes()).as_deref(), want, "{data}");
        }
    }

    /// A parser that builds a tree of them first refuses them at 128 levels.
    #[test]
    fn unknown_fields_of_a_part_are_skipped_and_not_built() {
        let deep = format!("{}0{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        let part = format!(r#"{{"type":"text","more":{deep},"text":"hi"}}"#);
        let blob = format!(r#"{{"role":"assistant","content":[{part}]}}"#);
        assert_eq!(assistant_text(blob.as_bytes()).as_deref(), Some("hi"));
    }
}
