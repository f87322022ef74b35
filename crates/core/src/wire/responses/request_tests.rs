use bytes::BytesMut;
use serde_json::value::RawValue;

use crate::{
    error::ErrorCode,
    model::{FinishReason, Item, Part, TurnEvent, TurnRequest, Usage, ids::CallId},
    wire::{
        Encode as _,
        responses::{
            ResponsesEncoder, ResponsesRequest, compaction, decode, response_id, user_messages,
        },
    },
};

fn request(body: &str) -> ResponsesRequest {
    decode(body.as_bytes()).unwrap_or_else(|error| panic!("{error:?} for {body}"))
}

fn raw(items: &[&str]) -> Vec<Box<RawValue>> {
    items.iter().map(|item| RawValue::from_string((*item).to_owned()).unwrap()).collect()
}

/// The items of a turn, in short.
fn brief_items(turn: &TurnRequest) -> Vec<String> {
    let item = |item: &Item| match item {
        Item::Message(message) => {
            let texts = message.parts.iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Image(_) => "image",
            });
            format!("{:?}: {}", message.role, texts.collect::<String>())
        }
        Item::ToolCall(call) => format!("call {} {}", call.name, call.arguments),
        Item::ToolResult(result) => format!("result {}", result.text()),
        Item::Reasoning(reasoning) => format!("thought {}", reasoning.text),
    };
    turn.items.iter().map(item).collect()
}

const EARLIER: [&str; 5] = [
    r#"{"id":"at_1","type":"additional_tools","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"own","description":"old"}]}"#,
    r#"{"id":"msg_0","type":"message","role":"developer","content":"earlier rule"}"#,
    r#"{"id":"msg_1","type":"message","role":"user","content":"first"}"#,
    r#"{"id":"ctc_1","type":"custom_tool_call","call_id":"c","name":"exec","input":"1"}"#,
    r#"{"id":"msg_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"second"}]}"#,
];

#[test]
fn earlier_items_come_before_its_own() {
    let mut request = request(
        r#"{"model":"auto","instructions":"be brief","previous_response_id":"resp_1",
            "tools":[{"type":"function","name":"own","description":"new"}],
            "input":[{"role":"developer","content":"own rule"},{"role":"user","content":"third"},
                {"type":"item_reference","id":"msg_2"}]}"#,
    );
    assert_eq!(request.previous.as_deref(), Some("resp_1"));
    assert!(!request.is_whole());
    request.after(&raw(&EARLIER)).unwrap();
    assert_eq!(
        brief_items(&request.turn),
        ["User: first", r#"call exec {"input":"1"}"#, "Assistant: second", "User: third"]
    );
    // Instructions are of one request only, and come first.
    assert_eq!(request.turn.system, ["be brief", "earlier rule", "own rule"]);
    let tools = request.turn.tools.iter().map(|tool| (tool.name.as_str(), tool.description.len()));
    assert_eq!(tools.map(|(name, _)| name).collect::<Vec<_>>(), ["own", "exec"]);
    assert_eq!(request.turn.tools[0].description, "new");
    assert_eq!(request.input.len(), 3, "its own input stays its own");
}

/// Each item that goes out can be input of the next request.
#[test]
fn output_items_are_accepted_as_input() {
    let body = r#"{"model":"auto","input":"go","include":["reasoning.encrypted_content"],"tools":[
        {"type":"function","name":"bash"},{"type":"custom","name":"apply_patch"},
        {"type":"namespace","name":"team","tools":[{"type":"function","name":"bash"}]},
        {"type":"tool_search","execution":"client"}]}"#;
    let mut encoder = ResponsesEncoder::new(response_id([1; 16]), 1, request(body).echo);
    let mut out = BytesMut::new();
    let mut hear = |event| encoder.on_event(&event, &mut out);
    hear(TurnEvent::Reasoning("hm\n\"x\"".to_owned()));
    hear(TurnEvent::Text("so".to_owned()));
    let calls = [
        ("bash", r#"{"command":"ls"}"#),
        ("apply_patch", r#"{"input":"a\n\"b\""}"#),
        ("team__bash", "{}"),
        ("tool_search", r#"{"query":"x"}"#),
    ];
    for (place, (name, arguments)) in calls.into_iter().enumerate() {
        let id = CallId::sanitised(&format!("call_{place}"));
        hear(TurnEvent::ToolCallBegin { id: id.clone(), name: name.to_owned() });
        hear(TurnEvent::ToolCallArgs { id: id.clone(), delta: arguments.to_owned() });
        hear(TurnEvent::ToolCallEnd { id });
    }
    hear(TurnEvent::Finished(FinishReason::ToolCalls));
    let mut next = request(&body.replace("go", "on"));
    let said: Vec<Box<RawValue>> = serde_json::from_str(&encoder.ended().unwrap().output).unwrap();
    next.after(&said).unwrap();
    let mut expected = vec!["thought hm\n\"x\"".to_owned(), "Assistant: so".to_owned()];
    expected.extend(calls.map(|(name, arguments)| format!("call {name} {arguments}")));
    expected.push("User: on".to_owned());
    assert_eq!(brief_items(&next.turn), expected);
}

#[test]
fn input_may_be_empty_after_a_previous_response() {
    let mut request = request(r#"{"model":"auto","previous_response_id":"resp_1"}"#);
    request.after(&raw(&EARLIER)).unwrap();
    assert_eq!(request.turn.items.len(), 3);
}

/// Some clients name all items of a kept response, and no response.
#[test]
fn item_references_are_replaced_in_place() {
    let mut request = request(
        r#"{"model":"auto","input":[{"role":"user","content":"a"},{"id":"msg_1"},
            {"type":"item_reference","id":"rs_1"},{"role":"user","content":"b"},
            {"type":"item_reference","id":"msg_2"},{"role":"user","content":"c"}]}"#,
    );
    let names: Vec<&str> = request.references().collect();
    assert_eq!(names, ["msg_1", "rs_1", "msg_2"]);
    request.resolve(&raw(&EARLIER[2..]), usize::MAX).unwrap();
    assert_eq!(
        brief_items(&request.turn),
        ["User: a", "User: first", "User: b", "Assistant: second", "User: c"]
    );
    assert!(request.input[4].get().contains("second"), "what is kept of it is whole");
    assert_eq!(request.references().collect::<Vec<_>>(), ["rs_1"]);
    let error = request.after(&[]).unwrap_err();
    assert_eq!(
        (error.code, error.param.as_deref()),
        (ErrorCode::InvalidValue, Some("input[2].id"))
    );
    let thought =
        r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}"#;
    request.resolve(&raw(&[thought]), usize::MAX).unwrap();
    request.after(&[]).unwrap();
    assert_eq!(brief_items(&request.turn)[2], "thought hm");
}

