use bytes::Bytes;
use proptest::prelude::*;

use super::decode;
use crate::{
    error::ErrorCode::{InvalidJson, InvalidValue, MissingMessages, UnsupportedParameter},
    model::{
        AnswerFormat, Effort, Image, ImageSource, Item, ParamHandling, Part, Schema, ToolChoice,
    },
    wire::chat::testing::{messages, ok, refused, with},
};

#[test]
fn full_conversation_is_decoded() {
    let request = ok(r#"{
        "model": "claude-sonnet-4.5:high",
        "stream": true,
        "stream_options": {"include_usage": true, "new_option": 1},
        "some_field_of_tomorrow": {"a": [1, 2]},
        "reasoning_effort": "high",
        "parallel_tool_calls": false,
        "tool_choice": {"type": "function", "function": {"name": "bash"}},
        "tools": [
            {"type": "function", "function": {"name": "bash", "description": "Runs it",
                "strict": false, "parameters": {"type": "object",  "properties": {}}}},
            {"type": "function", "function": {"name": "now"}},
            {"type": "web_search"}
        ],
        "messages": [
            {"role": "system", "content": "one"},
            {"role": "developer", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
            {"role": "system", "content": ""},
            {"role": "user", "name": "Ann", "content": [
                {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw==", "detail": "high"}}
            ]},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}},
                {"id": "call_2", "function": {"name": "now", "arguments": {"zone": "utc"}}},
                {"id": "call_3", "index": 2, "function": {"name": "now", "arguments": null}}
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"},
                {"type": "image_url", "image_url": "data:image/jpg;base64,/9j/"}]},
            {"role": "tool", "tool_call_id": "call_3", "content": null},
            {"role": "assistant", "content": "", "reasoning": "hm again", "refusal": null},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            {"role": "system", "content": "late"},
            {"role": "user", "content": "and now?"}
        ]
    }"#);
    insta::assert_debug_snapshot!(request);
}

#[test]
fn json_error_has_its_position() {
    let message = refused("{\"model\": \"auto\",\n \"messages\": [}", InvalidJson, None);
    assert!(message.ends_with("at line 2 column 15"), "{message}");
    refused("", InvalidJson, None);
    refused(" \n", InvalidJson, None);
    refused("{\"model\":\"auto\"", InvalidJson, None);
    refused("[]", InvalidJson, None);
    refused("\"text\"", InvalidJson, None);
    refused("null", InvalidJson, None);
    refused("{} {}", InvalidJson, None);
    assert_eq!(decode(b"{\"model\":\"\xff\"}").unwrap_err().code, InvalidJson);
}

