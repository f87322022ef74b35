//! What stands in a recording where a text stood. A placeholder has the length of the text, equal
//! texts have equal placeholders, and a piece of the answer that comes again, as a part of a whole
//! text, has the same placeholder again. So a machine that is fed with them does the same.
//!
//! *Invariant:* a placeholder depends on the text only through a keyed hash, and the key is never
//! written.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use sha2::{Digest as _, Sha256};

use super::vocabulary;
use crate::{
    guard,
    model::ids::{SessionId, hex},
    redact,
};

/// How much of the answer is looked through for texts that repeat a part of it.
const STREAMED: usize = 1 << 20;

/// So many letters make two long placeholders differ; the rest is filled.
pub(super) const DISTINCT: usize = 12;

/// Answers of the history that are remembered.
const REMEMBERED: usize = 4096;

/// Names are not longer.
const LONGEST_NAME: usize = 128;

/// Nor is a line that names an exit code.
const EXIT_LINE: usize = 200;

/// How the texts of a recording are written.
#[derive(Debug)]
pub struct Mask {
    /// `None`: texts stay, except what looks like a secret.
    key: Option<[u8; 32]>,
    answer: StreamedText,
    thoughts: StreamedText,
    /// Answers of the history, by their hash: each request has them again.
    history: HashMap<[u8; 32], String>,
}

/// A text that comes in pieces.
#[derive(Debug, Default)]
struct StreamedText {
    raw: String,
    masked: String,
    /// Letters that come next, and how often there were new ones.
    letters: String,
    blocks: u64,
    /// What may become a tag.
    tag: String,
    /// The line has something else than space.
    in_line: bool,
    /// Where the last piece began.
    last: usize,
}

/// Which of the streamed texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStream {
    Answer,
    Thoughts,
}

impl Mask {
    /// `key`: random bytes that are used for nothing else.
    #[must_use]
    pub fn redacted(key: [u8; 32]) -> Self {
        Self { key: Some(key), ..Self::with_texts() }
    }

    /// Texts stay. What looks like a token or a key is masked all the same.
    #[must_use]
    pub fn with_texts() -> Self {
        let (answer, thoughts) = (StreamedText::default(), StreamedText::default());
        Self { key: None, answer, thoughts, history: HashMap::new() }
    }

    #[must_use]
    pub fn keeps_texts(&self) -> bool {
        self.key.is_none()
    }

    /// The next piece of the answer, or of the thoughts.
    pub(super) fn streamed(&mut self, stream: TextStream, text: &str) -> String {
        let Some(key) = self.key else { return redact::text(text).into_owned() };
        let streamed = match stream {
            TextStream::Answer => &mut self.answer,
            TextStream::Thoughts => &mut self.thoughts,
        };
        streamed.push(&key, stream, text)
    }

    /// A text as a whole.
    pub(super) fn whole(&self, text: &str) -> String {
        match &self.key {
            None => redact::text(text).into_owned(),
            Some(_) if text.trim().is_empty() => text.to_owned(),
            Some(key) => filled(key, text.as_bytes()),
        }
    }

    /// What the model said, as a whole. A text that repeats a part of what was streamed has the
    /// same placeholder.
    pub(super) fn said(&self, text: &str) -> String {
        if self.keeps_texts() || text.trim().is_empty() {
            return self.whole(text);
        }
        let known = [&self.answer, &self.thoughts].into_iter().find_map(|all| all.find(text));
        known.unwrap_or_else(|| self.whole(text))
    }

    /// The same for an answer in a request. It has one placeholder, whatever is said later.
    pub(super) fn history(&mut self, text: &str) -> String {
        let Some(key) = &self.key else { return self.whole(text) };
        let name = hashed(key, b"history", text.as_bytes());
        if let Some(known) = self.history.get(&name) {
            return known.clone();
        }
        let masked = self.said(text);
        if self.history.len() < REMEMBERED {
            self.history.insert(name, masked.clone());
        }
        masked
    }

