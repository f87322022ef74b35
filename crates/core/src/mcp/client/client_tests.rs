use serde_json::{Value, json};

use super::{
    listing::{MAX_PAGES, MAX_TOOLS},
    *,
};
use crate::model::Part;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn value(message: &Bytes) -> Value {
    serde_json::from_slice(message).unwrap()
}

fn receive(client: &mut McpClient, message: &Value) -> McpIncoming {
    client.receive(message.to_string().as_bytes())
}

#[test]
fn requests_are_numbered() {
    let mut client = McpClient::default();
    let arguments = raw(&json!({ "a": 1 }));
    for (ask, expected) in [
        (
            McpRequest::Initialize { version: "1.2.3" },
            json!({ "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "ibeam", "version": "1.2.3" } } }),
        ),
        (McpRequest::Ping, json!({ "id": 2, "method": "ping", "params": {} })),
        (
            McpRequest::ListTools { cursor: None },
            json!({ "id": 3, "method": "tools/list", "params": {} }),
        ),
        (
            McpRequest::ListTools { cursor: Some("c") },
            json!({ "id": 4, "method": "tools/list", "params": { "cursor": "c" } }),
        ),
        (
            McpRequest::CallTool { name: "t", arguments: &arguments },
            json!({ "id": 5, "method": "tools/call", "params": {
                "name": "t", "arguments": { "a": 1 }, "_meta": { "progressToken": 5 } } }),
        ),
    ] {
        let (id, message) = client.ask(ask);
        let mut expected = expected;
        expected["jsonrpc"] = json!("2.0");
        assert_eq!(value(&message), expected);
        assert!(client.is_pending(id));
    }
}

#[test]
fn answer_is_matched_to_its_request_once() {
    let mut client = McpClient::default();
    let (one, _) = client.ask(McpRequest::Ping);
    let (two, _) = client.ask(McpRequest::Ping);
    // Some servers send numbers back as texts.
    let answer = json!({ "jsonrpc": "2.0", "id": two.to_string(), "result": { "x": 1 } });
    let McpIncoming::Answer { id, outcome: Ok(result) } = receive(&mut client, &answer) else {
        panic!()
    };
    assert_eq!((id, result.get()), (two, r#"{"x":1}"#));
    assert!(matches!(receive(&mut client, &answer), McpIncoming::Ignored));
    let error = json!({ "id": null, "error": { "code": -32700, "message": "what?" } });
    let McpIncoming::Answer { id, outcome: Err(error) } = receive(&mut client, &error) else {
        panic!("an error without an id answers the only request")
    };
    assert_eq!((id, error.words.as_str()), (one, "what?"));
    for noise in [json!({ "id": 77, "result": {} }), json!([]), json!("x")] {
        assert!(matches!(receive(&mut client, &noise), McpIncoming::Ignored), "{noise}");
    }
}

#[test]
fn only_unanswered_requests_are_cancelled() {
    let mut client = McpClient::default();
    let (id, _) = client.ask(McpRequest::Ping);
    let cancelled = value(&client.give_up(id).unwrap());
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], json!(id));
    assert!(client.give_up(id).is_none());
    let late = json!({ "id": id, "result": {} });
    assert!(matches!(receive(&mut client, &late), McpIncoming::Ignored));
}

#[test]
fn requests_of_the_server_are_answered() {
    let mut client = McpClient::default();
    for (method, expected) in [
        ("ping", json!({ "jsonrpc": "2.0", "id": "s1", "result": {} })),
        (
            "elicitation/create",
            json!({ "jsonrpc": "2.0", "id": "s1", "result": { "action": "decline" } }),
        ),
    ] {
        let asked = json!({ "jsonrpc": "2.0", "id": "s1", "method": method });
        let McpIncoming::Reply(reply) = receive(&mut client, &asked) else { panic!() };
        assert_eq!(value(&reply), expected);
    }
    for method in ["roots/list", "sampling/createMessage", "other"] {
        let asked = json!({ "id": 9, "method": method });
        let McpIncoming::Reply(reply) = receive(&mut client, &asked) else { panic!() };
        assert_eq!(value(&reply)["error"]["code"], json!(-32601));
    }
    let changed = json!({ "method": "notifications/tools/list_changed" });
    assert!(matches!(receive(&mut client, &changed), McpIncoming::ToolsChanged));
    let log = json!({ "method": "notifications/message", "params": {} });
    assert!(matches!(receive(&mut client, &log), McpIncoming::Ignored));
}

#[test]
fn initialize_result_has_the_version_and_the_tools_capability() {
    let read = |value: Value| ServerGreeting::read(&raw(&value));
    let greeting = |version: &str, tools| ServerGreeting { version: version.to_owned(), tools };
    let plain = json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} } });
    assert_eq!(read(plain), Ok(greeting("2024-11-05", true)));
    let without = json!({ "protocolVersion": "2025-06-18", "capabilities": { "prompts": {} } });
    assert_eq!(read(without), Ok(greeting("2025-06-18", false)));
    assert!(read(json!({ "protocolVersion": "2026-07-28" })).unwrap_err().contains("too new"));
    assert!(read(json!({})).is_err());
    assert!(read(json!(7)).is_err());
}

