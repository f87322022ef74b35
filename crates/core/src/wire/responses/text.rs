//! Text that grows, as it stands between the quotes of a JSON string.
//!
//! A response says each text five times: piece by piece, and four times as a whole. It is
//! escaped once, when a piece comes, and copied from then on.

#[derive(Debug, Default)]
pub(super) struct EscapedText(String);

impl EscapedText {
    /// Returns what the piece was turned into.
    pub(super) fn push(&mut self, piece: &str) -> &str {
        let known = self.0.len();
        // To the end in any case: without a way out the compiler takes many bytes at a time.
        if piece.bytes().fold(true, |plain, byte| plain & !is_special(byte)) {
            self.0.push_str(piece);
        } else {
            self.escape(piece);
        }
        self.0.get(known..).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn escape(&mut self, piece: &str) {
        let mut rest = piece;
        while let Some((plain, special)) =
            rest.bytes().position(is_special).and_then(|at| rest.split_at_checked(at))
        {
            self.0.push_str(plain);
            let mut after = special.chars();
            if let Some(special) = after.next() {
                self.escape_one(special);
            }
            rest = after.as_str();
        }
        self.0.push_str(rest);
    }

    fn escape_one(&mut self, special: char) {
        let short = match special {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            control => {
                let code = u32::from(control);
                self.0.push_str("\\u00");
                let digits = [code >> 4, code & 0xf];
                return self.0.extend(digits.into_iter().filter_map(|d| char::from_digit(d, 16)));
            }
        };
        self.0.push_str(short);
    }
}

/// Whether JSON wants it escaped. All of these are characters by themselves.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pieces: &[String]) {
        let mut text = EscapedText::default();
        let given: String = pieces.iter().map(|piece| text.push(piece).to_owned()).collect();
        assert_eq!(given, text.as_str(), "each piece is given as it is kept");
        let json = serde_json::to_string(&pieces.concat()).unwrap();
        assert_eq!(format!("\"{given}\""), json);
    }

    #[test]
    fn json_escapes_match_serde() {
        let all: Vec<String> = (0..=0xff_u8).map(|code| char::from(code).to_string()).collect();
        check(&all);
        check(&[all.concat()]);
        check(&["plain".to_owned(), "\u{2028}\u{1f600}".to_owned(), "\"\"".to_owned()]);
        assert!(EscapedText::default().is_empty());
    }

    proptest! {
        #[test]
        fn chunked_escaping_equals_escaping_the_whole(pieces: Vec<String>) {
            check(&pieces);
        }
    }
}