    /// A text that is a piece of the answer, unless it repeats what was streamed before.
    pub(super) fn spoken(&mut self, stream: TextStream, text: &str, repeats: bool) -> String {
        let Some(key) = self.key.filter(|_| repeats) else { return self.streamed(stream, text) };
        let streamed = match stream {
            TextStream::Answer => &mut self.answer,
            TextStream::Thoughts => &mut self.thoughts,
        };
        streamed.repeat(&key, stream, text)
    }

    /// What a tool gave back. How it begins, and the line with its exit code, show whether it
    /// failed.
    pub(super) fn result(&self, text: &str) -> String {
        if self.keeps_texts() {
            return redact::text(text).into_owned();
        }
        let mut masked = self.whole(text).into_bytes();
        if let Some(range) = vocabulary::failure(text) {
            splice(&mut masked, range.clone(), text.get(range).unwrap_or_default());
        }
        let end = text.trim_end().len();
        let first = text.find('\n').unwrap_or(end).min(end);
        let last = text.get(..end).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        for line in [0..first, last..end] {
            let words = text.get(line.clone()).unwrap_or_default();
            if guard::exit_code(words).is_some() && words.len() <= EXIT_LINE {
                splice(&mut masked, line.clone(), &self.error(words));
                splice(&mut masked, line.start.saturating_sub(1)..line.start, "\n");
                splice(&mut masked, line.end..line.end + 1, "\n");
            }
        }
        String::from_utf8(masked).unwrap_or_else(|_| self.whole(text))
    }

    /// What an error says: words that ibeam knows stay, so that it is classified as it was.
    pub(super) fn error(&self, text: &str) -> String {
        let plain = redact::text(text);
        let Some(key) = &self.key else { return plain.into_owned() };
        let mut out = String::with_capacity(plain.len());
        let mut rest = &*plain;
        // What stands before a number, and how it is joined to that.
        let (mut word, mut joint) = ("", "");
        while let Some(first) = rest.chars().next() {
            let is_word = first.is_ascii_alphanumeric();
            let end = rest.find(|c: char| c.is_ascii_alphanumeric() != is_word);
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            let stays = || match piece.bytes().all(|b| b.is_ascii_digit()) {
                true => vocabulary::is_status(word, joint, piece, rest),
                false => vocabulary::is_error_word(piece),
            };
            if is_word && stays() {
                out.push_str(piece);
            } else if is_word {
                out.push_str(&letters(key, piece.to_ascii_lowercase().as_bytes(), piece.len()));
            } else {
                // Punctuation stays; what is not ASCII could be words of another language.
                for c in piece.chars() {
                    let known = c.is_ascii();
                    out.extend(std::iter::repeat_n(if known { c } else { '?' }, c.len_utf8()));
                }
            }
            if is_word {
                (word, joint) = (piece, "");
            } else {
                joint = piece;
            }
        }
        out
    }

    /// The HTTP status of a provider. Anything else in its place is a text.
    pub(super) fn status(&self, status: &str) -> String {
        match status.len() == 3 && status.bytes().all(|b| b.is_ascii_digit()) {
            true => status.to_owned(),
            false => self.error(status),
        }
    }

    /// An id: it keeps its shape, and its number if it is one of our calls.
    pub(super) fn id(&self, id: &str) -> String {
        let Some(key) = &self.key else { return redact::text(id).into_owned() };
        if let Some((session, number)) = SessionId::of_call(id) {
            return format!("sess_{}__call_{number}", self.session(session));
        }
        let digits = hex(&hashed(key, b"id", id.as_bytes()));
        let mut digits = digits.bytes().cycle();
        let shaped = |c: char| match c {
            '_' | '-' | '.' | ':' | '/' | '\n' => c.to_string(),
            _ => {
                let digit = |_| char::from(digits.next().unwrap_or(b'0'));
                (0..c.len_utf8()).map(digit).collect()
            }
        };
        id.chars().map(shaped).collect()
    }

