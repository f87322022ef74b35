use crate::{
    error::ErrorCode::InvalidValue,
    model::ToolChoice,
    wire::messages::testing::{ok, refused, said, with},
};

#[test]
fn tool_choices_are_decoded() {
    let tools = r#""tools":[{"name":"a"},{"name":"b"}]"#;
    for (choice, expect, parallel) in [
        (r#"{"type":"auto"}"#, ToolChoice::Auto, true),
        (r#"{"type":"auto","disable_parallel_tool_use":true}"#, ToolChoice::Auto, false),
        (r#"{"type":"any","disable_parallel_tool_use":false}"#, ToolChoice::Required, true),
        (r#"{"type":"tool","name":"b"}"#, ToolChoice::Named("b".to_owned()), true),
        (r#"{"type":"none"}"#, ToolChoice::None, true),
        ("null", ToolChoice::Auto, true),
    ] {
        let request = ok(&with(&format!(r#"{tools},"tool_choice":{choice}"#)));
        assert_eq!((request.tool_choice, request.parallel_tool_calls), (expect, parallel));
    }
    let request = ok(&with(&format!(r#"{tools},"tool_choice":{{"type":"any"}}"#)));
    assert_eq!(request.sampling.params.native, ["tools", "tool_choice"]);
}

#[test]
fn anthropics_client_tools_get_their_schemas() {
    for (kind, command) in [
        ("bash_20250124", "restart"),
        ("bash_20241022", "restart"),
        ("text_editor_20250728", "insert_text"),
        ("text_editor_20250124", "undo_edit"),
        ("memory_20250818", "rename"),
    ] {
        let request = ok(&with(&format!(r#""tools":[{{"type":"{kind}","name":"t"}}]"#)));
        let tool = &request.tools[0];
        assert_eq!(tool.name, "t");
        assert!(!tool.description.is_empty());
        let schema = tool.schema.as_ref().unwrap().get();
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        assert_eq!(schema["type"], "object");
        assert!(schema.to_string().contains(command), "{kind}: {schema}");
        assert!(request.sampling.params.ignored.is_empty());
    }
}

/// Tools that come in the middle: by name they are offered already, by definition they are
/// added, and the newest of a name counts.
#[test]
fn tools_can_be_added_and_removed_mid_conversation() {
    let change = |blocks: &str| {
        format!(
            r#"{{"model":"sonnet","max_tokens":10,"tools":[{{"name":"a"}},{{"name":"b"}}],"messages":[
            {{"role":"user","content":"hi"}},{{"role":"system","content":[{blocks}],"output_config":{{"effort":"low"}}}}]}}"#
        )
    };
    let request = ok(&change(
        r#"{"type":"tool_addition","tool":{"type":"tool_reference","name":"a"}},
        {"type":"tool_removal","tool":{"type":"tool_reference","name":"b"}},
        {"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"c","input_schema":{"type":"object"}}}},
        {"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"a","description":"new"}}}"#,
    ));
    let tools: Vec<_> =
        request.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
    assert_eq!(tools, [("b", ""), ("c", ""), ("a", "new")]);
    assert_eq!(request.sampling.params.ignored, ["messages.output_config", "tool_removal"]);
    assert_eq!(said(&request), ["hi"]);
    let unnamed =
        change(r#"{"type":"tool_addition","tool":{"type":"tool_definition","definition":{}}}"#);
    let param = Some("messages[1].content[0].tool.definition.name");
    refused(&unnamed, InvalidValue, param);
    let server = r#"{"type":"tool_addition","tool":{"definition":{"type":"web_search_20260318","name":"w"}}}"#;
    let request = ok(&change(server));
    assert_eq!(request.tools.len(), 2);
    assert_eq!(request.sampling.params.ignored, ["messages.output_config", "tools.web_search"]);
}

/// As in Responses: clients offer them by habit.
#[test]
fn server_tools_are_left_out_and_listed() {
    let request = ok(&with(
        r#""tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8},{"name":"a"},
        {"type":"web_fetch_20250910","name":"web_fetch"},{"type":"web_search_20260318","name":"w"},
        {"type":"code_execution_20250825","name":"code_execution"}]"#,
    ));
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    let params = &request.sampling.params;
    assert_eq!(params.ignored, ["tools.web_search", "tools.web_fetch", "tools.code_execution"]);
    assert_eq!(params.native, ["tools"]);
}

#[test]
fn tool_choice_of_a_dropped_server_tool_is_dropped() {
    let search = r#"{"type":"web_search_20250305","name":"web_search"}"#;
    for (tools, choice) in [
        (search.to_owned(), r#"{"type":"any"}"#),
        (search.to_owned(), r#"{"type":"tool","name":"web_search"}"#),
        (format!(r#"{{"name":"a"}},{search}"#), r#"{"type":"tool","name":"web_search"}"#),
    ] {
        let request = ok(&with(&format!(r#""tools":[{tools}],"tool_choice":{choice}"#)));
        assert_eq!(request.tool_choice, ToolChoice::Auto, "{tools}");
        assert_eq!(request.sampling.params.ignored, ["tools.web_search", "tool_choice"]);
        assert!(!request.sampling.params.native.contains(&"tool_choice"), "{tools}");
    }
    // A tool of the client that has the same name can be called.
    let same = format!(r#""tools":[{search},{{"name":"web_search"}}]"#);
    let named =
        ok(&with(&format!(r#"{same},"tool_choice":{{"type":"tool","name":"web_search"}}"#)));
    assert_eq!(named.tool_choice, ToolChoice::Named("web_search".to_owned()));
}
