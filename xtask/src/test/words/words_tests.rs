use super::{
    PHRASES, complaints, has,
    literals::{TextLine, comments, literals},
};

fn texts(source: &str) -> Vec<(usize, String)> {
    literals(source).unwrap().into_iter().map(|text| (text.line, text.text)).collect()
}

#[test]
fn every_phrase_of_the_list_is_found() {
    for (phrase, _) in PHRASES {
        let text = TextLine { line: 7, text: format!("The client {phrase} x.") };
        let found = complaints("a.rs", &text);
        let expect = format!("a.rs:7: \"{phrase}\"");
        assert!(found.iter().any(|line| line.starts_with(&expect)), "{phrase}: {found:?}");
    }
}

#[test]
fn bad_messages_fail_and_plain_ones_pass() {
    let bad = [
        ("`{}` is no port between 0 and 65535", "is no"),
        ("Nobody is signed in", "nobody"),
        ("the conversation is told anew", "told anew"),
        ("this link is of no use any more", "of no use"),
        ("another process is behind that door.", "door"),
    ];
    for (text, phrase) in bad {
        assert!(has(text, phrase), "{text}");
    }
    let plain = [
        "this version is no longer supported",
        "it is {mend} or {told}",
        "there is no key named `a`",
        "what it is. No key is needed",
        "Door",
        "outdoor recommendations",
        "not a valid port (0-65535)",
    ];
    for text in plain {
        let text = TextLine { line: 1, text: text.to_owned() };
        assert!(complaints("a.rs", &text).is_empty(), "{text:?}");
    }
}

#[test]
fn literals_are_read_in_every_form() {
    let source = "let a = \"one\"; // \"not this\"\n/* \"nor this\" */ let b = r#\"two \"quoted\"\"#;\n\
                  let c = '\"'; let d = b\"three\"; fn e<'a>(x: &'a str) {}\nlet f = \"four \\\n   \
                  five \\\"six\\\"\"; let g = '\\''; let h = \"seven\";";
    let expect = [
        (1, "one".to_owned()),
        (2, "two \"quoted\"".to_owned()),
        (3, "three".to_owned()),
        (4, "four five  six ".to_owned()),
        (5, "seven".to_owned()),
    ];
    assert_eq!(texts(source), expect);
}

#[test]
fn tests_in_a_file_are_not_read() {
    let source =
        "const A: &str = \"a\";\n\n#[cfg(test)]\nmod tests {\n    const B: &str = \"b\";\n}\n";
    assert_eq!(texts(source), [(1, "a".to_owned())]);
    let outside = "#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod tests;\nconst A: &str = \"a\";";
    assert_eq!(texts(outside), [(2, "x_tests.rs".to_owned()), (4, "a".to_owned())]);
}

#[test]
fn help_texts_are_doc_comments() {
    let source = "//! Not this.\nstruct A {\n    /// Print JSON\n    json: bool, // nor this\n}";
    assert_eq!(comments(source), [TextLine { line: 3, text: " Print JSON".to_owned() }]);
}