#[test]
fn unknown_item_reference_is_refused() {
    let mut request = request(
        r#"{"model":"auto","previous_response_id":"resp_1","input":[{"type":"item_reference","id":"msg_9"}]}"#,
    );
    let error = request.after(&raw(&EARLIER)).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("input[0].id"));
    assert!(error.message.contains("msg_9"), "{error}");
}

#[test]
fn compacted_conversation_continues_from_its_summary() {
    let first = request(
        r#"{"model":"auto","input":[{"role":"developer","content":"rule"},
            {"role":"user","content":"do it"},{"role":"assistant","content":"done"},
            {"role":"user","content":"and now?"}]}"#,
    );
    let kept = user_messages(&first.input);
    let usage = Usage { input: 10, output: 2, ..Usage::default() };
    let id = response_id([1; 16]);
    let reply = compaction(&id, 5, "It was \"done\".\n", &kept, usage);
    let reply: serde_json::Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["object"], "response.compaction");
    assert_eq!((&reply["id"], &reply["created_at"]), (&id.as_str().into(), &5.into()));
    assert_eq!(reply["usage"]["total_tokens"], 12);
    let output = reply["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    assert_eq!(output[2]["type"], "compaction");
    assert!(!output[2]["encrypted_content"].as_str().unwrap().contains("done"));

    let body = serde_json::json!({"model": "auto", "input": output});
    let next = request(&body.to_string());
    assert_eq!(
        brief_items(&next.turn),
        [
            "User: do it",
            "User: and now?",
            "User: Summary of the conversation so far:\n\nIt was \"done\".\n"
        ]
    );
}

#[test]
fn size_of_referenced_items_is_limited() {
    let item = r#"{"type":"message","id":"msg_1","role":"assistant","content":"abcdefghijklmnop"}"#;
    let references = [r#"{"type":"item_reference","id":"msg_1"}"#; 10].join(",");
    let body = format!(r#"{{"model":"m","input":[{references}]}}"#);
    let mut request = decode(body.as_bytes()).unwrap();
    let most = 10 * item.len();
    assert_eq!(request.resolved_bytes(&raw(&[item]), most).unwrap(), most);
    assert!(request.resolved_bytes(&raw(&[item]), most - 1).is_err());
    let error = request.resolve(&raw(&[item]), 9 * item.len()).unwrap_err();
    assert_eq!(error.code, ErrorCode::ContextTooLong);
    request.resolve(&raw(&[item]), 10 * item.len()).unwrap();
    assert_eq!(request.turn.items.len(), 10);
}

/// Each of them was within the limits of its own request.
#[test]
fn stored_items_count_towards_the_limits() {
    let chain = format!("{}0{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    let fields: Vec<String> = (0..300).map(|n| format!(r#""k{n}":{chain}"#)).collect();
    let object = format!("{{{}}}", fields.join(","));
    let call = format!(
        r#"{{"type":"function_call","id":"fc_1","call_id":"c","name":"t","arguments":{object}}}"#
    );
    let tools = format!(
        r#"{{"type":"additional_tools","tools":[{{"type":"function","name":"t","parameters":{object}}}]}}"#
    );
    let next = r#"{"model":"m","previous_response_id":"resp_1","input":"hi"}"#;
    request(next).after(&raw(&[&call])).unwrap();
    request(next).after(&raw(&[&tools])).unwrap();
    for earlier in [[&call, &call], [&tools, &call]] {
        let error = request(next).after(&raw(&earlier.map(String::as_str))).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidJson);
        assert_eq!(error.param.as_deref(), Some("previous_response_id"));
    }
    let twice = r#"{"model":"m","input":[{"type":"item_reference","id":"fc_1"},
        {"type":"item_reference","id":"fc_1"}]}"#;
    let error = request(twice).resolve(&raw(&[&call]), 64 << 20).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("input"));
}

/// What a turn does not take up is in memory all the same.
#[test]
fn request_size_counts_everything_it_keeps() {
    let junk = "x".repeat(10_000);
    let items = format!(r#"{{"type":"junk","x":"{junk}"}},{{"role":"user","content":"hi"}}"#);
    let unknown = request(&format!(r#"{{"model":"m","input":[{items}]}}"#));
    assert!((10_000..12_000).contains(&unknown.bytes()), "{}", unknown.bytes());
    assert!(unknown.turn.bytes() < 1000);
    let body = format!(r#"{{"model":"m","input":"hi","metadata":{{"x":"{junk}"}}}}"#);
    assert!(request(&body).bytes() > 10_000, "the response repeats it");
}