#[test]
fn handshake_ends_with_a_result_or_an_error() {
    let (mut handshake, message) = Handshake::new("1");
    assert_eq!(value(&message)["id"], json!(0));
    assert!(handshake.receive(br#"{"method":"notifications/message"}"#).is_none());
    let result = json!({ "protocolVersion": "2025-06-18" });
    let answer = json!({ "id": 0, "result": result }).to_string();
    let greeting = handshake.receive(answer.as_bytes()).unwrap().unwrap();
    assert_eq!(greeting, ServerGreeting { version: "2025-06-18".to_owned(), tools: false });
    for (error, words) in [
        (json!({ "code": 1, "message": "no" }), "no"),
        (json!({ "code": 7 }), "it answered with error 7"),
    ] {
        let answer = json!({ "error": error }).to_string();
        let outcome = Handshake::new("1").0.receive(answer.as_bytes());
        assert_eq!(outcome.unwrap().unwrap_err(), words);
    }
}

#[test]
fn tool_pages_are_collected() {
    let mut listing = ToolListing::default();
    let schema = json!({ "type": "object", "a": 1 });
    let page = json!({
        "tools": [
            { "name": "one", "description": "d".repeat(9000), "inputSchema": schema },
            { "name": "bad" },
            { "name": "huge", "inputSchema": { "x": "y".repeat(200_000) } },
        ],
        "nextCursor": "more",
    });
    assert_eq!(listing.add(&raw(&page)), Ok(Some("more".to_owned())));
    let last = json!({ "tools": [{ "name": "two", "inputSchema": {} }] });
    assert_eq!(listing.add(&raw(&last)), Ok(None));
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(listing.tools[0].description.len(), 8 << 10);
    assert_eq!(listing.tools[0].schema.get(), r#"{"a":1,"type":"object"}"#);
    assert_eq!(listing.notes, [Note::Malformed, Note::LargeSchema("huge".to_owned())]);
    assert!(listing.add(&raw(&json!({ "tool": [] }))).is_err());
}

#[test]
fn endless_tool_list_is_cut() {
    let mut listing = ToolListing::default();
    let page = raw(&json!({ "tools": [], "nextCursor": "again" }));
    for _ in 1..MAX_PAGES {
        assert_eq!(listing.add(&page), Ok(Some("again".to_owned())));
    }
    assert_eq!(listing.add(&page), Ok(None));
    assert_eq!(listing.notes, [Note::TooManyPages]);

    let mut listing = ToolListing::default();
    let tools: Vec<Value> =
        (0..=MAX_TOOLS).map(|n| json!({ "name": format!("t{n}"), "inputSchema": {} })).collect();
    assert_eq!(listing.add(&raw(&json!({ "tools": tools, "nextCursor": "x" }))), Ok(None));
    assert_eq!(listing.tools.len(), MAX_TOOLS);
    assert_eq!(listing.notes, [Note::TooManyTools]);
}

fn texts(outcome: &CallOutcome) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        image @ Part::Image(_) => format!("{} bytes", image.bytes()),
    };
    outcome.content.iter().map(text).collect()
}

#[test]
fn every_kind_of_content_becomes_text_or_an_image() {
    let result = json!({
        "content": [
            { "type": "text", "text": "t\n", "annotations": {} },
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "image", "data": "?", "mimeType": "image/png" },
            { "type": "audio", "data": "AAEC", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "a:b", "text": "r" } },
            { "type": "resource", "resource": { "uri": "a:b", "blob": "AA" } },
            { "type": "resource_link", "uri": "a:c", "name": "n" },
            { "type": "hologram" },
            7,
        ],
        "isError": true,
    });
    let outcome = CallOutcome::read(&raw(&result)).unwrap();
    assert!(outcome.is_error);
    assert_eq!(
        texts(&outcome),
        [
            "t\n",
            "3 bytes",
            "[an image that cannot be read]",
            "[audio, audio/wav, which is not passed on]",
            "r",
            "[the resource a:b, which is not text]",
            "[n: a:c]",
            "[content of an unknown kind]",
            "[content of an unknown kind]",
        ]
    );
}

#[test]
fn structured_content_alone_is_given_as_text() {
    let outcome = CallOutcome::read(&raw(&json!({ "structuredContent": { "a": 1 } }))).unwrap();
    assert_eq!(texts(&outcome), [r#"{"a":1}"#]);
    assert!(!outcome.is_error);
    for wrong in [json!(null), json!([]), json!({ "content": 7 })] {
        assert!(CallOutcome::read(&raw(&wrong)).is_err(), "{wrong}");
    }
}
