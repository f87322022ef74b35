use super::*;

fn form(first: usize, count: Option<usize>) -> Form {
    let range = Range { first, count };
    Form { arm: Arm::Plain, path: "/w/a".into(), range, habits: Habits::default() }
}

#[test]
fn text_that_a_tool_adds_is_removed() {
    let cases: &[(&str, usize, &str, usize, bool)] = &[
        ("     1→fn a() {}\n     2→\n     3→}", 1, "fn a() {}\n\n}\n", 3, false),
        ("    10\ta\n    11\tb\n", 10, "a\nb\n", 11, false),
        (
            "<file>\n00001| a\n00002| b\n\n(End of file - total 2 lines)\n</file>",
            1,
            "a\nb\n",
            2,
            false,
        ),
        (
            "<path>/w/a</path>\n<type>file</type>\n<content>\n5: a\n6:   b\n\n\
             (Showing lines 5-6 of 90. Use offset=7 to continue.)\n</content>",
            5,
            "a\n  b\n",
            90,
            true,
        ),
        (
            "<path>/w/a</path>\n<type>file</type>\n<content>\n1: a\n\n(End of file - total 1 lines)\n\
             </content>\n\n<system-reminder>\nbe nice\n</system-reminder>",
            1,
            "a\n",
            1,
            false,
        ),
        ("<system-reminder>the file is empty</system-reminder>", 1, "", 0, false),
        ("Content of /w/a:\nplain\n", 1, "plain\n", 1, false),
        ("Content of /w/b:\nplain\n", 1, "Content of /w/b:\nplain\n", 2, false),
        // Not numbered by the tool: every byte is the file's own.
        ("plain\ntext", 1, "plain\ntext", 2, false),
        ("1: a\n3: b", 1, "1: a\n3: b", 2, false),
        ("7: a\n8: b\n", 1, "7: a\n8: b\n", 2, false),
        ("(in brackets)\n", 1, "(in brackets)\n", 1, false),
        ("<content>no tag of a tool", 1, "<content>no tag of a tool", 1, false),
    ];
    for (text, first, content, total_lines, truncated) in cases {
        let want =
            Text { content: (*content).into(), total_lines: *total_lines, truncated: *truncated };
        assert_eq!(form(*first, None).text(text, false), want, "{text}");
    }
}

#[test]
fn output_of_a_shell_is_the_file_itself() {
    let text = form(1, None).text("1: a\n2: b", true);
    assert_eq!(text, Text { content: "1: a\n2: b".into(), total_lines: 2, truncated: false });
    assert!(form(1, None).text("a\n…12 tokens truncated…\nb", true).truncated);
}

#[test]
fn file_at_the_tools_line_limit_counts_as_truncated() {
    for (most, truncated) in [(Some(2), true), (Some(3), false), (Some(1), false), (None, false)] {
        let mut form = form(1, None);
        form.habits.most = most;
        assert_eq!(form.text("a\nb\n", false).truncated, truncated, "{most:?}");
    }
}

#[test]
fn range_is_reported_and_a_partial_file_has_no_size() {
    let size = |form: Form, text: &str| match form.success(&form.text(text, false)) {
        ReadOutcome::Success(success) => (success.file_size, success.range_applied),
        other => panic!("{other:?}"),
    };
    assert_eq!(size(form(1, None), "abc\n"), (4, false));
    assert_eq!(size(form(2, None), "abc\n"), (0, true));
    assert_eq!(size(form(1, Some(1)), "abc\n"), (0, true));
}

#[test]
fn picture_is_returned_as_data() {
    let data = Bytes::from_static(b"png");
    let done = Outcome::Done("Image read successfully".into());
    let reply = form(1, None).reply(&done, Some(&data), false);
    let Reply::ReadResult(ReadResult { result: Some(ReadOutcome::Success(success)) }) = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!(success.output, Some(read_success::Output::Data(data)));
    assert_eq!(success.file_size, 3);
}

#[test]
fn errors_have_their_own_arms() {
    for (text, want) in [
        ("ENOENT: no such file or directory", "FileNotFound"),
        ("<tool_use_error>File does not exist.</tool_use_error>", "FileNotFound"),
        ("EACCES: permission denied", "PermissionDenied"),
        ("EISDIR: illegal operation on a directory", "InvalidFile"),
        ("Cannot read binary file: a", "InvalidFile"),
        ("Offset 9 is out of range", "Error"),
    ] {
        let reply =
            format!("{:?}", form(1, None).reply(&Outcome::Failed(text.into()), None, false));
        assert!(reply.contains(&format!("Some({want}(")), "{text}: {reply}");
        assert!(!reply.contains("tool_use_error"), "{reply}");
    }
}
