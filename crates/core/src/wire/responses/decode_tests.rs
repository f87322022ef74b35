use proptest::prelude::*;

use super::decode;
use crate::{
    error::ErrorCode::{self, InvalidJson, InvalidValue, MissingMessages, UnsupportedParameter},
    model::{AnswerFormat, Effort, Item, Message, Part, Role, ToolChoice, TurnRequest},
    wire::responses::ResponsesRequest,
};

/// A request with a text and `extra` fields.
fn with(extra: &str) -> String {
    let comma = if extra.is_empty() { "" } else { "," };
    format!(r#"{{"model":"auto","input":"hi"{comma}{extra}}}"#)
}

fn items(list: &str) -> String {
    format!(r#"{{"model":"auto","input":[{list}]}}"#)
}

fn content(part: &str) -> String {
    items(&format!(r#"{{"role":"user","content":[{part}]}}"#))
}

fn ok(body: &str) -> ResponsesRequest {
    decode(body.as_bytes()).unwrap_or_else(|error| panic!("{error:?} for {body}"))
}

fn turn(body: &str) -> TurnRequest {
    ok(body).turn
}

#[track_caller]
fn refused(body: &str, code: ErrorCode, param: Option<&str>) -> String {
    let error = decode(body.as_bytes()).expect_err(body);
    assert_eq!((error.code, error.param.as_deref()), (code, param), "{error:?} for {body}");
    error.message.into_owned()
}

fn said(text: &str) -> Item {
    Item::Message(Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] })
}

fn called(turn: &TurnRequest) -> Vec<(&str, &str)> {
    fn call(item: &Item) -> Option<(&str, &str)> {
        match item {
            Item::ToolCall(call) => Some((&call.name, &call.arguments)),
            Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
        }
    }
    turn.items.iter().filter_map(call).collect()
}

// === real clients ===

/// Client rule 16: all of the items that Codex sends, client-made ids, namespaces.
#[test]
fn client_rule_16_request_of_codex_is_decoded() {
    let request = ok(include_str!("fixtures/codex.json"));
    assert!(request.is_whole() && !request.store && request.generate && !request.background);
    assert_eq!(request.input.len(), 17);
    insta::assert_debug_snapshot!(request.turn);
}

/// Client rule 16: newer models get their tools in an item.
#[test]
fn client_rule_16_tools_in_an_item_are_offered() {
    let request = ok(include_str!("fixtures/codex_lite.json"));
    let names: Vec<&str> = request.turn.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["exec", "wait", "collaboration__wait"]);
    assert_eq!(
        called(&request.turn),
        [("exec", r#"{"input":"text(1)"}"#), ("collaboration__wait", "{}")]
    );
    assert_eq!(request.turn.system, ["You are Codex."]);
    assert!(request.turn.sampling.params.ignored.iter().all(|name| !name.starts_with("input")));
}

#[test]
fn request_of_opencode_is_decoded() {
    insta::assert_debug_snapshot!(turn(include_str!("fixtures/opencode.json")));
}

#[test]
fn request_of_pi_is_decoded() {
    insta::assert_debug_snapshot!(turn(include_str!("fixtures/pi.json")));
}

// === input ===

#[test]
fn text_input_is_a_user_message() {
    let request = ok(r#"{"model":" auto ","input":"say \"hi\"\n"}"#);
    assert_eq!(request.turn.items, [said("say \"hi\"\n")]);
    assert_eq!(request.turn.model, "auto");
    assert!(request.store, "kept unless the client says otherwise");
    let own: serde_json::Value = serde_json::from_str(request.input[0].get()).unwrap();
    assert_eq!(own["content"][0]["text"], "say \"hi\"\n");
    assert_eq!((&own["type"], &own["role"]), (&"message".into(), &"user".into()));
}

#[test]
fn every_stored_item_has_an_id_and_a_type() {
    let list = r#"{"role":"user","content":"a"},{"role":"user","content":"a"},
        {"id":null,"type":null,"role":"assistant","content":[]},
        {"type":"function_call","call_id":"c","name":"n","arguments":"{}"},
        {"id":"mine","type":"function_call_output","call_id":"c","output":""}"#;
    let [first, again] = [ok(&items(list)), ok(&items(list))];
    let ids: Vec<(String, String)> = first
        .input
        .iter()
        .map(|raw| {
            let item: serde_json::Value = serde_json::from_str(raw.get()).unwrap();
            let text = |name: &str| item[name].as_str().expect(name).to_owned();
            (text("id"), text("type"))
        })
        .collect();
    let kinds: Vec<&str> = ids.iter().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["message", "message", "message", "function_call", "function_call_output"]);
    assert!(ids[0].0.starts_with("msg_") && ids[3].0.starts_with("fc_"), "{ids:?}");
    assert_eq!(ids[4].0, "mine");
    assert_ne!(ids[0].0, ids[1].0, "the same text twice is two items");
    let raw =
        |request: &ResponsesRequest| request.input.iter().map(|raw| raw.get().to_owned()).collect();
    let (first, again): (Vec<String>, Vec<String>) = (raw(&first), raw(&again));
    assert_eq!(first, again, "the same request is the same input");
}

#[test]
fn unknown_items_are_skipped_and_listed() {
    let request = turn(&items(
        r#"{"type":"hologram","content":7,"call_id":[]},{"type":"web_search_call","action":"x"},
           {"type":"compaction","encrypted_content":"gAAAA"},{"nothing":true},
           {"role":"user","content":"hi"}"#,
    ));
    assert_eq!(request.items, [said("hi")]);
    assert_eq!(
        request.sampling.params.ignored,
        ["input.type", "input.web_search_call", "input.compaction"]
    );
}

#[test]
fn reasoning_items_round_trip() {
    for (item, text) in [
        (r#""summary":[],"encrypted_content":"ibeam-r1.TGV0IG1lIHRoaW5r""#, Some("Let me think")),
        (r#""summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"gAAA""#, Some("a")),
        (r#""summary":[],"content":[{"type":"reasoning_text","text":"b"}]"#, Some("b")),
        (r#""summary":[],"encrypted_content":null"#, None),
        (r#""summary":[],"encrypted_content":"ibeam-r1.***""#, None),
        (r#""summary":[],"encrypted_content":"ibeam-c1.TGV0IG1lIHRoaW5r""#, None),
    ] {
        let list = format!(
            r#"{{"type":"reasoning","id":"rs","{}}},{{"role":"user","content":"hi"}}"#,
            item.trim_start_matches('"')
        );
        let found = turn(&items(&list)).items.into_iter().find_map(|item| match item {
            Item::Reasoning(reasoning) => Some(reasoning.text),
            _ => None,
        });
        assert_eq!(found.as_deref(), text, "{item}");
    }
}

#[test]
fn tool_outputs_of_every_shape_are_read() {
    let output = |output: &str| {
        let list = format!(r#"{{"type":"function_call_output","call_id":"c","output":{output}}}"#);
        match turn(&items(&list)).items.remove(0) {
            Item::ToolResult(result) => result.content,
            other => panic!("{other:?}"),
        }
    };
    let text = |text: &str| vec![Part::Text(text.to_owned())];
    assert_eq!(output(r#""a\nb""#), text("a\nb"));
    assert_eq!(output(r#"{"a":1}"#), text(r#"{"a":1}"#));
    assert_eq!(output(r#"[{"type":"input_text","text":"a"}]"#), text("a"));
    assert_eq!(output("null"), []);
}

#[test]
fn legacy_shell_calls_are_calls() {
    let request = turn(&items(
        r#"{"type":"local_shell_call","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"]}},
           {"type":"local_shell_call_output","call_id":"c","output":"a.txt"}"#,
    ));
    assert_eq!(called(&request), [("local_shell", r#"{"type":"exec","command":["ls"]}"#)]);
    assert_eq!(request.items.len(), 2);
}

#[test]
fn text_files_are_inlined() {
    let file = |fields: &str| content(&format!(r#"{{"type":"input_file",{fields}}}"#));
    let parts = |body: &str| match turn(body).items.remove(0) {
        Item::Message(message) => message.parts,
        other => panic!("{other:?}"),
    };
    let text = |text: &str| vec![Part::Text(text.to_owned())];
    assert_eq!(
        parts(&file(r#""filename":"a.md","file_data":"data:text/markdown;base64,aGVsbG8=""#)),
        text("File `a.md`:\nhello")
    );
    assert_eq!(
        parts(&file(r#""filename":"a.json","file_data":"aGVsbG8""#)),
        text("File `a.json`:\nhello")
    );
    assert_eq!(
        parts(&file(r#""file_data":"data:application/json;base64,aGVsbG8=""#)),
        text("hello")
    );
    let image = file(r#""file_data":"data:image/png;base64,iVBORw==""#);
    assert!(matches!(parts(&image).as_slice(), [Part::Image(_)]));

    let at = |field: &str| format!("input[0].content[0].{field}");
    let cases = [
        (r#""filename":"a.pdf","file_data":"data:application/pdf;base64,aGVsbG8=""#, "file_data"),
        (r#""filename":"a.pdf","file_data":"aGVsbG8=""#, "file_data"),
        (r#""filename":"a.zip","file_data":"aGVsbG8=""#, "file_data"),
        (r#""file_id":"file-1""#, "file_id"),
        (r#""file_url":"https://example.org/a.txt""#, "file_url"),
    ];
    for (fields, field) in cases {
        refused(&file(fields), UnsupportedParameter, Some(&at(field)));
    }
    for data in ["data:text/plain;base64,!!", "data:text/plain;base64,/w=="] {
        let body = file(&format!(r#""file_data":"{data}""#));
        refused(&body, InvalidValue, Some(&at("file_data")));
    }
    refused(&file(r#""filename":"a.txt""#), InvalidValue, Some(&at("file_data")));
}

#[test]
fn errors_name_the_field() {
    for (body, code, param) in [
        (String::new(), InvalidJson, None),
        ("[]".to_owned(), InvalidJson, None),
        (r#"{"input":"hi"}"#.to_owned(), InvalidValue, Some("model")),
        (r#"{"model":"auto"}"#.to_owned(), MissingMessages, Some("input")),
        (items(""), MissingMessages, Some("input")),
        (items(r#"{"role":"assistant","content":""}"#), MissingMessages, Some("input")),
        (items(r#"{"type":"hologram"}"#), MissingMessages, Some("input")),
        (r#"{"model":"auto","input":7}"#.to_owned(), InvalidValue, Some("input")),
        (items("7"), InvalidValue, Some("input[0]")),
        (items(r#"{"role":"user","content":"a"},[]"#), InvalidValue, Some("input[1]")),
        (items(r#"{"role":"judge","content":"a"}"#), InvalidValue, Some("input[0].role")),
        (items(r#"{"type":"message","content":"a"}"#), InvalidValue, Some("input[0].role")),
        (items(r#"{"role":"user"}"#), InvalidValue, Some("input[0].content")),
        (items(r#"{"role":"user","content":7}"#), InvalidValue, Some("input[0].content")),
        (content("7"), InvalidValue, Some("input[0].content[0]")),
        (content(r#"{"type":"input_text"}"#), InvalidValue, Some("input[0].content[0].text")),
        (
            content(r#"{"type":"input_text","text":7}"#),
            InvalidValue,
            Some("input[0].content[0].text"),
        ),
        (content(r#"{"text":"a"}"#), InvalidValue, Some("input[0].content[0].type")),
        (content(r#"{"type":"smell"}"#), InvalidValue, Some("input[0].content[0].type")),
        (
            content(r#"{"type":"input_audio"}"#),
            UnsupportedParameter,
            Some("input[0].content[0].type"),
        ),
        (
            content(r#"{"type":"input_image","image_url":"https://a.b/c.png"}"#),
            InvalidValue,
            Some("input[0].content[0].image_url"),
        ),
        (
            content(r#"{"type":"input_image","file_id":"file-1"}"#),
            UnsupportedParameter,
            Some("input[0].content[0].file_id"),
        ),
        (items(r#"{"type":"function_call","name":"a"}"#), InvalidValue, Some("input[0].call_id")),
        (items(r#"{"type":"function_call","call_id":"a"}"#), InvalidValue, Some("input[0].name")),
        (
            items(r#"{"type":"function_call_output","output":"a"}"#),
            InvalidValue,
            Some("input[0].call_id"),
        ),
        (items(r#"{"type":"item_reference"}"#), InvalidValue, Some("input[0].id")),
        (with(r#""conversation":"conv_1""#), UnsupportedParameter, Some("conversation")),
        (with(r#""prompt":{"id":"pmpt_1"}"#), UnsupportedParameter, Some("prompt")),
        (with(r#""top_logprobs":2"#), UnsupportedParameter, Some("top_logprobs")),
        (
            with(r#""include":["a","message.output_text.logprobs"]"#),
            UnsupportedParameter,
            Some("include[1]"),
        ),
        (with(r#""max_output_tokens":0"#), InvalidValue, Some("max_output_tokens")),
        (with(r#""max_output_tokens":1.5"#), InvalidValue, Some("max_output_tokens")),
        (with(r#""metadata":[]"#), InvalidValue, Some("metadata")),
        (with(r#""truncation":"some""#), InvalidValue, Some("truncation")),
        (with(r#""reasoning":{"effort":"heroic"}"#), InvalidValue, Some("reasoning.effort")),
        (with(r#""reasoning":{"effort":7}"#), InvalidValue, Some("reasoning.effort")),
        (with(r#""text":{"format":{"type":"xml"}}"#), InvalidValue, Some("text.format.type")),
        (
            with(r#""text":{"format":{"type":"json_schema"}}"#),
            InvalidValue,
            Some("text.format.schema"),
        ),
        (with(r#""text":7"#), InvalidValue, Some("text")),
        (
            with(r#""instructions":[{"role":"user","content":"a"}]"#),
            UnsupportedParameter,
            Some("instructions"),
        ),
        (with(r#""tools":[{"type":"function"}]"#), InvalidValue, Some("tools[0].name")),
        (
            with(r#""tools":[{"name":"a","parameters":[]}]"#),
            InvalidValue,
            Some("tools[0].parameters"),
        ),
        (with(r#""tools":[{"type":"custom"}]"#), InvalidValue, Some("tools[0].name")),
        (
            with(r#""tools":[{"type":"custom","name":"a","format":{"syntax":1}}]"#),
            InvalidValue,
            Some("tools[0].format.syntax"),
        ),
        (
            with(r#""tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]"#),
            InvalidValue,
            Some("tools[0].tools[0].name"),
        ),
        (
            with(r#""tools":[{"type":"namespace","name":"n","tools":{}}]"#),
            InvalidValue,
            Some("tools[0].tools"),
        ),
        (with(r#""tool_choice":"maybe""#), InvalidValue, Some("tool_choice")),
        (with(r#""tool_choice":"required""#), InvalidValue, Some("tool_choice")),
        (
            with(r#""tool_choice":{"type":"function","name":"a"}"#),
            InvalidValue,
            Some("tool_choice.name"),
        ),
        (with(r#""tool_choice":{"type":"function"}"#), InvalidValue, Some("tool_choice.name")),
        (
            with(r#""tool_choice":{"type":"web_search"}"#),
            UnsupportedParameter,
            Some("tool_choice.type"),
        ),
    ] {
        refused(&body, code, param);
    }
}

#[path = "decode_tools_tests.rs"]
mod tools;
