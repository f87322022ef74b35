use super::*;

fn names(own: &[&str], aliased: bool) -> ToolNames {
    ToolNames::new(own.iter().copied(), aliased)
}

/// Each tool is found by everything that it is called, and nothing stands for two.
fn check(own: &[&str], aliased: bool) -> Vec<(String, String)> {
    let names = names(own, aliased);
    let mut seen = HashSet::new();
    for tool in names.iter() {
        for name in [&tool.offered, &tool.wire] {
            assert_eq!(names.resolve(name).unwrap().own, tool.own, "{own:?}: {name}");
            assert_eq!(names.resolve(&format!("ibeam-{name}")).unwrap().own, tool.own, "{name}");
        }
        assert_eq!(names.resolve(&tool.own).unwrap().own, tool.own, "{own:?}");
        assert_eq!(
            (&*names.offered(&tool.own), names.wire(&tool.own)),
            (&*tool.offered, tool.wire.clone())
        );
        let all: HashSet<&String> = [&tool.offered, &tool.wire, &tool.own].into();
        for name in all {
            assert!(seen.insert(name.clone()), "{own:?}: {name} stands for two tools");
        }
        assert_eq!(wire_name(&tool.wire), tool.wire, "it is accepted");
    }
    names.iter().map(|tool| (tool.offered.clone(), tool.wire.clone())).collect()
}

#[test]
fn names_of_two_tools_stay_apart_in_both_orders_and_with_and_without_aliases() {
    for pair in [
        ["read", "read_tool"],
        ["shell", "shell_tool"],
        ["Read", "read"],
        ["web.search", "web_search"],
        ["web search", "web_search_tool"],
        ["a.b", "a_b"],
        ["a b", "a_b"],
        ["a.b", "a b"],
        ["a.b", "a_b_2"],
        ["read", "read.tool"],
        ["é", "tool"],
    ] {
        for aliased in [true, false] {
            check(&pair, aliased);
            check(&[pair[1], pair[0]], aliased);
        }
    }
    for aliased in [true, false] {
        check(&["a.b", "a_b", "a b", "a_b_2", "a_b_3", "read", "read_tool", "read_tool2"], aliased);
    }
}

#[test]
fn an_alias_that_a_client_has_gets_a_number() {
    for own in [["read", "read_tool", "read_tool2"], ["read_tool2", "read_tool", "read"]] {
        let mut all = check(&own, true);
        all.sort();
        let want = ["read_tool", "read_tool2", "read_tool3"];
        assert_eq!(all, want.map(|name| (name.to_owned(), name.to_owned())));
        assert_eq!(names(&own, true).resolve("read_tool3").unwrap().own, "read");
    }
}

#[test]
fn names_of_a_stored_conversation_are_found_whether_there_are_aliases_now_or_not() {
    for aliased in [true, false] {
        let names = names(&["Read", "web search", "find"], aliased);
        for (asked, own) in [
            ("Read", "Read"),
            ("Read_tool", "Read"),
            ("mcp_ibeam_Read_tool", "Read"),
            ("mcp__ibeam__Read", "Read"),
            ("web_search", "web search"),
            ("web_search_tool", "web search"),
            ("find", "find"),
        ] {
            let found = names.resolve(asked).map(|tool| tool.own.as_str());
            assert_eq!(found, Some(own), "{asked}, {aliased}");
        }
        for asked in ["read_tool", "find_tool", "grep", ""] {
            assert_eq!(names.resolve(asked), None, "{asked}");
        }
        // Now that name is another tool's.
        let names = ToolNames::new(["read", "read_tool"].into_iter(), aliased);
        assert_eq!(names.resolve("read_tool").unwrap().own, "read_tool");
    }
}

#[test]
fn a_tool_that_the_client_has_no_more_gets_no_name_of_another_one() {
    let names = names(&["read_tool", "a.b", "read"], true);
    assert_eq!((&*names.offered("shell"), &*names.wire("shell")), ("shell_tool", "shell_tool"));
    assert_eq!((&*names.offered("gone"), &*names.wire("gone.now")), ("gone", "gone_now"));
    for gone in ["read_tool2", "a_b", "Read.tool"] {
        let (offered, wire) = (names.offered(gone), names.wire(gone));
        assert_eq!((names.resolve(&offered), names.resolve(&wire)), (None, None), "{gone}");
    }
}

#[test]
fn thousands_of_tools_with_one_cleaned_name_are_named_quickly() {
    let own: Vec<String> =
        (0..4_000_u32).map(|n| format!("{}", char::from_u32(0x4e00 + n).unwrap())).collect();
    let names = ToolNames::new(own.iter().map(String::as_str), true);
    let wires: HashSet<&str> = names.iter().map(|tool| tool.wire.as_str()).collect();
    assert_eq!(wires.len(), own.len());
}
