use super::*;
use serde_json::value::RawValue;

fn tool(name: &str, schema: Option<&str>) -> Tool {
    Tool {
        name: name.to_owned(),
        description: String::new(),
        schema: schema.map(|text| RawValue::from_string(text.to_owned()).unwrap()),
    }
}

#[test]
fn a_schema_is_a_value_and_not_a_bare_struct() {
    let hex = crate::model::ids::hex(&encode_schema(Some(r#"{"type":"object"}"#)));
    assert_eq!(hex, "2a120a100a047479706512081a066f626a656374");
}

#[test]
fn null_is_written() {
    assert_eq!(from_json(serde_json::Value::Null, 4).encode_to_vec(), [0x08, 0x00]);
}

#[test]
fn a_tool_without_a_schema_takes_an_empty_object() {
    for schema in [None, Some("true"), Some("[]")] {
        let toolbox = Toolbox::new(&[tool("now", schema)]);
        let value = Value::decode(toolbox.definitions()[0].input_schema.clone()).unwrap();
        assert_eq!(to_json(value, 9), serde_json::json!({ "type": "object", "properties": {} }));
    }
}

#[test]
fn arguments_go_both_ways() {
    let json = r#"{"deep":{"list":[1,2.5,null,true]},"path":"a b","whole":-3}"#;
    assert_eq!(arguments_json(&arguments_map(json)), json);
    assert_eq!(arguments_json(&arguments_map("not json")), "{}");
}

#[test]
fn undecodable_argument_is_kept_as_text() {
    let args = BTreeMap::from([("x".to_owned(), Bytes::from_static(b"\xffplain"))]);
    assert!(arguments_json(&args).contains("plain"));
}

#[test]
fn names_are_cleaned_kept_apart_and_found_again() {
    let toolbox = Toolbox::new(&[tool("a.b", None), tool("a b", None), tool("read", None)]);
    let wire: Vec<_> = toolbox.definitions().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(wire, ["a_b", "a_b_2", "read"]);
    let call = |name: &str, tool_name: &str| McpArgs {
        name: name.to_owned(),
        tool_name: tool_name.to_owned(),
        ..McpArgs::default()
    };
    for (name, tool_name, want) in [
        ("a_b_2", "", Some("a b")),
        ("x", "a.b", Some("a.b")),
        ("ibeam/read", "", Some("read")),
        ("mcp_ibeam_read", "", Some("read")),
        ("mcp_read", "", Some("read")),
        ("ibeam:read", "nothing", Some("read")),
        ("write", "write", None),
    ] {
        assert_eq!(toolbox.client_name(&call(name, tool_name)), want, "{name} {tool_name}");
    }
}

#[test]
fn argument_of_millions_of_values_is_not_decoded() {
    let list = |count: usize| {
        let values = vec![Value { kind: None }; count];
        let list = prost_types::ListValue { values };
        let value = Value { kind: Some(Kind::ListValue(list)) };
        let args = BTreeMap::from([("a".to_owned(), Bytes::from(value.encode_to_vec()))]);
        arguments_json(&args)
    };
    assert_eq!(list(MAX_VALUES - 1).len(), r#"{"a":[]}"#.len() + 5 * (MAX_VALUES - 1) - 1);
    assert_eq!(list(MAX_VALUES), r#"{"a":null}"#);
}

#[test]
fn endlessly_nested_arguments_are_harmless() {
    let mut bytes = Vec::new();
    for _ in 0..2_000 {
        let mut outer = Vec::new();
        prost::encoding::bytes::encode(6, &bytes, &mut outer);
        let mut list = Vec::new();
        prost::encoding::bytes::encode(1, &outer, &mut list);
        bytes = list;
    }
    let args = BTreeMap::from([("a".to_owned(), Bytes::from(bytes))]);
    assert!(arguments_json(&args).len() < 7 * TEXT_CAP);
}

#[test]
fn a_tool_with_the_name_of_a_built_in_one_is_offered_under_another_and_found_under_both() {
    let tools = [tool("read", None), tool("Web-Search", None), tool("search", None)];
    let toolbox = Toolbox::of(&tools, &tools, true);
    let offered: Vec<_> = toolbox.names().collect();
    assert_eq!(offered, ["read_tool", "Web-Search_tool", "search"]);
    for (asked, own) in [
        ("read_tool", Some("read")),
        ("ibeam-read_tool", Some("read")),
        ("read", Some("read")),
        ("search", Some("search")),
        ("Web-Search_tool", Some("Web-Search")),
        ("write", None),
    ] {
        assert_eq!(toolbox.resolve(asked), own, "{asked}");
    }
    assert_eq!(Toolbox::new(&tools).resolve("read_tool"), Some("read"));
}

#[test]
fn a_tool_that_the_request_does_not_allow_is_not_found_and_changes_no_name() {
    let all = [tool("read", None), tool("read_tool", None)];
    let toolbox = Toolbox::of(&all, &all[..1], true);
    assert_eq!(toolbox.names().collect::<Vec<_>>(), ["read_tool2"]);
    for (asked, own) in [("read_tool2", Some("read")), ("read", Some("read")), ("read_tool", None)]
    {
        assert_eq!(toolbox.resolve(asked), own, "{asked}");
    }
}

#[test]
fn a_description_says_what_the_instructions_of_the_client_call_a_tool() {
    let described = Tool { description: "Reads a file.".to_owned(), ..tool("Read", None) };
    let tools = [described, tool("shell", None), tool("search", None)];
    let text = |toolbox: &Toolbox| -> Vec<String> {
        toolbox.definitions().iter().map(|tool| tool.description.clone()).collect()
    };
    let toolbox = Toolbox::of(&tools, &tools, true);
    let want = [
        "Reads a file.\n\nInstructions call this tool `Read`.",
        "Instructions call this tool `shell`.",
        "",
    ];
    assert_eq!(text(&toolbox), want);
    let catalogue = crate::peer::agent::meta::catalogue_text(&toolbox).unwrap();
    assert!(catalogue.contains("Instructions call this tool `Read`."), "{catalogue}");
    assert_eq!(text(&Toolbox::new(&tools)), ["Reads a file.", "", ""]);
}