    pub(super) fn session(&self, session: SessionId) -> SessionId {
        let Some(key) = &self.key else { return session };
        let hash = hashed(key, b"session", session.to_string().as_bytes());
        SessionId::from_random(*hash.first_chunk().unwrap_or(&[0; 16]))
    }

    /// Sixteen bytes that stand for others.
    pub(super) fn seed(&self, seed: [u8; 16]) -> [u8; 16] {
        let Some(key) = &self.key else { return seed };
        *hashed(key, b"seed", &seed).first_chunk().unwrap_or(&[0; 16])
    }

    /// The name of a tool, or of a parameter. Well-known ones stay.
    pub(super) fn name(&self, name: &str) -> String {
        let Some(key) = &self.key else { return redact::text(name).into_owned() };
        if name.len() > LONGEST_NAME {
            return self.whole(name);
        }
        let prefix = vocabulary::tool_prefix(name);
        let bare = name.get(prefix.len()..).unwrap_or_default();
        if vocabulary::is_tool(bare) || vocabulary::is_key(bare) {
            return name.to_owned();
        }
        let mut masked = prefix.to_owned();
        for piece in bare.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            // What keeps two names of the wire apart.
            let is_count = masked.ends_with('_')
                && matches!(word.as_bytes(), [b'2'..=b'9'])
                && bare.ends_with(piece);
            if is_count || guard::is_tool_word(&word.to_ascii_lowercase()) || word == "mcp" {
                masked.push_str(word);
            } else {
                // By its words, so that a name as the wire spells it has the same placeholder.
                masked.push_str(&letters(key, word.as_bytes(), word.len()));
            }
            for c in piece.get(word.len()..).unwrap_or_default().chars() {
                let known = "_-./:".contains(c);
                masked.extend(std::iter::repeat_n(if known { c } else { 'x' }, c.len_utf8()));
            }
        }
        masked
    }

    /// The name of a model stays if it looks like one.
    pub(super) fn model(&self, model: &str) -> String {
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-:/[]=,+".contains(c);
        let is_name = model.len() <= 96 && model.chars().all(legal);
        let is_plain = matches!(redact::text(model), Cow::Borrowed(_));
        // No path, and no name with a host.
        let is_name =
            is_name && is_plain && !model.starts_with('/') && model.matches('/').count() < 2;
        if is_name { model.to_owned() } else { self.whole(model) }
    }

    /// A word of the protocol stays, anything else does not.
    pub(super) fn word(&self, word: &str) -> String {
        if self.keeps_texts() || vocabulary::is_word(word) {
            word.to_owned()
        } else {
            self.whole(word)
        }
    }

    /// A number that may be anything. It keeps its sign and its number of digits, and whether it
    /// is 0 or 1.
    pub(super) fn number(&self, number: f64) -> f64 {
        let Some(key) = &self.key else { return number };
        if number == 0.0 || number == 1.0 || !number.is_finite() {
            return number;
        }
        let whole = number.abs().trunc();
        let digits = format!("{whole:.0}").len().clamp(1, 15);
        let hash = hashed(key, b"number", &number.to_bits().to_be_bytes());
        let digit = |byte: &u8| char::from(b'2' + byte % 8);
        let masked: String = hash.iter().take(digits).map(digit).collect();
        masked.parse::<f64>().unwrap_or(2.0).copysign(number)
    }

    /// Bytes of any kind: a text stays a text, and bytes that are none do not become one.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        match (&self.key, std::str::from_utf8(bytes)) {
            (None, Ok(text)) => redact::text(text).into_owned().into_bytes(),
            (None, Err(_)) => bytes.to_vec(),
            (Some(_), Ok(text)) => self.whole(text).into_bytes(),
            (Some(key), Err(_)) => {
                let mut masked = filled(key, bytes).into_bytes();
                if let Some(first) = masked.first_mut() {
                    *first = NO_TEXT;
                }
                masked
            }
        }
    }
}

/// A letter that is in no tag of leaked thinking.
const NO_TAG: char = 'x';

/// The first byte of a placeholder for bytes that are not a text.
pub(super) const NO_TEXT: u8 = 0xff;

