//! Tools and controls of a request.

use super::*;

// === tools ===

const TOOLS: &str = r#""tools":[
    {"type":"function","name":"read","parameters":{"type":"object"}},
    {"type":"custom","name":"patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
    {"type":"custom","name":"note","format":{"type":"text"}},
    {"type":"namespace","name":"a","description":"All about a.","tools":[{"type":"function","name":"read"}]},
    {"type":"namespace","name":"a_","tools":[{"type":"function","name":"read"},{"type":"custom","name":"patch"}]},
    {"type":"function","name":"read","description":"A second one."},
    {"type":"image_generation"},{"type":"tool_search","execution":"server"},{"type":"mcp","server_label":"x","tools":{"odd":1}},{"type":"mcp"},{"type":"hologram"}
]"#;

#[test]
fn every_tool_gets_a_unique_name() {
    let request = ok(&with(TOOLS));
    let names: Vec<&str> = request.turn.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", "patch", "note", "a__read", "a__read_2", "a__patch"]);
    assert_eq!(
        request.turn.sampling.params.ignored,
        ["tools.image_generation", "tools.tool_search", "tools.mcp", "tools.type"]
    );
    let patch = &request.turn.tools[1];
    insta::assert_snapshot!(patch.description, @r"
    Edits.

    The tool takes raw text. Give all of it in `input`, as it is: no JSON inside, no code fence around it. The text must match this lark grammar:
    start: x
    ");
    let schema: serde_json::Value =
        serde_json::from_str(patch.schema.as_ref().unwrap().get()).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["input"]));
    assert_eq!(request.turn.tools[3].description, "All about a.");
    assert_eq!(request.turn.sampling.params.native, ["tools"]);
}

