use super::*;

#[test]
fn exit_code_is_found_where_each_family_puts_it() {
    let cases: &[(&str, bool, &str, &str, i32)] = &[
        (
            r#"{"output":"hi\n","metadata":{"exit_code":3,"duration_seconds":0.1}}"#,
            false,
            "hi\n",
            "",
            3,
        ),
        (r#"{"stdout":"a","stderr":"b","exit_code":0}"#, false, "a", "b", 0),
        (r#"{"output":"the program's own"}"#, false, r#"{"output":"the program's own"}"#, "", 0),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nhi\n", false, "hi\n", "", 2),
        (
            "Exit code: 0\nWall time: 0.1 seconds\nTotal output lines: 900\nOutput:\n\nhi",
            false,
            "\nhi",
            "",
            0,
        ),
        (
            "Chunk ID: x\nWall time: 1.0 seconds\nProcess exited with code 1\nOriginal token count: 2\nOutput:\nhi",
            false,
            "hi",
            "",
            1,
        ),
        ("Exit code 127\nbash: x: command not found", true, "bash: x: command not found", "", 127),
        ("hi\n\nCommand exited with code 5", true, "hi", "", 5),
        ("hi\n(exit code: 4)", false, "hi", "", 4),
        ("<returncode>1</returncode>\n<output>\nhi\n</output>", false, "hi\n", "", 1),
        (
            "Command: x\nDirectory: (root)\nOutput: hi\nthere\nError: oh\nExit Code: 6\nSignal: 0",
            false,
            "hi\nthere",
            "oh",
            6,
        ),
        ("Command: x\nOutput: (empty)\nError: (none)\nExit Code: 0", false, "", "", 0),
        ("<stdout>\na\n</stdout>\n<stderr>\nb\n</stderr>", false, "a", "b", 0),
        ("plain", false, "plain", "", 0),
        ("plain", true, "plain", "", 1),
        ("(no output)", false, "", "", 0),
        ("", false, "", "", 0),
        ("Output:\nnot a header", false, "Output:\nnot a header", "", 0),
    ];
    for (text, is_error, stdout, stderr, code) in cases {
        let output = parse(text, *is_error);
        let got = (output.stdout.as_str(), output.stderr.as_str(), output.code);
        assert_eq!(got, (*stdout, *stderr, *code), "{text}");
        assert!(!output.timed_out && !output.aborted, "{text}");
    }
}

#[test]
fn timed_out_command_is_recognised() {
    for (text, is_error, stdout) in [
        (
            "part\n\n<bash_metadata>\nbash tool terminated command after exceeding timeout 9 ms\n</bash_metadata>",
            false,
            "part",
        ),
        ("<shell_metadata>\ncommand timed out\n</shell_metadata>", false, ""),
        ("Command timed out after 2m 0s\npart", true, "Command timed out after 2m 0s\npart"),
        (
            "Exit code: 124\nWall time: 9 seconds\nOutput:\ncommand timed out after 9 milliseconds",
            false,
            "command timed out after 9 milliseconds",
        ),
        ("Wall time: 30 seconds\nProcess running with session ID 42\nOutput:\npart", false, "part"),
    ] {
        let output = parse(text, is_error);
        assert!(output.timed_out, "{text}");
        assert_eq!((output.stdout.as_str(), output.code), (stdout, 124), "{text}");
    }
    // Talking about it is not doing it.
    assert!(!parse("Command timed out is an error message", false).timed_out);
    let aborted = parse("x\n\n<metadata>\nUser aborted the command\n</metadata>", false);
    assert!(aborted.aborted && aborted.code == 1 && aborted.stdout == "x");
}

#[test]
fn json_of_too_many_values_is_plain_text() {
    let text = |values: usize| {
        let values = vec!["0"; values].join(",");
        format!(r#"{{"output":"done","exit_code":3,"more":[{values}]}}"#)
    };
    assert_eq!(parse(&text(1000), false).code, 3);
    let huge = text(1_000_000);
    let output = parse(&huge, false);
    assert_eq!((output.stdout.as_str(), output.code), (huge.as_str(), 0));
}
