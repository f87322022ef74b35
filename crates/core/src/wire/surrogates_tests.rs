use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::Value;

use super::replace_lone;
use crate::{
    error::{ErrorCode, TurnError},
    model::{Item, Part, TurnRequest},
    wire::{chat, completions, messages, responses},
};

fn replaced(json: &str) -> String {
    String::from_utf8(replace_lone(json.as_bytes()).into_owned()).unwrap()
}

#[test]
fn only_lone_surrogates_are_replaced() {
    for (json, expected) in [
        (r#""\ud83d""#, r#""\ufffd""#),
        (r#""\uD83D \udE00""#, r#""\ufffd \ufffd""#),
        // The wrong way round, and two of the same half.
        (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
        (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
        (r#""\ud83d\ude00\ude00""#, r#""\ud83d\ude00\ufffd""#),
        (r#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
        // The backslash before `u` is text, or the one before that is.
        (r#""\\ud83d""#, r#""\\ud83d""#),
        (r#""\\\ud83d""#, r#""\\\ufffd""#),
        (r#""\ud83d\\ude00""#, r#""\ufffd\\ude00""#),
        // Other letters of the same block, and broken escapes.
        (r#""\ud7ff\ue000\ud8""#, r#""\ud7ff\ue000\ud8""#),
        (r#""\ud+80\ud8g0\u""#, r#""\ud+80\ud8g0\u""#),
        (r#"{"\udfff":"\udbff"}"#, r#"{"\ufffd":"\ufffd"}"#),
    ] {
        assert_eq!(replaced(json), expected, "{json}");
    }
}

#[test]
fn text_without_lone_surrogates_is_not_copied() {
    for json in ["", "{}", r#"{"a":"\u00e9\ud83d\ude00","b":"\\ud83d"}"#, "\\u", "\\ud83"] {
        assert!(matches!(replace_lone(json.as_bytes()), Cow::Borrowed(_)), "{json}");
    }
}

proptest! {
    /// UTF-16 as JavaScript has it, escaped: the standard library decodes it the same way.
    #[test]
    fn strings_are_decoded_as_lossy_utf_16(units in prop::collection::vec(
        prop_oneof![Just(0x5c_u16), Just(0x75), 0x61_u16..0x64, 0xd7fe_u16..0xd802,
            0xdbfe_u16..0xdc02, 0xdffe_u16..0xe002], 0..30)) {
        let escaped: String = units.iter().map(|unit| match unit {
            0x5c => "\\\\".to_owned(),
            0x61..0x80 => char::from(u8::try_from(*unit).unwrap()).to_string(),
            unit => format!("\\u{unit:04x}"),
        }).collect();
        let read: Value = serde_json::from_str(&replaced(&format!("\"{escaped}\""))).unwrap();
        let expected = String::from_utf16_lossy(&units);
        prop_assert_eq!(read.as_str(), Some(expected.as_str()));
    }

    #[test]
    fn any_bytes_keep_their_length(data in prop::collection::vec(any::<u8>(), 0..80),
        text in "[\\\\ud8cfDF0\"]{0,60}") {
        prop_assert_eq!(replace_lone(&data).len(), data.len());
        prop_assert_eq!(replace_lone(text.as_bytes()).len(), text.len());
    }
}

// === in requests ===

/// The request of each API that says `text` and has it in everything that is passed on.
fn requests(text: &str) -> [(&'static str, Result<TurnRequest, TurnError>); 4] {
    let schema = format!(r#"{{"type":"object","description":"{text}"}}"#);
    // In a string of its own, where each escape is written with one more backslash.
    let arguments = format!(r#"{{\"a\":\"{}\"}}"#, text.replace('\\', "\\\\"));
    let chat = format!(
        r#"{{"model":"auto","user":"{text}","metadata":{{"a":"{text}"}},"tools":[{{"type":"function",
        "function":{{"name":"t","description":"{text}","parameters":{schema}}}}}],"messages":[
        {{"role":"system","content":"{text}"}},{{"role":"user","content":"{text}"}},
        {{"role":"assistant","tool_calls":[{{"id":"1","type":"function","function":{{
        "name":"t","arguments":"{arguments}"}}}}]}},
        {{"role":"tool","tool_call_id":"1","content":"{text}"}}]}}"#
    );
    let responses = format!(
        r#"{{"model":"auto","instructions":"{text}","metadata":{{"a":"{text}"}},"tools":[{{
        "type":"function","name":"t","description":"{text}","parameters":{schema}}}],"input":[
        {{"role":"user","content":"{text}"}},
        {{"type":"function_call","call_id":"1","name":"t","arguments":"{arguments}"}},
        {{"type":"function_call_output","call_id":"1","output":"{text}"}}]}}"#
    );
    let messages = format!(
        r#"{{"model":"auto","max_tokens":9,"system":"{text}","metadata":{{"user_id":"{text}"}},
        "tools":[{{"name":"t","description":"{text}","input_schema":{schema}}}],"messages":[
        {{"role":"user","content":"{text}"}},
        {{"role":"assistant","content":[{{"type":"tool_use","id":"1","name":"t","input":{{"a":"{text}"}}}}]}},
        {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"1","content":"{text}"}}]}}]}}"#
    );
    let completions = format!(r#"{{"model":"auto","prompt":"{text}","user":"{text}"}}"#);
    [
        ("chat", chat::decode(chat.as_bytes())),
        ("responses", responses::decode(responses.as_bytes()).map(|request| request.turn)),
        ("messages", messages::decode(messages.as_bytes()).map(|request| request.turn)),
        ("completions", completions::decode(completions.as_bytes())),
    ]
}

#[test]
fn every_dialect_reads_a_lone_surrogate_as_the_replacement_character() {
    for (escape, expected) in [("\\ud83d", "\u{fffd}"), ("\\ud83d\\ude00", "\u{1f600}")] {
        for (api, request) in requests(escape) {
            let request = request.unwrap_or_else(|error| panic!("{api}: {error:?}"));
            for text in request.system.iter().chain(request.tools.iter().map(|t| &t.description)) {
                assert_eq!(text, expected, "{api}");
            }
            let user = request.items.first().unwrap();
            let Item::Message(message) = user else { panic!("{api}: {user:?}") };
            assert_eq!(message.parts, [Part::Text(expected.to_owned())], "{api}");
            for schema in request.tools.iter().filter_map(|tool| tool.schema.as_ref()) {
                let schema: Value = serde_json::from_str(schema.get()).unwrap();
                assert_eq!(schema["description"], expected, "{api}");
            }
            for item in &request.items {
                match item {
                    Item::ToolCall(call) => {
                        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                        assert_eq!(arguments["a"], expected, "{api}");
                    }
                    Item::ToolResult(result) => assert_eq!(result.text(), expected, "{api}"),
                    Item::Message(_) | Item::Reasoning(_) => {}
                }
            }
        }
    }
}

#[test]
fn lone_surrogate_does_not_shift_error_positions() {
    let body = r#"{"model":"\ud800","messages":[{"role":"user","content":"\udc00"},{"role":5}]}"#;
    let error = chat::decode(body.as_bytes()).expect_err("a number is not a role");
    assert_eq!(error.code, ErrorCode::InvalidValue);
    assert_eq!(error.param.as_deref(), Some("messages[1].role"));
}

#[test]
fn fuzz_sample_is_decoded() {
    let sample = include_bytes!("../../../../fuzz/corpus/chat/surrogate.json");
    let request = chat::decode(sample).unwrap();
    assert_eq!(request.model, "\u{fffd}");
    assert_eq!(request.texts().collect::<Vec<_>>(), ["\u{fffd}\u{fffd}"]);
}
