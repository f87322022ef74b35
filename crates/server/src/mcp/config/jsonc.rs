//! JSON with comments and commas too many, as people write settings.

/// The same text as plain JSON. Every character stays at its place, so that an error's
/// line and column are those of the file.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Where the last comma stands, while nothing but space and comments came after it.
    let mut comma = None;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        if piece.starts_with("//") || piece.starts_with("/*") {
            out.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
            continue;
        }
        match c {
            ',' => comma = Some(out.len()),
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
            }
            c if c.is_whitespace() => {}
            _ => comma = None,
        }
        out.push_str(piece);
    }
    out
}

/// The length of the string that the text begins with.
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
    fn comments_and_commas_go_and_strings_stay() {
        for (text, meant) in [
            ("{\"a\": 1} // end", "{\"a\": 1}"),
            ("{/* x */\"a\": [1, 2,],}", "{\"a\": [1, 2]}"),
            ("{\"url\": \"http://x/*y*/\", // , }\n}", "{\"url\": \"http://x/*y*/\"}"),
            ("{\"q\": \"\\\"//\\\\\"}", "{\"q\": \"\\\"//\\\\\"}"),
            ("\u{feff}[\"ü\", /* ü\n */ 1]", "[\"ü\", 1]"),
        ] {
            let read: serde_json::Value = serde_json::from_str(&plain(text)).unwrap();
            assert_eq!(read, serde_json::from_str::<serde_json::Value>(meant).unwrap(), "{text}");
        }
    }

    #[test]
    fn an_error_is_where_it_was() {
        let text = "{\n  // a comment\n  \"a\": oops\n}";
        let error = serde_json::from_str::<serde_json::Value>(&plain(text)).unwrap_err();
        assert_eq!((error.line(), error.column()), (3, 8));
    }

    #[test]
    fn what_is_no_json_does_not_become_some() {
        for text in ["", "/*", "\"", "[1 2]", "{\"a\": \"b"] {
            let read = serde_json::from_str::<serde_json::Value>(&plain(text));
            assert!(read.is_err(), "{text}");
        }
    }
}
