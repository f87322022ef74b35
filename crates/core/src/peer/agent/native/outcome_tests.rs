use super::*;

fn result(text: &str, is_error: bool) -> ToolResult {
    ToolResult { call_id: String::new(), content: vec![Part::Text(text.to_owned())], is_error }
}

#[test]
fn refusals_are_recognised_with_and_without_a_mark() {
    for text in [
        "The user rejected permission to use this specific tool call.",
        "Error: The user rejected permission to use this specific tool call with the following \
         feedback: no",
        "The user doesn't want to proceed with this tool use. STOP what you are doing.",
        "Permission to use Bash has been denied.",
        "exec command rejected by user",
        "exec_command failed for `rm -rf /`: rejected by user",
    ] {
        for marked in [false, true] {
            assert!(refused(text, marked), "{text}");
        }
    }
    // Text that speaks of refusals is not one.
    let story = format!("# Notes\n\nThe user rejected permission.\n{}", "x".repeat(NOTICE));
    for (text, marked) in [
        ("# Notes\n\nThe user rejected permission.", false),
        (story.as_str(), true),
        ("Exit code 128\nremote: Permission to use the repository denied by user", true),
        ("remote: Permission to user/repo.git denied", true),
    ] {
        assert!(!refused(text, marked), "{text}");
    }
}

#[test]
fn short_text_that_begins_like_an_error_is_an_error() {
    for text in ["Error: nope", "ENOENT: no such file", "File not found: /w/a"] {
        assert_eq!(Outcome::of(&result(text, false), false), Outcome::Failed(text.into()));
    }
    let long = format!("Error: {}", "x".repeat(NOTICE));
    for text in ["Errors are values.", "a\nError: nope", long.as_str()] {
        assert_eq!(Outcome::of(&result(text, false), false), Outcome::Done(text.into()));
    }
    assert!(matches!(Outcome::of(&result("anything", true), false), Outcome::Failed(_)));
}

#[test]
fn substitute_command_that_prints_only_errors_has_failed() {
    for text in ["rm: cannot remove 'a': No such file or directory", "/bin/sh: 1: rg: not found"] {
        assert_eq!(Outcome::of(&result(text, false), true), Outcome::Failed(text.into()));
    }
    for text in ["", "a: b", "cat: a tale\nof two"] {
        assert_eq!(Outcome::of(&result(text, false), true), Outcome::Done(text.into()));
    }
}

#[test]
fn file_that_begins_like_an_error_is_a_file() {
    let path = "/w/src/a.txt";
    for text in [
        "Error: something\nand more of the file",
        "File not found: a play in one act.\n\nCurtain.",
        "Error: one line",
        "Permission denied\n",
        "Errors of /w/src/a.txt",
    ] {
        let done = Outcome::of_read(&result(text, false), false, path);
        assert_eq!(done, Outcome::Done(text.into()), "{text}");
    }
    for text in [
        "File not found: /w/src/a.txt",
        "File not found: /w/src/a.txt\n\nDid you mean one of these?\n/w/src/b.txt",
        "Error: ENOENT: no such file or directory, open '/home/me/w/src/a.txt'",
        "<tool_use_error>File does not exist.</tool_use_error>",
        "The read tool was called with invalid arguments: [\n{}\n]",
    ] {
        let failed = Outcome::of_read(&result(text, false), false, path);
        assert_eq!(failed, Outcome::Failed(text.into()), "{text}");
    }
    assert!(matches!(Outcome::of_read(&result("x", true), false, path), Outcome::Failed(_)));
    // The words of a command that stands in, and a file that has such words.
    let missing = "cat: /w/src/a.txt: No such file or directory";
    assert!(matches!(Outcome::of_read(&result(missing, false), true, path), Outcome::Failed(_)));
    let own = "sh: a tale: no more";
    assert_eq!(Outcome::of_read(&result(own, false), true, path), Outcome::Done(own.into()));
    let cut = "a\n\n<bash_metadata>\nbash tool truncated output as it exceeded 30000 char limit\n\
               </bash_metadata>";
    let Outcome::Done(text) = Outcome::of_read(&result(cut, false), true, path) else { panic!() };
    assert!(read_text::printed(&text, 1).truncated, "{text}");
}