/// Puts this in the place of bytes that are there, and are as many.
fn splice(bytes: &mut [u8], range: Range<usize>, with: &str) {
    if let Some(place) = bytes.get_mut(range).filter(|place| place.len() == with.len()) {
        place.copy_from_slice(with.as_bytes());
    }
}

/// A placeholder of the length of `text`.
fn filled(key: &[u8; 32], text: &[u8]) -> String {
    let mut filled = letters(key, text, text.len().min(DISTINCT));
    filled.extend(std::iter::repeat_n('x', text.len() - filled.len()));
    filled
}

fn letters(key: &[u8; 32], text: &[u8], count: usize) -> String {
    let hash = hashed(key, b"text", text);
    let letter = |byte: &u8| char::from(b'a' + byte % 26);
    hash.iter().cycle().take(count).map(letter).collect()
}

fn hashed(key: &[u8; 32], what: &[u8], text: &[u8]) -> [u8; 32] {
    // Once inside and once outside, as an HMAC, so that nothing can be appended.
    let mut inner = Sha256::new();
    inner.update(key);
    inner.update((what.len() as u64).to_be_bytes());
    inner.update(what);
    inner.update(text);
    let mut outer = Sha256::new();
    outer.update(key);
    outer.update(inner.finalize());
    outer.finalize().into()
}

impl StreamedText {
    /// Line breaks stay, and so does what may be a tag of leaked thinking: the machine looks for
    /// both.
    fn push(&mut self, key: &[u8; 32], stream: TextStream, text: &str) -> String {
        if self.raw.len() + text.len() > STREAMED {
            self.raw.clear();
            self.masked.clear();
        }
        let from = self.masked.len();
        self.last = from;
        self.raw.push_str(text);
        for c in text.chars() {
            let in_tag = !self.tag.is_empty();
            if self.stays(c) {
                self.masked.push(c);
                continue;
            }
            if in_tag {
                // Any other letter could go on with the tag that this one ends.
                self.masked.extend(std::iter::repeat_n(NO_TAG, c.len_utf8()));
                continue;
            }
            for _ in 0..c.len_utf8() {
                if self.letters.is_empty() {
                    self.blocks += 1;
                    let number = [&[stream as u8][..], &self.blocks.to_be_bytes()].concat();
                    self.letters = letters(key, &number, 32);
                }
                self.masked.extend(self.letters.pop());
            }
        }
        self.masked.get(from..).unwrap_or_default().to_owned()
    }

    fn stays(&mut self, c: char) -> bool {
        if c == '\n' || (c.is_whitespace() && !self.in_line) {
            self.in_line &= c != '\n';
            self.tag.clear();
            return true;
        }
        self.in_line = true;
        if c == '<' {
            self.tag.clear();
        } else if self.tag.is_empty() {
            return false;
        }
        self.tag.push(c);
        let may_be_tag = vocabulary::may_be_tag(&self.tag);
        if !may_be_tag {
            self.tag.clear();
        }
        may_be_tag
    }

    /// A text that was said before, that begins with what was said last, or is new.
    fn repeat(&mut self, key: &[u8; 32], stream: TextStream, text: &str) -> String {
        if let Some(known) = self.find(text) {
            return known;
        }
        let last = self.last;
        let said = self.raw.get(last..).filter(|said| !said.is_empty());
        let Some(new) = said.and_then(|said| text.strip_prefix(said)) else {
            return self.push(key, stream, text);
        };
        let said = self.masked.get(last..).unwrap_or_default().to_owned();
        let new = self.push(key, stream, new);
        self.last = last.min(self.raw.len());
        said + &new
    }

    fn find(&self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        let at = memchr::memmem::find(self.raw.as_bytes(), trimmed.as_bytes())?;
        let start = text.len() - text.trim_start().len();
        let end = start + trimmed.len();
        let masked = self.masked.get(at..at + trimmed.len())?;
        Some(format!("{}{masked}{}", text.get(..start)?, text.get(end..)?))
    }
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
