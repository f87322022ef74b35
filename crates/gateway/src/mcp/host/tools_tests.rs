use bytes::Bytes;
use serde_json::value::RawValue;

use super::*;

fn tool(schema: Option<&str>) -> Tool {
    Tool {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        schema: schema.map(|text| RawValue::from_string(text.to_owned()).unwrap()),
    }
}

fn listed(schema: Option<&str>) -> Value {
    serde_json::to_value(offered(&tool(schema))).unwrap()
}

#[test]
fn a_tool_is_listed_as_it_was_written() {
    let written = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
        "$defs":{"place":{"type":"string"}},"properties":{"at":{"$ref":"#/$defs/place"}},
        "required":["at"],"additionalProperties":false}"##;
    let expected: Value = serde_json::from_str(written).unwrap();
    let listed = listed(Some(written));
    assert_eq!(listed, json!({ "name": "look", "description": "Looks.", "inputSchema": expected }));
}

#[test]
fn a_tool_without_a_schema_takes_an_empty_object() {
    assert_eq!(listed(None)["inputSchema"], json!({ "type": "object" }));
    // Nor is there a description, if the client gave none.
    let bare = Tool { description: String::new(), ..tool(None) };
    assert_eq!(
        serde_json::to_value(offered(&bare)).unwrap(),
        json!({ "name": "look", "inputSchema": { "type": "object" } })
    );
}

/// One such schema would make clients refuse all tools.
#[test]
fn what_mcp_does_not_allow_is_said_in_another_way() {
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
        assert_eq!(listed(Some(written))["inputSchema"], expected, "{written}");
    }
}

#[test]
fn results_have_texts_images_and_their_mark() {
    let data = Bytes::from_static(&[1, 2, 255]);
    let image = Image { source: ImageSource::Inline { mime: "image/png".to_owned(), data } };
    let content = vec![ToolContent::Text("two".to_owned()), ToolContent::Image(image)];
    for is_error in [false, true] {
        let told = result(HostedResult { id: 1, content: content.clone(), is_error });
        let told = serde_json::to_value(told).unwrap();
        assert_eq!(told["isError"], json!(is_error));
        assert_eq!(
            told["content"],
            json!([
                { "type": "text", "text": "two" },
                { "type": "image", "data": "AQL/", "mimeType": "image/png" },
            ])
        );
    }
}
