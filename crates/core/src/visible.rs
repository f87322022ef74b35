//! Text from elsewhere, with what cannot be seen in it made visible: a log must not be able to
//! lie about what it holds, in any terminal or editor.

use std::{borrow::Cow, fmt::Write as _};

/// Escapes what a reader would not see, or would see in another order: control characters
/// beyond ASCII, line and paragraph separators, marks that turn the direction of writing,
/// characters without a width. They become `\u202e`, which JSON reads back.
///
/// ASCII is left as it is: loggers know its control characters, and write some themselves.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A string takes whatever is written to it.
                let _ = write!(seen, "\\u{unit:04x}");
            }
        } else {
            seen.push(c);
        }
    }
    Cow::Owned(seen)
}

fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, expect) in [
            ("/v1/models", "/v1/models"),
            ("/v1/моделі/模型/🦀", "/v1/моделі/模型/🦀"),
            ("a\u{9b}31mb", "a\\u009b31mb"),
            ("a\u{85}b", "a\\u0085b"),
            ("a\u{202e}b\u{2066}", "a\\u202eb\\u2066"),
            ("a\u{2028}b\u{2029}c", "a\\u2028b\\u2029c"),
            ("a\u{200b}\u{feff}b", "a\\u200b\\ufeffb"),
            ("a\u{e0041}b", "a\\udb40\\udc41b"),
        ] {
            assert_eq!(visible(text), expect);
            let back: String = serde_json::from_str(&format!("\"{}\"", visible(text))).unwrap();
            assert_eq!(back, text);
        }
    }

    #[test]
    fn non_ascii_control_characters_are_escaped() {
        let all: String = ('\u{80}'..=char::MAX).filter(|c| c.is_control()).collect();
        assert!(visible(&all).is_ascii());
    }
}
