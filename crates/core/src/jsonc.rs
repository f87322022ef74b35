//! JSON with comments and trailing commas, as people write settings.

use serde::de::DeserializeOwned;

/// Reads a text. Nesting is limited as in `serde_json`.
///
/// # Errors
/// It is not valid. Line and column are those of the text.
pub fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(&plain(text))
}

/// How deeply its brackets are nested, also where it is not valid.
#[must_use]
pub fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for piece in pieces(text) {
        match piece {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The same text as plain JSON. Every character stays at its place, so that an error's
/// line and column are those of the file.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Where the last comma stands, while nothing but space and comments came after it.
    let mut comma = None;
    for piece in pieces(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        if piece.starts_with("//") || piece.starts_with("/*") {
            out.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
            continue;
        }
        match piece {
            "," => comma = Some(out.len()),
            "}" | "]" => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
            }
            space if space.trim().is_empty() => {}
            _ => comma = None,
        }
        out.push_str(piece);
    }
    out
}

/// Strings and comments as they are, and every other character by itself.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = match rest.chars().next()? {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some(piece)
    })
}

/// The length of the string at the beginning of the text.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_ignored() {
        for (text, meant) in [
            ("{\"a\": 1} // end", "{\"a\": 1}"),
            ("{/* x */\"a\": [1, 2,],}", "{\"a\": [1, 2]}"),
            ("{\"url\": \"http://x/*y*/\", // , }\n}", "{\"url\": \"http://x/*y*/\"}"),
            ("{\"q\": \"\\\"//\\\\\"}", "{\"q\": \"\\\"//\\\\\"}"),
            ("\u{feff}[\"ü\", /* ü\n */ 1]", "[\"ü\", 1]"),
        ] {
            let read: serde_json::Value = parse(text).unwrap();
            assert_eq!(read, serde_json::from_str::<serde_json::Value>(meant).unwrap(), "{text}");
        }
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_nest() {
        let brackets = "[".repeat(300);
        let flat = format!("{{\"a\": \"{brackets}\" // {brackets}\n /* {brackets} */}}");
        assert_eq!(depth(&flat), 1);
        assert_eq!(depth(&brackets), 300);
        assert_eq!(depth("[]]{[1]}"), 2);
    }

    #[test]
    fn errors_have_the_position_in_the_text() {
        let text = "{\n  // a comment\n  \"a\": oops\n}";
        let error = parse::<serde_json::Value>(text).unwrap_err();
        assert_eq!((error.line(), error.column()), (3, 8));
    }

    #[test]
    fn invalid_json_stays_invalid() {
        for text in ["", "/*", "\"", "[1 2]", "{\"a\": \"b"] {
            let read = parse::<serde_json::Value>(text);
            assert!(read.is_err(), "{text}");
        }
    }
}