/// Also in parts that are not read: in unknown fields, and in schemas, which are kept as they are.
#[test]
fn duplicate_fields_and_deep_nesting_are_refused() {
    refused(&with(r#""model":"b""#), InvalidJson, Some("model"));
    refused(&with(r#""x":{"y":[{"z":1,"z":1}]}"#), InvalidJson, Some("x.y[0].z"));
    let tool =
        r#""tools":[{"type":"function","function":{"name":"f","parameters":{"a":1,"a":2}}}]"#;
    refused(&with(tool), InvalidJson, Some("tools[0].function.parameters.a"));
    let error = decode(with(&format!("\"x\":{}", "[".repeat(100_000))).as_bytes()).unwrap_err();
    assert_eq!(error.code, InvalidJson);
    assert!(error.message.starts_with("the request body cannot be used: `x[0][0]"), "{error}");
    assert!(error.message.ends_with("nests deeper than 120 levels"), "{error}");
}

#[test]
fn model_and_messages_are_required() {
    refused("{}", InvalidValue, Some("model"));
    refused(r#"{"model":" ","messages":[]}"#, InvalidValue, Some("model"));
    refused(r#"{"model":null,"messages":[]}"#, InvalidValue, Some("model"));
    refused(r#"{"model":7}"#, InvalidValue, Some("model"));
    refused(r#"{"model":"auto"}"#, MissingMessages, Some("messages"));
    refused(r#"{"model":"auto","messages":null}"#, MissingMessages, Some("messages"));
    refused(r#"{"model":"auto","messages":[]}"#, MissingMessages, Some("messages"));
    refused(r#"{"model":"auto","messages":"hi"}"#, InvalidValue, Some("messages"));
}

#[test]
fn wrong_types_name_the_field() {
    for (list, param) in [
        (r#"7"#, "messages[0]"),
        (r#"["user","hi"]"#, "messages[0]"),
        (r#"{"role":5,"content":"hi"}"#, "messages[0].role"),
        (r#"{"role":"user","content":5}"#, "messages[0].content"),
        (r#"{"role":"user","content":{"a":1}}"#, "messages[0].content"),
        (r#"{"role":"user","content":["hi"]}"#, "messages[0].content[0]"),
        (r#"{"role":"user","content":[{"type":"text","text":1}]}"#, "messages[0].content[0].text"),
        (
            r#"{"role":"user","content":"a"},{"role":"user","content":[{"type":"image_url","image_url":{"url":1}}]}"#,
            "messages[1].content[0].image_url.url",
        ),
        (r#"{"role":"assistant","tool_calls":{}}"#, "messages[0].tool_calls"),
        (r#"{"role":"assistant","tool_calls":[{"id":1}]}"#, "messages[0].tool_calls[0].id"),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":{}}}]}"#,
            "messages[0].tool_calls[0].function.name",
        ),
    ] {
        refused(&messages(list), InvalidValue, Some(param));
    }
    for (extra, param) in [
        (r#""stream":"yes""#, "stream"),
        (r#""stream_options":true"#, "stream_options"),
        (r#""stream_options":{"include_usage":1}"#, "stream_options.include_usage"),
        (r#""temperature":"hot""#, "temperature"),
        (r#""max_tokens":"many""#, "max_tokens"),
        (r#""stop":5"#, "stop"),
        (r#""stop":["a",5]"#, "stop[1]"),
        (r#""tools":{}"#, "tools"),
        (r#""tools":["bash"]"#, "tools[0]"),
        (r#""tools":[{"type":"function"}]"#, "tools[0].function"),
        (r#""tools":[{"type":"function","function":{}}]"#, "tools[0].function.name"),
        (r#""tools":[{"type":"function","function":{"name":1}}]"#, "tools[0].function.name"),
        (
            r#""tools":[{"type":"function","function":{"name":"a","parameters":"x"}}]"#,
            "tools[0].function.parameters",
        ),
        (r#""tool_choice":5"#, "tool_choice"),
        (r#""tool_choice":"maybe""#, "tool_choice"),
        (r#""tool_choice":"required""#, "tool_choice"),
        (
            r#""tool_choice":{"type":"function","function":{"name":"a"}}"#,
            "tool_choice.function.name",
        ),
        (r#""tool_choice":{"type":"function"}"#, "tool_choice.function.name"),
        (r#""reasoning_effort":"huge""#, "reasoning_effort"),
        (r#""reasoning_effort":3"#, "reasoning_effort"),
        (r#""n":0"#, "n"),
    ] {
        refused(&with(extra), InvalidValue, Some(param));
    }
}

#[test]
fn long_values_are_not_repeated_in_full() {
    let body = with(&format!("\"stream\":\"{}\"", "x".repeat(100_000)));
    let message = refused(&body, InvalidValue, Some("stream"));
    assert!(message.len() < 400, "{message}");
    let whole = format!("\"{}\"", "x".repeat(100_000));
    let message = refused(&whole, InvalidJson, None);
    assert!(message.len() < 400, "{message}");
    assert!(message.ends_with(" at line 1 column 100002"), "{message}");
}

#[test]
fn errors_name_the_field_instead_of_the_position() {
    let body = messages(r#"{"role":"tool","tool_call_id":"c","content":5}"#);
    let message = refused(&body, InvalidValue, Some("messages[0].content"));
    let want = "`messages[0].content` has the wrong type: invalid type: integer `5`, expected a \
                string or an array";
    assert_eq!(message, want);
}

#[test]
fn each_role_requires_its_fields() {
    let unknown = refused(
        &messages(r#"{"role":"robot","content":"x"}"#),
        InvalidValue,
        Some("messages[0].role"),
    );
    assert!(unknown.contains("`robot`"));
    refused(&messages(r#"{"content":"x"}"#), InvalidValue, Some("messages[0].role"));
    refused(
        &messages(r#"{"role":"function","name":"a","content":"x"}"#),
        UnsupportedParameter,
        Some("messages[0].role"),
    );
    refused(&messages(r#"{"role":"user"}"#), InvalidValue, Some("messages[0].content"));
    refused(
        &messages(r#"{"role":"tool","content":"x"}"#),
        InvalidValue,
        Some("messages[0].tool_call_id"),
    );
    refused(
        &messages(r#"{"role":"assistant","function_call":{"name":"a"}}"#),
        UnsupportedParameter,
        Some("messages[0].function_call"),
    );
    refused(
        &messages(r#"{"role":"assistant","tool_calls":[{"function":{"name":"a"}}]}"#),
        InvalidValue,
        Some("messages[0].tool_calls[0].id"),
    );
    refused(
        &messages(r#"{"role":"assistant","tool_calls":[{"id":"1","type":"web_search"}]}"#),
        UnsupportedParameter,
        Some("messages[0].tool_calls[0].type"),
    );
    ok(&messages(r#"{"role":"user","content":"x"},{"role":"assistant"}"#));
}

#[test]
fn images_are_read_from_data_urls() {
    let image = |url: &str| {
        messages(&format!(
            r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}"#
        ))
    };
    let param = Some("messages[0].content[0].image_url.url");
    let web = refused(&image("https://example.com/a.png"), InvalidValue, param);
    assert!(web.contains("does not fetch URLs"), "{web}");
    for url in [
        "",
        "file:///etc/passwd",
        "data:image/png;base64",
        "data:image/png,abc",
        "data:image/png;base64,",
        "data:image/png;base64,***",
        "data:image/svg+xml;base64,AAAA",
        "data:text/html;base64,AAAA",
    ] {
        refused(&image(url), InvalidValue, param);
    }
    for url in [
        "data:image/png;base64,iVBORw==",
        "DATA:image/PNG;charset=utf-8;base64,iVBORw",
        "data:image/png;base64,iVB\\nORw==",
    ] {
        let request = ok(&image(url));
        let expect = Image {
            source: ImageSource::Inline {
                mime: "image/png".to_owned(),
                data: Bytes::from_static(b"\x89PNG"),
            },
        };
        let crate::model::Item::Message(message) = &request.items[0] else { panic!() };
        assert_eq!(message.parts, [crate::model::Part::Image(expect)]);
    }
    for role in ["system", "assistant"] {
        let body = messages(&format!(
            r#"{{"role":"{role}","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,iVBORw=="}}}}]}}"#
        ));
        refused(&body, InvalidValue, Some("messages[0].content[0]"));
    }
}

#[test]
fn other_media_types_are_refused() {
    for kind in ["input_audio", "audio", "video_url"] {
        let body = messages(&format!(r#"{{"role":"user","content":[{{"type":"{kind}"}}]}}"#));
        refused(&body, UnsupportedParameter, Some("messages[0].content[0].type"));
    }
    let body = messages(r#"{"role":"user","content":[{"type":"hologram"}]}"#);
    refused(&body, InvalidValue, Some("messages[0].content[0].type"));
}

#[test]
fn unsupported_parameters_are_refused() {
    for (extra, param) in [
        (r#""n":2"#, "n"),
        (r#""logprobs":true"#, "logprobs"),
        (r#""top_logprobs":3"#, "top_logprobs"),
        (r#""modalities":["text","audio"]"#, "modalities[1]"),
        (r#""audio":{"voice":"x"}"#, "audio"),
        (r#""functions":[{"name":"a"}]"#, "functions"),
        (r#""function_call":{"name":"a"}"#, "function_call"),
        (
            r#""tools":[{"function":{"name":"a"}}],"tool_choice":{"type":"web_search"}"#,
            "tool_choice.type",
        ),
    ] {
        refused(&with(extra), UnsupportedParameter, Some(param));
    }
    ok(&with(
        r#""n":1,"logprobs":false,"top_logprobs":0,"modalities":["text"],"audio":null,
        "functions":[],"function_call":"auto","tools":null,"tool_choice":"none""#,
    ));
}

#[test]
fn ignored_parameters_are_listed_when_set() {
    let request = ok(&with(
        r#""temperature":0,"top_p":0.9,"seed":7,"presence_penalty":0.5,"frequency_penalty":-1,
        "logit_bias":{"50256":-100},"max_tokens":100,"max_completion_tokens":200,"stop":["a","b"],
        "response_format":{"type":"json_object"},"user":"ann","store":true,"metadata":{"a":"b"},
        "service_tier":"flex","top_k":40,"verbosity":"low""#,
    ));
    assert_eq!(
        request.sampling.params.ignored,
        [
            "temperature",
            "top_p",
            "top_k",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "user",
            "store",
            "metadata",
            "service_tier",
            "verbosity",
        ]
    );
    assert_eq!(
        request.sampling.params.emulated,
        ["max_tokens", "max_completion_tokens", "stop", "response_format"]
    );
    assert_eq!(request.sampling.max_tokens, Some(100), "the smaller one");
    assert_eq!(request.sampling.stop, ["a", "b"]);
    assert_eq!(request.sampling.format, AnswerFormat::Json);
    assert_eq!(request.hints.user.as_deref(), Some("ann"));

    let request = ok(&with(
        r#""temperature":1,"top_p":1.0,"seed":null,"presence_penalty":0,"frequency_penalty":0.0,
        "logit_bias":{ },"max_tokens":null,"stop":null,"response_format":{"type":"text"},"user":"",
        "store":false,"metadata":{},"service_tier":"auto","prediction":null,"tools":[],
        "tool_choice":"auto","parallel_tool_calls":true,"reasoning_effort":null"#,
    ));
    assert_eq!(request.sampling.params, ParamHandling::default());
    assert!(!request.sampling.is_controlled());
}

#[test]
fn invalid_limits_formats_and_stop_sequences_are_refused() {
    for (extra, param) in [
        (r#""max_tokens":0"#, "max_tokens"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_tokens":1.5"#, "max_tokens"),
        (r#""max_tokens":5,"max_completion_tokens":0"#, "max_completion_tokens"),
        (r#""response_format":{"type":"json_schema"}"#, "response_format.json_schema.schema"),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"a"}}"#,
            "response_format.json_schema.schema",
        ),
    ] {
        refused(&with(extra), InvalidValue, Some(param));
    }
    let grammar = with(r#""response_format":{"type":"grammar"}"#);
    refused(&grammar, UnsupportedParameter, Some("response_format.type"));
    let sampling = ok(&with(
        r#""max_tokens":7,"stop":["","x"],"response_format":{"type":"json_schema",
        "json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}"#,
    ))
    .sampling;
    assert_eq!((sampling.max_tokens, sampling.stop), (Some(7), vec!["x".to_owned()]));
    let schema = Schema { name: "n".to_owned(), text: r#"{"type":"object"}"#.to_owned() };
    assert_eq!(sampling.format, AnswerFormat::Schema(schema));
}

#[test]
fn efforts_and_tool_choices_are_decoded() {
    for (word, effort) in [("none", Effort::None), ("XHIGH", Effort::Xhigh), ("max", Effort::Max)] {
        let request = ok(&with(&format!(r#""reasoning_effort":"{word}""#)));
        assert_eq!(request.sampling.effort, Some(effort));
    }
    let tools = r#""tools":[{"function":{"name":"a"}}]"#;
    for (choice, expect) in [
        (r#""auto""#, ToolChoice::Auto),
        (r#""none""#, ToolChoice::None),
        (r#""required""#, ToolChoice::Required),
        ("null", ToolChoice::Auto),
        (r#"{"type":"function","function":{"name":"a"}}"#, ToolChoice::Named("a".to_owned())),
    ] {
        assert_eq!(ok(&with(&format!(r#"{tools},"tool_choice":{choice}"#))).tool_choice, expect);
    }
}

#[test]
fn known_parameters_without_effect_are_listed() {
    let request =
        ok(&with(r#""prompt_cache_key":"k","safety_identifier":"s","function_call":"none""#));
    let listed = ["prompt_cache_key", "safety_identifier", "function_call"];
    assert_eq!(request.sampling.params.ignored, listed);
    let empty = ok(&with(r#""prompt_cache_key":"","safety_identifier":null,"function_call":null"#));
    assert!(empty.sampling.params.ignored.is_empty());
}

/// They are likely mistakes that would otherwise go unnoticed.
#[test]
fn names_of_the_sibling_apis_are_listed() {
    let names = ["input", "instructions", "max_output_tokens", "stop_sequences", "system", "text"];
    let set = |value: &str| names.map(|name| format!(r#""{name}":{value}"#)).join(",");
    assert_eq!(ok(&with(&set("[{}]"))).sampling.params.ignored, names);
    assert!(ok(&with(&set("null"))).sampling.params.ignored.is_empty());
}

#[test]
fn session_marker_names_the_session_and_is_removed() {
    let request = ok(&messages(
        r#"{"role":"system","content":"be kind"},{"role":"system","content":"Session: session-a1"},
        {"role":"user","content":"Session: session-b"}"#,
    ));
    assert_eq!(request.hints.session.as_deref(), Some("session-a1"));
    assert_eq!(request.system, ["be kind"]);
    assert_eq!(request.items.len(), 1);
    assert_eq!(ok(&with("")).hints.session, None);
}

#[test]
fn results_keep_their_texts_and_images() {
    let request = ok(&messages(
        r#"{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"see"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}},
        {"type":"text","text":"done"}]}"#,
    ));
    let Item::ToolResult(result) = &request.items[0] else { panic!() };
    let data = Bytes::from_static(b"\x89PNG");
    let source = ImageSource::Inline { mime: "image/png".to_owned(), data };
    assert_eq!(
        result.content,
        [
            Part::Text("see".to_owned()),
            Part::Image(Image { source }),
            Part::Text("done".to_owned()),
        ]
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&body);
    }

    #[test]
    fn damaged_requests_do_not_panic(at in 0_usize..400, byte in any::<u8>()) {
        let mut body = messages(
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"1","content":"x"}"#,
        )
        .into_bytes();
        let at = at % body.len();
        body[at] = byte;
        let _ = decode(&body);
    }
}

#[test]
fn tool_count_is_limited() {
    let body = |count: usize| {
        let tool = r#"{"type":"function","function":{"name":"t"}}"#;
        let tools = vec![tool; count].join(",");
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tools":[{tools}]}}"#)
    };
    assert!(decode(body(1024).as_bytes()).is_ok());
    let error = decode(body(1025).as_bytes()).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("tools"));
}
