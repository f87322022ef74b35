use ibeam_proto::agent::{GrepUnionResult, grep_union_result};

use super::*;

fn found(text: &str, mode: Mode, knows_mode: bool, head: Option<i32>) -> GrepUnionResult {
    matches::read(text, mode, knows_mode, true, "/w").union(mode, head)
}

/// `file:line:text`, with `-` for context.
fn lines(union: &GrepUnionResult) -> Vec<String> {
    let Some(grep_union_result::Result::Content(content)) = &union.result else { panic!() };
    content
        .matches
        .iter()
        .flat_map(|file| {
            file.matches.iter().map(|line| {
                let sign = if line.is_context_line { '-' } else { ':' };
                format!("{}{sign}{}{sign}{}", file.file, line.line_number, line.content)
            })
        })
        .collect()
}

#[test]
fn lines_are_found_in_every_form() {
    for (text, want) in [
        ("a.rs:1:x: y\nb.rs:22:\n", &["a.rs:1:x: y", "b.rs:22:"][..]),
        (
            "Found 2 matches\n/w/a.rs:\n  Line 1: x\n  Line 9:   y\n\n/w/b.rs:\n  Line 2: z",
            &["/w/a.rs:1:x", "/w/a.rs:9:  y", "/w/b.rs:2:z"],
        ),
        // Context; a time in it is not a match, and a date in a path is not context.
        (
            "a.rs-4-at 10:12:00\na.rs:5:x\n--\nb-01-c.rs:7:y",
            &["a.rs-4-at 10:12:00", "a.rs:5:x", "b-01-c.rs:7:y"],
        ),
        ("a.rs\n3:x\n4-y\n\nb.rs\n7:z", &["a.rs:3:x", "a.rs-4-y", "b.rs:7:z"]),
        ("3:x\n4:y", &["/w:3:x", "/w:4:y"]),
        (r"C:\w\a.rs:3:x", &[r"C:\w\a.rs:3:x"]),
        ("no idea what this is", &["/w:0:no idea what this is"]),
        ("No matches found", &[]),
        ("No files found", &[]),
        ("", &[]),
    ] {
        assert_eq!(lines(&found(text, Mode::Content, true, None)), want, "{text}");
    }
}

#[test]
fn names_and_counts_are_read_from_the_tools_output() {
    let shown = "Found 3 matches\n/w/a:\n  Line 1: x\n  Line 2: x\n/w/b:\n  Line 1: x";
    for (text, knows_mode) in
        [("Found 2 files\n/w/a\n/w/b", true), ("/w/a\n/w/b", false), (shown, false)]
    {
        let Some(grep_union_result::Result::Files(files)) =
            found(text, Mode::Files, knows_mode, None).result
        else {
            panic!()
        };
        assert_eq!((files.files, files.total_files), (vec!["/w/a".into(), "/w/b".into()], 2));
    }
    for (text, knows_mode) in [("/w/a:2\n/w/b:1\n/w/c:0", true), (shown, false)] {
        let Some(grep_union_result::Result::Count(counts)) =
            found(text, Mode::Count, knows_mode, None).result
        else {
            panic!()
        };
        assert_eq!((counts.total_files, counts.total_matches), (2, 3), "{text}");
    }
}

#[test]
fn truncated_list_is_marked() {
    let union = found("a:1:x\na:2:y\nb:3:z", Mode::Content, true, Some(2));
    assert_eq!(lines(&union), ["a:1:x", "a:2:y"]);
    let Some(grep_union_result::Result::Content(content)) = union.result else { panic!() };
    assert!(content.client_truncated);
    assert_eq!((content.head_limit_applied, content.total_lines), (Some(2), 2));
    let text = "a:1:x\n\n(Results truncated. Consider a more specific path.)";
    let Some(grep_union_result::Result::Content(content)) =
        found(text, Mode::Content, true, None).result
    else {
        panic!()
    };
    assert!(content.client_truncated && content.total_lines == 1);
}

#[test]
fn finding_nothing_is_not_an_error() {
    let result = |text: &str| ToolResult {
        call_id: String::new(),
        content: vec![crate::model::Part::Text(text.to_owned())],
        is_error: false,
    };
    let nothing = outcome(&result("Exit code: 1\nWall time: 0 seconds\nOutput:\n"), true);
    assert_eq!(nothing, Outcome::Done(String::new()));
    let partly = "Exit code: 2\nWall time: 0 seconds\nOutput:\ngrep: x: Permission denied\na:1:x";
    assert!(matches!(outcome(&result(partly), true), Outcome::Done(_)));
    let broken = "Exit code: 2\nWall time: 0 seconds\nOutput:\ngrep: Unmatched (";
    assert!(matches!(outcome(&result(broken), true), Outcome::Failed(_)));
}

#[test]
fn a_literal_text_is_escaped() {
    assert_eq!(escaped("a.b(c)"), r"a\.b\(c\)");
}
