//! What a secret may look like where it should not be: as it is, in pieces, or written in
//! another alphabet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::{Engine as _, engine::general_purpose};

/// This number of consecutive characters of a secret is a leak. Fewer only show which secret it is.
pub(super) const PIECE: usize = 8;

/// Of hex digits it takes more: ids are made of them, and eight are alike by chance once in
/// some hundred megabytes.
const HEX_PIECE: usize = 12;

/// Beginnings of secrets of any origin, and how many characters of a word follow.
const SHAPES: [(&str, usize); 5] =
    [("crsr_", 16), ("ibk_", 16), ("eyJhbGciOi", 40), ("verifier=", 20), ("PRIVATE KEY-----", 0)];

/// All forms of all pieces of all secrets.
pub(super) struct SecretNeedles {
    /// By their first bytes; no needle is shorter.
    table: HashMap<[u8; 4], Vec<SecretNeedle>>,
    /// Whether any begins with these two bytes. Most places are passed by this.
    gate: Vec<bool>,
}

struct SecretNeedle {
    bytes: Vec<u8>,
    /// More characters of a word that must follow.
    tail: usize,
    form: &'static str,
}

/// A secret that was found: where it begins, and in which form.
pub(super) type FoundForms = BTreeMap<&'static str, usize>;

impl SecretNeedles {
    pub(super) fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles = Self { table: HashMap::new(), gate: vec![false; 1 << 16] };
        let secrets: BTreeSet<&str> = secrets.into_iter().collect();
        let pieces = secrets.into_iter().flat_map(forms).map(|(form, bytes)| (bytes, form));
        for (bytes, form) in pieces.collect::<BTreeMap<_, _>>() {
            needles.insert(SecretNeedle { bytes, tail: 0, form });
        }
        for (start, tail) in SHAPES {
            needles.insert(SecretNeedle { bytes: start.into(), tail, form: "by its shape" });
        }
        needles
    }

    fn insert(&mut self, needle: SecretNeedle) {
        let first = needle.bytes.first_chunk().copied();
        let open = gate(&needle.bytes).and_then(|at| self.gate.get_mut(at));
        if let (Some(first), Some(open)) = (first, open) {
            *open = true;
            self.table.entry(first).or_default().push(needle);
        }
    }

    /// Where secrets are in these bytes, the first place for each form.
    pub(super) fn find(&self, text: &[u8]) -> FoundForms {
        let mut found = FoundForms::new();
        for at in 0..text.len() {
            let rest = text.get(at..).unwrap_or_default();
            let open = gate(rest).and_then(|gate| self.gate.get(gate));
            if open != Some(&true) {
                continue;
            }
            let near = rest.first_chunk().and_then(|first| self.table.get(first));
            for needle in near.into_iter().flatten().filter(|needle| needle.fits(rest)) {
                found.entry(needle.form).or_insert(at);
            }
        }
        found
    }
}

impl SecretNeedle {
    fn fits(&self, rest: &[u8]) -> bool {
        let Some(after) = rest.strip_prefix(self.bytes.as_slice()) else { return false };
        let word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        after.iter().take(self.tail).take_while(word).count() == self.tail
    }
}

fn gate(bytes: &[u8]) -> Option<usize> {
    let [first, second] = *bytes.first_chunk()?;
    Some(usize::from(first) << 8 | usize::from(second))
}

fn forms(secret: &str) -> Vec<(&'static str, Vec<u8>)> {
    let backwards: Vec<u8> = secret.bytes().rev().collect();
    let each = |piece: &[u8], write: fn(u8) -> String| -> String {
        piece.iter().map(|byte| write(*byte)).collect()
    };
    let hex = secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = if hex { HEX_PIECE } else { PIECE };
    let mut all = Vec::new();
    for piece in secret.as_bytes().windows(length) {
        let list: Vec<String> = piece.iter().map(ToString::to_string).collect();
        all.push(("plain", piece.to_vec()));
        all.push(("hex", each(piece, |byte| format!("{byte:02x}")).into()));
        all.push(("hex", each(piece, |byte| format!("{byte:02X}")).into()));
        all.push(("percent", each(piece, |byte| format!("%{byte:02x}")).into()));
        all.push(("percent", each(piece, |byte| format!("%{byte:02X}")).into()));
        all.push(("UTF-16", each(piece, |byte| format!("{}\0", char::from(byte))).into()));
        all.push(("a list of bytes", list.join(", ").into()));
        all.push(("a list of bytes", list.join(",").into()));
    }
    all.extend(backwards.windows(length).map(|piece| ("backwards", piece.to_vec())));
    // Three bytes are four letters: wherever a secret stands in what is encoded, one of
    // these begins at a letter of its own.
    for piece in secret.as_bytes().windows(length + 1) {
        all.push(("base64", general_purpose::STANDARD_NO_PAD.encode(piece).into()));
        all.push(("base64", general_purpose::URL_SAFE_NO_PAD.encode(piece).into()));
    }
    all
}

#[cfg(test)]
#[path = "needles_tests.rs"]
mod tests;
