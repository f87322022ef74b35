use super::{Likeness::*, likeness};

#[test]
fn likeness_of_two_spellings() {
    for (wanted, listed, expected) in [
        ("composer-2", "composer-2", Some(Id)),
        ("composer-2", "composer-2[]", Some(Variant)),
        ("composer-2", "composer-2[fast=false]", Some(Variant)),
        ("composer-2", "composer-2[fast=true]", Some(Model)),
        ("composer-2-fast", "composer-2[fast=true]", Some(Variant)),
        ("gpt-5.4-high", "gpt-5.4[reasoning=high,fast=false]", Some(Variant)),
        ("gpt-5.4-high", "gpt-5.4[reasoning=medium]", Some(Model)),
        ("sonnet-4.5-thinking", "sonnet-4.5[thinking=true]", Some(Variant)),
        ("auto", "default[]", Some(Variant)),
        ("auto", "default", Some(Variant)),
        ("composer-2", "composer-1", None),
        ("gpt-5.4", "gpt-5.4-codex", None),
    ] {
        assert_eq!(likeness(wanted, listed), expected, "{wanted} {listed}");
    }
}
