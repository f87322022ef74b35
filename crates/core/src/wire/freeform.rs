//! The raw input of a freeform tool, read out of the arguments of the function that stands
//! in for it: `{"input":"…"}`, which may come cut at any place, even inside an escape.

use serde::Serialize;

/// The one argument of the function that stands in for a freeform tool.
pub(in crate::wire) const SCHEMA: &str = r#"{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool, as raw text"}},"required":["input"],"additionalProperties":false}"#;

/// What the input of a freeform tool must look like.
#[derive(Debug, Default)]
pub(in crate::wire) struct FreeformFormat<'a> {
    pub(in crate::wire) kind: Option<&'a str>,
    pub(in crate::wire) syntax: Option<&'a str>,
    pub(in crate::wire) definition: Option<&'a str>,
}

/// The description of the function that stands in for a freeform tool.
pub(in crate::wire) fn describe(mut description: String, format: &FreeformFormat<'_>) -> String {
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str(
        "The tool takes raw text. Give all of it in `input`, as it is: no JSON inside, no \
         code fence around it.",
    );
    if let Some(definition) = format.definition.filter(|text| !text.is_empty())
        && format.kind != Some("text")
    {
        let syntax = format.syntax.unwrap_or("given");
        description.push_str(" The text must match this ");
        description.push_str(syntax);
        description.push_str(if syntax == "regex" { ":\n" } else { " grammar:\n" });
        description.push_str(definition);
    }
    description
}

/// A freeform call as the arguments of the function that stands in for its tool.
pub(in crate::wire) fn arguments(input: &str) -> String {
    #[derive(Serialize)]
    struct Arguments<'a> {
        input: &'a str,
    }
    serde_json::to_string(&Arguments { input }).unwrap_or_else(|_| "{}".to_owned())
}

/// The input in the complete arguments of a call.
pub(in crate::wire) fn input(arguments: &str) -> String {
    let (mut reader, mut text) = (Freeform::default(), String::new());
    reader.push(arguments, &mut text);
    reader.finish(&mut text);
    text
}

/// Reads the arguments of one call as they arrive.
#[derive(Debug)]
pub(in crate::wire) enum Freeform {
    /// Everything so far, while it may still become `{"input":"`.
    Head(String),
    /// Inside the string.
    Body(Unescape),
    /// Behind the string: the rest says nothing.
    Tail,
    /// Arguments of another shape; they are read when they are complete.
    Other(String),
}

/// What is left over of a string whose escapes were resolved up to some point.
#[derive(Debug, Default)]
pub(in crate::wire) struct Unescape {
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Slash,
    Hex {
        digits: u8,
        value: u16,
    },
}

impl Default for Freeform {
    fn default() -> Self {
        Self::Head(String::new())
    }
}

impl Freeform {
    /// Takes in the next piece, and appends to `text` what is certain of the input.
    pub(in crate::wire) fn push(&mut self, piece: &str, text: &mut String) {
        match self {
            Self::Head(head) => {
                head.push_str(piece);
                match body_start(head) {
                    InputStart::Unknown => {}
                    InputStart::Never => *self = Self::Other(std::mem::take(head)),
                    InputStart::At(at) => {
                        let mut body = Unescape::default();
                        let ended = body.push(head.get(at..).unwrap_or_default(), text);
                        *self = if ended { Self::Tail } else { Self::Body(body) };
                    }
                }
            }
            Self::Body(body) => {
                if body.push(piece, text) {
                    *self = Self::Tail;
                }
            }
            Self::Tail => {}
            Self::Other(all) => all.push_str(piece),
        }
    }

    /// The arguments are complete: appends what was not certain before.
    pub(in crate::wire) fn finish(self, text: &mut String) {
        match self {
            Self::Head(all) | Self::Other(all) => text.push_str(&other(all)),
            Self::Body(mut body) => body.flush(text),
            Self::Tail => {}
        }
    }
}

enum InputStart {
    At(usize),
    Unknown,
    Never,
}

/// Where the string of `{"input":"…` begins.
fn body_start(head: &str) -> InputStart {
    let mut rest = head;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_ascii_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return InputStart::Unknown,
            None => return InputStart::Never,
        }
    }
    InputStart::At(head.len().saturating_sub(rest.len()))
}

/// The input in arguments of another shape than requested. A model that ignores the
/// schema still means something: a bare string is the input, and any other JSON too.
fn other(arguments: String) -> String {
    #[derive(serde::Deserialize)]
    struct Wrapped {
        input: String,
    }
    if let Ok(Wrapped { input }) = serde_json::from_str(&arguments) {
        return input;
    }
    if let Ok(input) = serde_json::from_str::<String>(&arguments) {
        return input;
    }
    if arguments.trim() == "{}" { String::new() } else { arguments }
}

// === impl Unescape ===

impl Unescape {
    /// Whether the string ended.
    fn push(&mut self, piece: &str, text: &mut String) -> bool {
        let mut rest = piece;
        while let Some(next) = rest.chars().next() {
            match self.escape {
                Escape::None => {
                    let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
                    if let Some((run, after)) = rest.split_at_checked(plain)
                        && !run.is_empty()
                    {
                        self.flush(text);
                        text.push_str(run);
                        rest = after;
                        continue;
                    }
                    if next == '"' {
                        self.flush(text);
                        return true;
                    }
                    self.escape = Escape::Slash;
                }
                Escape::Slash => self.after_slash(next, text),
                Escape::Hex { digits, value } => {
                    let digit = next.to_digit(16).and_then(|digit| u16::try_from(digit).ok());
                    let Some(digit) = digit else {
                        // Not an escape at all. What it was meant to be is lost; the rest
                        // is not.
                        self.escape = Escape::None;
                        self.flush(text);
                        text.push(char::REPLACEMENT_CHARACTER);
                        continue;
                    };
                    let value = value << 4 | digit;
                    self.escape = Escape::Hex { digits: digits + 1, value };
                    if digits == 3 {
                        self.escape = Escape::None;
                        self.unit(value, text);
                    }
                }
            }
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
        false
    }

    fn after_slash(&mut self, next: char, text: &mut String) {
        if next == 'u' {
            self.escape = Escape::Hex { digits: 0, value: 0 };
            return;
        }
        self.flush(text);
        self.escape = Escape::None;
        text.push(match next {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            other => other,
        });
    }

    /// One unit of UTF-16.
    fn unit(&mut self, unit: u16, text: &mut String) {
        if let Some(high) = self.high.take() {
            match char::decode_utf16([high, unit]).next() {
                Some(Ok(pair)) => return text.push(pair),
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        match unit {
            0xd800..0xdc00 => self.high = Some(unit),
            _ => text.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    /// A half of a surrogate pair whose other half does not come.
    fn flush(&mut self, text: &mut String) {
        if self.high.take().is_some() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
#[path = "freeform_tests.rs"]
mod tests;
