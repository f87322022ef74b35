use super::*;

fn code(id: &str) -> Option<Code> {
    judge(id).err().map(|error| error.code)
}

#[test]
fn wire_ids_are_judged_as_the_service_does() {
    for (id, expected) in [
        ("default", None),
        ("composer-2.5", None),
        ("composer-2[fast=true]", None),
        ("claude-opus-4-8-high", None),
        ("gpt-5.4", None),
        // Row 11: `auto` is only a name for people.
        ("auto", Some(Code::NotFound)),
        // Row 13: effort belongs into a parameter.
        ("gpt-5.4-high-fast", Some(Code::ResourceExhausted)),
        ("no-such-model", Some(Code::NotFound)),
    ] {
        assert_eq!(code(id), expected, "{id}");
    }
}

#[test]
fn titles_are_short() {
    assert_eq!(title_of("please fix the bug in main.rs now"), "Please fix the bug in");
    assert_eq!(title_of("  "), "New chat");
}