#[test]
fn responses_tool_count_is_limited() {
    let tools = |count: usize| {
        let tool = |n| format!(r#"{{"type":"function","name":"t{n}"}}"#);
        let list: Vec<String> = (0..count).map(tool).collect();
        with(&format!(r#""tools":[{}]"#, list.join(",")))
    };
    assert_eq!(turn(&tools(1024)).tools.len(), 1024);
    let error = decode(tools(1025).as_bytes()).err().map(|error| (error.code, error.param));
    assert_eq!(error, Some((InvalidValue, Some("tools".into()))));
}

#[test]
fn tool_choice_uses_the_clients_tool_names() {
    let choice = |choice: &str| turn(&with(&format!(r#"{TOOLS},"tool_choice":{choice}"#)));
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    assert_eq!(choice(r#""auto""#).tool_choice, ToolChoice::Auto);
    assert_eq!(choice(r#""none""#).tool_choice, ToolChoice::None);
    assert_eq!(choice(r#""required""#).tool_choice, ToolChoice::Required);
    assert_eq!(choice(r#"{"type":"function","name":"read"}"#).tool_choice, named("read"));
    assert_eq!(choice(r#"{"type":"custom","name":"note"}"#).tool_choice, named("note"));
    assert_eq!(
        choice(r#"{"type":"function","name":"read","namespace":"a_"}"#).tool_choice,
        named("a__read_2")
    );
    let some = choice(
        r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"patch"},
            {"type":"mcp","server_label":"x"}]}"#,
    );
    assert_eq!(some.tool_choice, ToolChoice::Required);
    assert_eq!(some.tools.len(), 1);
    assert_eq!(some.sampling.params.native, ["tools", "tool_choice"]);
}

// === controls ===

#[test]
fn controls_are_decoded_and_listed() {
    let request = turn(&with(
        r#""instructions":[{"role":"developer","content":"one"},{"role":"system","content":"two"}],
           "max_output_tokens":100,"temperature":0.2,"top_p":1,"parallel_tool_calls":false,
           "reasoning":{"effort":"HIGH","summary":"detailed"},"text":{"verbosity":"low","format":
           {"type":"json_schema","name":"answer","strict":true,"schema":{"type":"object"}}},
           "truncation":"auto","service_tier":"priority","include":["file_search_call.results"],
           "user":"ann","safety_identifier":"x","max_tool_calls":3,"top_logprobs":0,
           "prompt_cache_key":"k","client_metadata":{"a":1},"stream_options":{"x":1},"novelty":[]"#,
    ));
    assert_eq!(request.system, ["one", "two"]);
    let sampling = request.sampling;
    assert_eq!((sampling.effort, sampling.max_tokens), (Some(Effort::High), Some(100)));
    let AnswerFormat::Schema(schema) = sampling.format else { panic!("{:?}", sampling.format) };
    assert_eq!((schema.name.as_str(), schema.text.as_str()), ("answer", r#"{"type":"object"}"#));
    assert_eq!(sampling.params.native, ["reasoning.effort", "parallel_tool_calls"]);
    assert_eq!(sampling.params.emulated, ["max_output_tokens", "text.format"]);
    assert_eq!(
        sampling.params.ignored,
        [
            "temperature",
            "text.verbosity",
            "truncation",
            "service_tier",
            "include",
            "user",
            "safety_identifier",
            "max_tool_calls"
        ]
    );
    assert!(!request.parallel_tool_calls);
    let plain = turn(&with(r#""text":{"format":{"type":"json_object"}},"temperature":1.0"#));
    assert_eq!(plain.sampling.format, AnswerFormat::Json);
    assert_eq!(plain.sampling.params.ignored, Vec::<&str>::new());
}

/// They are likely mistakes that would otherwise go unnoticed.
#[test]
fn names_of_the_sibling_apis_are_listed() {
    let names = [
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "reasoning_effort",
        "response_format",
        "stop",
        "stop_sequences",
        "system",
    ];
    let set = |value: &str| names.map(|name| format!(r#""{name}":{value}"#)).join(",");
    assert_eq!(turn(&with(&set("[{}]"))).sampling.params.ignored, names);
    assert!(turn(&with(&set("null"))).sampling.params.ignored.is_empty());
}

#[test]
fn session_marker_is_removed() {
    let request = turn(&with(r#""instructions":"Be kind.\nSession: session-1\n""#));
    assert_eq!(request.hints.session.as_deref(), Some("session-1"));
    assert_eq!(request.system, ["Be kind.\n"]);
}

#[test]
fn warm_up_does_not_require_input() {
    let request = ok(r#"{"model":"auto","input":[],"generate":false,"background":true}"#);
    assert!(!request.generate && request.background);
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(data in prop::collection::vec(any::<u8>(), 0..200)) {
        super::super::fuzz(&data);
    }

    #[test]
    fn any_json_in_any_field_is_a_request_or_an_error(
        field in prop::sample::select(vec!["input", "tools", "tool_choice", "text", "reasoning",
            "instructions", "include", "metadata", "previous_response_id", "conversation"]),
        value in prop::sample::select(vec!["null", "7", "\"\"", "[]", "{}", "[null]", "[[]]",
            "[{}]", "[\"a\"]", "{\"type\":7}", "[{\"type\":[]}]", "{\"format\":[]}",
            "[{\"type\":\"message\",\"role\":{}}]", "[{\"type\":\"namespace\",\"tools\":7}]",
            "[{\"type\":\"additional_tools\",\"tools\":[7]}]"]),
    ) {
        let body = format!(r#"{{"model":"auto","{field}":{value}}}"#);
        if let Err(error) = decode(body.as_bytes()) {
            prop_assert_ne!(error.code, ErrorCode::Internal);
        }
    }
}

#[test]
fn freeform_tool_is_echoed_with_its_format() {
    let request = |tool: &str| format!(r#"{{"model":"m","input":"hi","tools":[{tool}]}}"#);
    for (tool, format) in [
        (r#"{"type":"custom","name":"shell"}"#, r#""format":{"type":"text"}"#),
        (
            r#"{"type":"custom","name":"p","format":{"type":"grammar","syntax":"regex","definition":"a+"}}"#,
            r#""format":{"type":"grammar","syntax":"regex","definition":"a+"}"#,
        ),
    ] {
        let request = decode(request(tool).as_bytes()).unwrap();
        assert!(request.echo.members.contains(format), "{}", request.echo.members);
    }
}
