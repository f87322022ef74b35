use super::*;

fn code(id: &str, variant: bool, quirks: &[Quirk]) -> Option<Code> {
    let quirks = quirks.iter().copied().collect();
    judge(id, variant, &quirks).err().map(|error| error.code)
}

#[test]
fn model_ids_are_validated_as_in_the_service() {
    for (id, expected) in [
        ("default", None),
        ("composer-2.5", None),
        // Brackets are only read when the request says so.
        ("composer-2[fast=true]", Some(Code::NotFound)),
        ("default[]", Some(Code::NotFound)),
        ("claude-opus-4-8-high", None),
        ("gpt-5.4", None),
        // Row 11: `auto` is a display name only.
        ("auto", Some(Code::NotFound)),
        // Row 13: effort belongs in a parameter.
        ("gpt-5.4-high-fast", Some(Code::ResourceExhausted)),
        ("no-such-model", Some(Code::NotFound)),
    ] {
        assert_eq!(code(id, false, &[]), expected, "{id}");
    }
    for (id, expected) in [
        ("composer-2[fast=true]", None),
        ("default[]", None),
        ("composer-2", None),
        ("composer-2[fast=true", Some(Code::NotFound)),
        ("composer-2[fast]", Some(Code::NotFound)),
        ("nope[fast=true]", Some(Code::NotFound)),
    ] {
        assert_eq!(code(id, true, &[]), expected, "{id}");
    }
}

#[test]
fn switches_make_ids_valid() {
    for (id, quirk) in [
        ("auto", Quirk::AutoIdOk),
        ("gpt-5.4-high-fast", Quirk::EffortSlugsOk),
        ("no-such-model", Quirk::UnknownModelOk),
    ] {
        assert_eq!(code(id, false, &[quirk]), None, "{id}");
    }
}

#[test]
fn model_knows_its_own_parameters() {
    let knows = |id: &str, parameter, value| family(id).unwrap().knows(parameter, value);
    assert!(knows("claude-opus-4-8", "effort", "high"));
    assert!(knows("composer-2.5", "fast", "false"));
    assert!(!knows("claude-opus-4-8", "reasoning", "high"));
    assert!(!knows("gpt-5.4", "reasoning", "enormous"));
    assert!(!knows("default", "fast", "true"));
}
