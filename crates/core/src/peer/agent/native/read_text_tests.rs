use super::*;

/// Clients that cut: the text, what is left of it, the lines of the file.
const CUT: &[(&str, &str, usize)] = &[
    ("a\nb\n\n[Showing lines 1-2 of 5000. Use offset=3 to continue.]", "a\nb", 5000),
    ("a\nb\n\n[Showing lines 1-2 of 90 (50.0KB limit). Use offset=3 to continue.]", "a\nb", 90),
    ("a\nb\n\n[12 more lines in file. Use offset=3 to continue.]", "a\nb", 2),
    ("Showing lines 1-2 of 3000 total lines.\n\n---\n\na\nb\n", "a\nb\n", 3000),
    (
        "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines 1-2 of 70 total \
         lines.\nAction: To read more of the file, use offset: 2.\n\n\
         --- FILE CONTENT (truncated) ---\na\nb\n",
        "a\nb\n",
        70,
    ),
    ("[File content truncated: showing lines 1-2 of 70 total lines.]\na\nb\n", "a\nb\n", 70),
    (
        "<warning>\nThe output was too long.\n</warning>\n<output_head>\na\n</output_head>\n\
         <elided_chars>\n120 characters elided\n</elided_chars>\n<output_tail>\nb\n</output_tail>",
        "a\n[... 120 characters elided ...]\nb\n",
        3,
    ),
    ("a\nb\n(Output capped at 50 KB.)", "a\nb", 2),
];

#[test]
fn truncated_file_is_recognised_for_every_tool() {
    for (text, content, total_lines) in CUT {
        let want = Text { content: (*content).into(), total_lines: *total_lines, truncated: true };
        assert_eq!(shown(text, 1, false), want, "{text}");
        assert_eq!(printed(text, 1), want, "{text}");
    }
    for text in [
        "[Line 1 is 60.0KB, exceeds 50.0KB limit. Use bash: sed -n '1p' a | head -c 51200]",
        "File content (28375 tokens) exceeds maximum allowed tokens (25000).",
        "a\n... [120 lines truncated] ...\nb\nc\nd\ne\n",
        "a\n…12 tokens truncated…\nb",
        "a\nb\n\nThe output was truncated. Full output saved to: /tmp/x",
        "a\nvery lo... [truncated]\nb\nc\nd\ne\nf\ng\nh\ni\n",
        "<path>/w/a</path>\n<type>file</type>\n<content>\n1: a\n2: b",
        "     1→a\n     2→b\n\n<system-reminder>The file was truncated.</system-reminder>",
    ] {
        assert!(shown(text, 1, false).truncated, "{text}");
    }
    // Behind numbered lines, even a remark without brackets is taken off.
    let text = "     1→a\n     2→b\nFile truncated after 2 lines";
    assert_eq!(shown(text, 1, false).content, "a\nb\n");
    assert!(shown(text, 1, false).truncated);
}

#[test]
fn ordinary_file_is_complete() {
    for text in [
        "",
        "fn main() {}\n",
        "# Notes\n\n- [x] done\n(see below)\n",
        "---\ntitle: a\n---\ntext\n",
        "first\r\nsecond\r\n",
        "a\n\n\n<system-reminder>mine</system-reminder>\n",
        "<system-reminder>mine</system-reminder>",
        "Error: a log\nof several lines\n",
        "File not found is what this page is about.\n\nMore of it.\n",
        "<warning>a tag</warning>\n",
    ] {
        let whole =
            Text { content: text.into(), total_lines: text.lines().count(), truncated: false };
        assert_eq!(shown(text, 1, false), whole, "{text}");
        assert_eq!(printed(text, 1), whole, "{text}");
    }
}

#[test]
fn numbers_that_belong_to_the_file_are_kept() {
    for text in ["1\tone\n2\ttwo\n", "1:30\n", "1|a|b\n2|c|d\n", "1: a\n2: b", "L1: a\nL2: b"] {
        // They may be the tool's, so the file is not written back.
        let kept = shown(text, 1, false);
        assert_eq!((kept.content.as_str(), kept.truncated), (text, true));
        // A command prints the file itself.
        let kept = printed(text, 1);
        assert_eq!((kept.content.as_str(), kept.truncated), (text, false));
        // A tool that says that it numbers lines has numbered them.
        let stripped = shown(text, 1, true);
        assert_ne!(stripped.content, text);
        assert!(!stripped.truncated);
    }
    assert_eq!(shown("1\tone\n2\ttwo\n", 1, true).content, "one\ntwo\n");
}

#[test]
fn bare_number_at_the_end_follows_the_last_newline() {
    let note =
        "\n\n<system-reminder>\n<total_tokens>7 tokens left</total_tokens>\n</system-reminder>";
    for (text, content) in
        [("1\ta\n2\tb\n3", "a\nb\n"), ("1\ta\n2\t\n3\t\n4", "a\n\n\n"), ("1\t\n2", "\n")]
    {
        let whole = Text {
            content: content.into(),
            total_lines: content.lines().count(),
            truncated: false,
        };
        assert_eq!(shown(&format!("{text}{note}"), 1, true), whole, "{text}");
    }
    // Another number is none of the tool's, and where it numbers lines, nothing is right then.
    let odd = shown("1\ta\n2\tb\n7", 1, true);
    assert_eq!((odd.content.as_str(), odd.truncated), ("1\ta\n2\tb\n7", true));
}

#[test]
fn carriage_returns_stay() {
    let crlf = "     1→a\r\n     2→b\r\n";
    assert_eq!(shown(crlf, 1, false).content, "a\r\nb\r\n");
    let tagged = "<path>/w/a</path>\n<type>file</type>\n<content>\n1: a\r\n2: b\r\n\n\
                  (End of file - total 2 lines)\n</content>";
    assert_eq!(shown(tagged, 1, false).content, "a\r\nb\r\n");
}

#[test]
fn line_that_may_be_an_error_is_not_written_back() {
    let text = "Error: something went wrong";
    let kept = shown(text, 1, false);
    assert_eq!((kept.content.as_str(), kept.truncated), (text, true));
}
