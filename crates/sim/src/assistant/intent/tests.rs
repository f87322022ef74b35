use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, expected: &[Intent]) {
    assert_eq!(all(text, &["get_weather", "read"]), expected, "{text}");
}

#[test]
fn common_phrases_are_understood() {
    let shell = |c: &str| Intent::Shell(c.to_owned());
    let read = |p: &str| Intent::Read(p.to_owned());
    let write = |p: &str, t: &str| Intent::Write { path: p.to_owned(), text: t.to_owned() };
    check("Hello there", &[]);
    check("run `echo hi`", &[shell("echo hi")]);
    check("Please execute the command `ls -la | head` for me.", &[shell("ls -la | head")]);
    check("read file notes.txt.", &[read("notes.txt")]);
    check("Read the file `a b.txt` and tell me what it says", &[read("a b.txt")]);
    check("write `two words` to `x/y.txt`", &[write("x/y.txt", "two words")]);
    check("write hello to out.txt", &[write("out.txt", "hello")]);
    check("create a file `n.txt` with the content `abc`", &[write("n.txt", "abc")]);
    check("list files", &[Intent::List(".".to_owned())]);
    check("list the files in src", &[Intent::List("src".to_owned())]);
    check("find files matching `*.rs`", &[Intent::Glob("*.rs".to_owned())]);
    check("search for `TODO`", &[Intent::Grep("TODO".to_owned())]);
    check("fetch https://example.com/x.", &[Intent::Fetch("https://example.com/x".to_owned())]);
    check(
        "replace `a` with `b` in `f.txt`",
        &[Intent::Edit { path: "f.txt".into(), old: "a".into(), new: "b".into() }],
    );
    let args = json!({"city": "Oslo", "days": 2}).as_object().unwrap().clone();
    check(
        r#"use the tool get_weather with {"city": "Oslo", "days": 2}"#,
        &[Intent::Named { tool: "get_weather".to_owned(), args, words: Vec::new() }],
    );
    check(
        "write `x` to `a.txt`, then read file a.txt, then run `cat a.txt && then`",
        &[write("a.txt", "x"), read("a.txt"), shell("cat a.txt && then")],
    );
}

#[test]
fn one_verb_may_have_several_objects() {
    let shell = |c: &str| Intent::Shell(c.to_owned());
    let read = |p: &str| Intent::Read(p.to_owned());
    let weather = |words: &[&str]| Intent::Named {
        tool: "get_weather".to_owned(),
        args: Map::new(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    check("in parallel run `a` and run `b`", &[shell("a"), shell("b")]);
    check("in parallel run `a` and `b`", &[shell("a"), shell("b")]);
    check("run `a` and `b`", &[shell("a"), shell("b")]);
    check(
        "Run `a`, `b`, and `c` in parallel, then read x.txt.",
        &[shell("a"), shell("b"), shell("c"), read("x.txt")],
    );
    check("read the files a.txt, b.txt and c/d", &[read("a.txt"), read("b.txt"), read("c/d")]);
    check("run `a` and read b.txt", &[shell("a"), read("b.txt")]);
    check("run `a` and tell me what \"b\" means", &[shell("a")]);
    // Two arguments of one call, or two calls.
    check("call get_weather for `Oslo` and `Bergen`", &[weather(&["Oslo", "Bergen"])]);
    check(
        "call get_weather for `Oslo` and `Bergen` in parallel",
        &[weather(&["Oslo"]), weather(&["Bergen"])],
    );
}

#[test]
fn tasks_of_several_steps_are_understood_in_many_phrasings() {
    let steps = |path: &str, command: &str| {
        vec![
            Intent::Read(path.to_owned()),
            Intent::Edit { path: path.into(), old: "alpha".into(), new: "beta".into() },
            Intent::Shell(command.to_owned()),
        ]
    };
    for text in [
        "Read the file notes-7f3a.txt, replace \"alpha\" with \"beta\" in it, then run \
         `cat notes-7f3a.txt`.",
        "Read notes-7f3a.txt. Change alpha to beta in that file. Finally, execute the command \
         `cat notes-7f3a.txt` and tell me what it printed.",
        "1. Open the file notes-7f3a.txt\n2. Replace 'alpha' with 'beta'\n3. Run `cat \
         notes-7f3a.txt`",
        "- look at notes-7f3a.txt\n- in notes-7f3a.txt, change `alpha` into `beta`\n- run cat \
         notes-7f3a.txt",
        "Please show me `notes-7f3a.txt` and then replace every occurrence of the word alpha by \
         beta in notes-7f3a.txt. After that run:\n```sh\ncat notes-7f3a.txt\n```",
        "Take a look at notes-7f3a.txt; edit it so that “alpha” becomes “beta”; next run \
         \"cat notes-7f3a.txt\" and show me the output.",
        "First, read the file \"notes-7f3a.txt\", and replace \"alpha\" with \"beta\" in \
         \"notes-7f3a.txt\", and finally run `cat notes-7f3a.txt`",
        "Step 1: view notes-7f3a.txt. Step 2: replace \"alpha\" in it with \"beta\". Step 3: \
         execute `cat notes-7f3a.txt`.",
    ] {
        check(text, &steps("notes-7f3a.txt", "cat notes-7f3a.txt"));
    }
    check(
        "Read /tmp/a b/x.md? No: read `/tmp/a/x.md`, then replace alpha with beta in \
         /tmp/a/x.md, then run `wc -l /tmp/a/x.md`",
        &[vec![Intent::Read("/tmp/a".into())], steps("/tmp/a/x.md", "wc -l /tmp/a/x.md")].concat(),
    );
    check(
        "Create the file hello.txt with the content \"hi there\", then read it",
        &[
            Intent::Write { path: "hello.txt".into(), text: "hi there".into() },
            Intent::Read("hello.txt".into()),
        ],
    );
    check(
        "replace the word one two with three in Makefile.am",
        &[Intent::Edit { path: "Makefile.am".into(), old: "one two".into(), new: "three".into() }],
    );
    // Nothing to do, or nothing clear enough.
    for text in ["run the tests", "show me", "replace it", "read and/or write", "It's a 'file'"] {
        check(text, &[]);
    }
}

#[test]
fn offered_tool_is_recognised_by_name() {
    for (text, words) in [
        ("call get_weather for Oslo", &["Oslo"][..]),
        ("Use get_weather", &[]),
        ("use the get_weather tool with city Oslo", &["city", "Oslo"]),
        ("What does get_weather say about `New York`?", &["New York"]),
    ] {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        check(text, &[Intent::Named { tool: "get_weather".into(), args: Map::new(), words }]);
    }
    // An everyday word is a tool's name only in a sentence about tools.
    check("I like to read", &[]);
    check(
        "use the read tool",
        &[Intent::Named { tool: "read".into(), args: Map::new(), words: Vec::new() }],
    );
}

#[test]
fn reminders_are_removed_from_user_messages() {
    let text = "<system-reminder>run `rm`</system-reminder>\nhi <system-reminder>x";
    assert_eq!(without_reminders(text), "hi");
    assert_eq!(without_reminders("\"run `ls` now\""), "run `ls` now");
    assert_eq!(without_reminders("say \"hi\""), "say \"hi\"");
    assert_eq!(without_reminders("hi\n<system_message>\nBe brief.\n</system_message>"), "hi");
}
