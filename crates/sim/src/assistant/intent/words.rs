//! Splits a text into words, with quotes and JSON objects in one piece, and finds where a new
//! clause may begin.

use serde_json::{Map, Value};

/// One word, or something quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written, with quotes and punctuation.
    text: String,
    /// In lower case, without punctuation.
    pub(crate) plain: String,
    pub(crate) quoted: bool,
    /// A JSON object.
    pub(crate) table: bool,
    /// The first of its line.
    pub(crate) line: bool,
}

impl Word {
    fn new(text: &str, line: bool) -> Self {
        let plain = text.to_lowercase();
        let quoted = text.len() > 1
            && ['`', '"', '\''].iter().any(|q| text.starts_with(*q) && text.ends_with(*q));
        Self {
            plain: plain.trim_matches(|c: char| !c.is_alphanumeric()).to_owned(),
            quoted,
            table: table_len(text) == Some(text.len()),
            text: text.to_owned(),
            line,
        }
    }

    /// One of these words, and not a quote.
    pub(crate) fn is_any(&self, names: &[&str]) -> bool {
        !self.quoted && !self.table && names.contains(&self.plain.as_str())
    }

    /// The word without its quotes or the punctuation around it.
    pub(crate) fn value(&self) -> String {
        if let Some(code) = self.text.strip_prefix("```").and_then(|t| t.strip_suffix("```")) {
            // The first line may name a language.
            let code = code.split_once('\n').map_or(code, |(_, code)| code);
            return code.trim().to_owned();
        }
        if self.quoted {
            let inner = self.text.len().saturating_sub(1);
            return self.text.get(1..inner).unwrap_or_default().to_owned();
        }
        let plain = self.text.trim_end_matches([',', '.', ';', '!', '?', ')', ':']);
        plain.trim_matches(['\'', '(', ':']).to_owned()
    }

    /// Whether a new clause may begin after it.
    pub(crate) fn ends_clause(&self) -> bool {
        let number = self.plain.parse::<u32>().is_ok();
        let bullet = self.line && matches!(self.text.as_str(), "-" | "*" | "•");
        let listed = self.line && number && self.text.ends_with(')');
        !self.quoted && (self.text.ends_with([',', '.', ';', ':', '!', '?']) || bullet || listed)
    }

    /// A quote that is not a JSON object.
    pub(crate) fn is_quote(&self) -> bool {
        self.quoted && !self.table
    }

    /// A comma by itself, as it follows a quote.
    pub(crate) fn is_comma(&self) -> bool {
        self.text == ","
    }

    pub(crate) fn ends_with_comma(&self) -> bool {
        !self.quoted && self.text.ends_with(',')
    }

    /// Whether it looks like the path of a file, quoted or not.
    pub(crate) fn is_path(&self) -> bool {
        let value = self.value();
        if value.contains(char::is_whitespace) || value.contains("://") || self.table {
            return false;
        }
        let name = value.rsplit('/').next().unwrap_or_default();
        let dotted = name.rsplit_once('.').is_some_and(|(stem, end)| {
            !end.is_empty() && (!stem.is_empty() || end.len() > 1) && end.len() <= 10
        });
        let number = value.parse::<f64>().is_ok();
        (value.contains('/') && value.len() > 1 && value != "and/or") || (dotted && !number)
    }
}

/// All words of a text.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let text = text.replace(['“', '”', '„'], "\"").replace(['‘', '’'], "'");
    let mut out = Vec::new();
    let (mut rest, mut line) = (text.trim_start(), true);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '`' if rest.starts_with("```") => fence_len(rest),
            '`' | '"' => rest.get(1..).and_then(|inner| inner.find(first)).map(|end| end + 2),
            '\'' => apostrophes_len(rest),
            '{' => table_len(rest),
            _ => None,
        };
        let len = len.unwrap_or_else(|| word_len(rest)).max(first.len_utf8());
        let (word, tail) = rest.split_at_checked(len).unwrap_or((rest, ""));
        out.push(Word::new(word, line));
        rest = tail.trim_start();
        let gap = tail.len() - rest.len();
        line = tail.get(..gap).unwrap_or_default().contains('\n');
    }
    out
}

/// A word ends at a space, and before an opening quote.
fn word_len(text: &str) -> usize {
    text.char_indices()
        .skip(1)
        .find(|(_, c)| c.is_whitespace() || matches!(c, '`' | '"'))
        .map_or(text.len(), |(at, _)| at)
}

fn fence_len(text: &str) -> Option<usize> {
    text.get(3..)?.find("```").map(|end| end + 6)
}

/// Apostrophes are quotes only if the closing one is not inside a word.
fn apostrophes_len(text: &str) -> Option<usize> {
    let inner = text.get(1..)?;
    inner
        .match_indices('\'')
        .find(|(at, _)| {
            let next = inner.get(at + 1..).and_then(|tail| tail.chars().next());
            *at > 0 && next.is_none_or(|c| !c.is_alphanumeric())
        })
        .map(|(at, _)| at + 2)
}

/// The length of the JSON object at the start.
fn table_len(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return None;
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    stream.next()?.ok()?;
    Some(stream.byte_offset())
}
