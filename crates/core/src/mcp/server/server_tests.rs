use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::{Image, ImageSource, Part},
    peer::child::HostedResult,
};

fn server() -> ToolServer {
    let tool = Tool { name: "look".to_owned(), description: String::new(), schema: None };
    ToolServer::new("ibeam", "1.2.3", &[tool])
}

fn ask(message: &Value) -> ToolServerAnswer {
    let text = message.to_string();
    let Some(Inbound::Request(request)) = Inbound::read(text.as_bytes()) else { panic!("{text}") };
    server().answer(&request)
}

fn answered(method: &str, params: &Value) -> (Value, u16) {
    let message = json!({ "jsonrpc": "2.0", "id": "x", "method": method, "params": params });
    let (message, status) = match ask(&message) {
        ToolServerAnswer::Message { message, status } => (message, status),
        ToolServerAnswer::Tools(message) => (message, 200),
        ToolServerAnswer::Call(call) => panic!("{call:?}"),
    };
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!("x")));
    (message, status)
}

fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn initialize_negotiates_the_version() {
    for (asked, given) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25")]
    {
        let (message, _) = answered("initialize", &json!({ "protocolVersion": asked }));
        assert_eq!(
            message["result"],
            json!({
                "protocolVersion": given,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "ibeam", "version": "1.2.3" },
            })
        );
    }
    assert_eq!(answered("initialize", &json!({})).0["error"]["code"], json!(-32602));
}

#[test]
fn unsupported_lists_are_empty_and_other_methods_unknown() {
    for (method, result) in [
        ("ping", json!({})),
        ("resources/list", json!({ "resources": [] })),
        ("resources/templates/list", json!({ "resourceTemplates": [] })),
        ("prompts/list", json!({ "prompts": [] })),
        ("completion/complete", json!({ "completion": { "values": [] } })),
        (
            "tools/list",
            json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] }),
        ),
    ] {
        assert_eq!(
            answered(method, &json!({})),
            (json!({ "jsonrpc": "2.0", "id": "x", "result": result }), 200)
        );
    }
    for method in ["resources/read", "prompts/get", "logging/setLevel", "sampling/createMessage"] {
        let (message, status) = answered(method, &json!({}));
        assert_eq!((&message["error"]["code"], status), (&json!(-32601), 200), "{method}");
    }
}

#[test]
fn stateless_requests_name_their_version_and_client() {
    let (message, status) = answered("server/discover", &json!({ "_meta": stateless() }));
    assert_eq!(status, 200);
    assert_eq!(
        message["result"],
        json!({
            "resultType": "complete",
            "supportedVersions": version::KNOWN,
            "capabilities": { "tools": {} },
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {
                "io.modelcontextprotocol/serverInfo": { "name": "ibeam", "version": "1.2.3" },
            },
        })
    );
    let (message, _) = answered("tools/list", &json!({ "_meta": stateless() }));
    assert_eq!(message["result"]["resultType"], json!("complete"));
    assert_eq!(message["result"]["ttlMs"], json!(0));
    assert_eq!(message["result"]["cacheScope"], json!("private"));

    for (method, meta, code, status) in [
        ("server/discover", json!({}), -32602, 400),
        (
            "tools/list",
            json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" }),
            -32602,
            400,
        ),
        (
            "tools/list",
            json!({ "io.modelcontextprotocol/protocolVersion": "2030-01-01" }),
            -32022,
            400,
        ),
        // This version of the protocol removed the method.
        ("ping", stateless(), -32601, 404),
    ] {
        let (message, given) = answered(method, &json!({ "_meta": meta }));
        assert_eq!((&message["error"]["code"], given), (&json!(code), status), "{method} {meta}");
        if code == -32022 {
            assert_eq!(message["error"]["data"]["requested"], json!("2030-01-01"));
            assert_eq!(message["error"]["data"]["supported"], json!(version::KNOWN));
        }
    }
}

fn called(params: &Value) -> ToolServerAnswer {
    ask(&json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }))
}

#[test]
fn only_listed_tools_can_be_called() {
    for (params, text) in [
        (json!({ "name": "other" }), "unknown tool: other"),
        (json!({}), "`name` is missing"),
        (json!({ "name": "look", "arguments": [] }), "`arguments` must be an object"),
    ] {
        let ToolServerAnswer::Message { message, status: 200 } = called(&params) else {
            panic!("{params}")
        };
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["error"], json!({ "code": -32602, "message": text }));
    }
}

fn call(meta: &Value) -> HostedToolCall {
    let params = json!({ "name": "look", "arguments": { "n": 7 }, "_meta": meta });
    let ToolServerAnswer::Call(call) = called(&params) else { panic!() };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("look", r#"{"n":7}"#));
    call
}

fn value(message: &Bytes) -> Value {
    serde_json::from_slice(message).unwrap()
}

#[test]
fn results_have_texts_images_and_the_error_flag() {
    let data = Bytes::from_static(&[1, 2, 255]);
    let image = Image { source: ImageSource::Inline { mime: "image/png".to_owned(), data } };
    let content = vec![Part::Text("two".to_owned()), Part::Image(image)];
    for is_error in [false, true] {
        let result = HostedResult { id: 1, content: content.clone(), is_error };
        assert_eq!(
            value(&call(&json!({})).result(&result)),
            json!({ "jsonrpc": "2.0", "id": 7, "result": {
                "content": [
                    { "type": "text", "text": "two" },
                    { "type": "image", "data": "AQL/", "mimeType": "image/png" },
                ],
                "isError": is_error,
            } })
        );
        let modern = value(&call(&stateless()).result(&result));
        assert_eq!(modern["result"]["resultType"], json!("complete"));
    }
    let failed = value(&call(&json!({})).failed("later"));
    assert_eq!(failed["result"]["isError"], json!(true));
    assert_eq!(value(&call(&json!({})).over())["error"]["code"], json!(-32603));
}

#[test]
fn progress_is_reported_under_the_callers_token() {
    assert!(!call(&json!({})).wants_progress());
    assert!(call(&json!({})).progress(5.0).is_none());
    for token in [json!("t"), json!(7)] {
        let call = call(&json!({ "progressToken": token }));
        assert!(call.wants_progress());
        let progress = value(&call.progress(5.5).unwrap());
        assert_eq!(progress["method"], json!("notifications/progress"));
        assert_eq!(progress["params"]["progressToken"], token);
        assert_eq!(progress["params"]["progress"], json!(5.5));
    }
}

#[test]
fn cancellation_names_its_request() {
    let read = |message: Value| {
        let text = message.to_string();
        match Inbound::read(text.as_bytes()) {
            Some(Inbound::Notification(note)) => note.cancelled(),
            other => panic!("{other:?}"),
        }
    };
    let cancelled =
        |params: Value| read(json!({ "method": "notifications/cancelled", "params": params }));
    assert_eq!(cancelled(json!({ "requestId": 5 })), Some(jsonrpc::RpcId::Number(5.into())));
    assert_eq!(cancelled(json!({ "requestId": "a" })), Some(jsonrpc::RpcId::Text("a".to_owned())));
    assert_eq!(cancelled(json!({})), None);
    assert_eq!(read(json!({ "method": "notifications/initialized" })), None);
    assert!(matches!(Inbound::read(br#"{"id":1,"result":{}}"#), Some(Inbound::Response)));
    assert!(Inbound::read(b"[]").is_none());
}
