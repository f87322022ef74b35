use super::*;

fn tool(schema: Option<&str>) -> Tool {
    Tool {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        schema: schema.map(|text| RawValue::from_string(text.to_owned()).unwrap()),
    }
}

fn shown(tool: &Tool) -> Value {
    serde_json::from_str(listed(tool).unwrap().get()).unwrap()
}

fn shown_schema(schema: Option<&str>) -> Value {
    shown(&tool(schema))["inputSchema"].clone()
}

#[test]
fn tool_is_listed_with_its_original_schema() {
    let written = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
        "$defs":{"place":{"type":"string"}},"properties":{"at":{"$ref":"#/$defs/place"}},
        "required":["at"],"additionalProperties":false}"##;
    let expected: Value = serde_json::from_str(written).unwrap();
    assert_eq!(
        shown(&tool(Some(written))),
        json!({ "name": "look", "description": "Looks.", "inputSchema": expected })
    );
}

#[test]
fn a_tool_without_a_schema_takes_an_empty_object() {
    assert_eq!(shown_schema(None), json!({ "type": "object" }));
    // Nor is there a description, if the client gave none.
    let bare = Tool { description: String::new(), ..tool(None) };
    assert_eq!(shown(&bare), json!({ "name": "look", "inputSchema": { "type": "object" } }));
}

/// One such schema makes clients refuse all tools.
#[test]
fn schemas_that_mcp_forbids_are_rewritten() {
    for (written, expected) in [
        ("{}", json!({ "type": "object" })),
        ("true", json!({ "type": "object" })),
        (r#"{"type":["object","null"]}"#, json!({ "type": "object" })),
        (r#"{"type":"object","properties":null,"required":null}"#, json!({ "type": "object" })),
        (r#"{"required":["a",1]}"#, json!({ "type": "object" })),
        (
            r#"{"properties":{"a":true,"b":false,"c":{"type":"string"}},"required":["a"]}"#,
            json!({
                "type": "object",
                "properties": { "a": {}, "b": { "not": {} }, "c": { "type": "string" } },
                "required": ["a"],
            }),
        ),
    ] {
        assert_eq!(shown_schema(Some(written)), expected, "{written}");
    }
}

#[test]
fn arguments_must_be_an_object_or_absent() {
    let read = |text: &str| arguments(Some(&RawValue::from_string(text.to_owned()).unwrap()));
    assert_eq!(arguments(None).as_deref(), Some("{}"));
    assert_eq!(read(r#"{ "b": 1, "a": [2] }"#).as_deref(), Some(r#"{"a":[2],"b":1}"#));
    assert_eq!(read("[1]"), None);
    assert_eq!(read("7"), None);
}
