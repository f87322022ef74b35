//! JSON by its tokens, and how large a tree it would be: a few bytes of text can be hundreds in
//! memory, so a text is measured before it is parsed into a [`Value`].

use std::borrow::Cow;

use memchr::memchr2;
use serde_json::Value;

/// Objects of a request in total. One of one field is six bytes of text and 640 in a tree.
pub(crate) const MOST_OBJECTS: usize = 50_000;

/// Fields of all objects of a request together. One is some bytes of text and about 130 in a tree.
pub(crate) const MOST_FIELDS: usize = 500_000;

/// Elements of all arrays of a request together, and arrays. An element may be three bytes of text
/// and hundreds in memory; conversations of a week have some thousand of them. As many as this take
/// 15 ms to decode.
pub(crate) const MOST_ELEMENTS: usize = 50_000;

// === JsonSize ===

/// How large JSON is as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonSize {
    /// Objects and arrays.
    pub(crate) opened: usize,
    /// About the fields and elements in them.
    pub(crate) commas: usize,
}

impl JsonSize {
    /// For what clients send: whatever one request may contain.
    pub(crate) const CLIENT: Self =
        Self { opened: MOST_OBJECTS + MOST_ELEMENTS, commas: MOST_FIELDS + MOST_ELEMENTS };

    /// For what backends send, who have no reason to send more.
    pub(crate) const BACKEND: Self = Self { opened: 50_000, commas: 100_000 };

    /// Adds the size of a text. Whether the sum is within `most`; beyond that it is not measured.
    pub(crate) fn add(&mut self, text: &str, most: Self) -> bool {
        for (_, token) in JsonTokens::new(text.as_bytes()) {
            match token {
                JsonToken::Object | JsonToken::Array => self.opened += 1,
                JsonToken::Comma => self.commas += 1,
                JsonToken::Close | JsonToken::Text(_) => continue,
            }
            if self.opened > most.opened || self.commas > most.commas {
                return false;
            }
        }
        true
    }

    /// Whether a text is not larger than this.
    pub(crate) fn fits(self, text: &str) -> bool {
        Self::default().add(text, self)
    }

    /// Parses a text; `None` if it is not JSON, or larger than this.
    pub(crate) fn parse(self, text: &str) -> Option<Value> {
        self.fits(text).then(|| serde_json::from_str(text).ok())?
    }
}

// === tokens ===

/// What structure is made of. Numbers, words and colons say nothing about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonToken<'a> {
    Object,
    Array,
    Close,
    Comma,
    Text(RawText<'a>),
}

/// A string as it is written, without its quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawText<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> RawText<'a> {
    pub(crate) fn plain(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        // Escapes that mean nothing are the parser's to refuse.
        let quoted = [b"\"", self.raw, b"\""].concat();
        serde_json::from_slice::<String>(&quoted)
            .map_or(Cow::Borrowed(self.raw), |text| Cow::Owned(text.into_bytes()))
    }
}

/// The tokens of a body, each with its place. They end where a string does not.
pub(crate) struct JsonTokens<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> JsonTokens<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    /// The string that begins at `self.at`, behind its quote.
    fn text(&mut self) -> Option<RawText<'a>> {
        let all = self.body.get(self.at..)?;
        let mut end = 0;
        let mut escaped = false;
        loop {
            let rest = all.get(end..)?;
            let next = memchr2(b'"', b'\\', rest)?;
            end += next;
            if rest.get(next) == Some(&b'"') {
                self.at += end + 1;
                return Some(RawText { raw: all.get(..end)?, escaped });
            }
            escaped = true;
            end += 2;
        }
    }
}

impl<'a> Iterator for JsonTokens<'a> {
    type Item = (usize, JsonToken<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let byte = *self.body.get(at)?;
            self.at += 1;
            let token = match byte {
                b'"' => JsonToken::Text(self.text()?),
                b'{' => JsonToken::Object,
                b'[' => JsonToken::Array,
                b'}' | b']' => JsonToken::Close,
                b',' => JsonToken::Comma,
                _ => continue,
            };
            return Some((at, token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_beyond_the_limit_is_not_parsed() {
        const MOST: JsonSize = JsonSize { opened: 4, commas: 3 };
        for text in [r#"{"a":[{},{}]}"#, "[1,2,3,4]", r#""{[,,,,,,{{{{{""#, "7"] {
            assert!(MOST.parse(text).is_some(), "{text}");
        }
        for text in [r#"{"a":[{},{},[]]}"#, "[1,2,3,4,5]", "[[[[[]]]]]", "nonsense", "{", ""] {
            assert_eq!(MOST.parse(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_of_several_texts_are_added() {
        const MOST: JsonSize = JsonSize { opened: 4, commas: 3 };
        let mut size = JsonSize::default();
        assert!(size.add(r#"{"a":1,"b":[]}"#, MOST));
        assert!(size.add(r#"{"a":1}"#, MOST));
        assert_eq!(size, JsonSize { opened: 3, commas: 1 });
        assert!(size.add("{}", MOST));
        assert!(!size.add("{}", MOST));
    }
}
