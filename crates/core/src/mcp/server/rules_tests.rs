use serde_json::{Value, json};

use super::*;

fn headers(version: Option<&str>, method: &[&str], name: &[&str]) -> McpHeaders {
    let all = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    McpHeaders { version: version.map(ToOwned::to_owned), method: all(method), name: all(name) }
}

fn message(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn check(headers: &McpHeaders, message: &str) -> Result<Lifecycle, McpRefusal> {
    lifecycle(headers, &Inbound::read(message.as_bytes()).unwrap())
}

/// The code of a refusal; 0 if it is words only.
fn code(outcome: Result<Lifecycle, McpRefusal>) -> i64 {
    match outcome.unwrap_err() {
        McpRefusal::Words(_) => 0,
        McpRefusal::Message(message) => {
            serde_json::from_slice::<Value>(&message).unwrap()["error"]["code"].as_i64().unwrap()
        }
    }
}

fn meta(version: &str) -> Value {
    json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    } })
}

#[test]
fn older_versions_need_a_session() {
    let list = message("tools/list", &json!({}));
    for version in [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-11-25")] {
        let headers = headers(version, &[], &[]);
        assert_eq!(check(&headers, &list), Ok(Lifecycle::Session));
        assert_eq!(has_sessions(&headers), Ok(true));
    }
    assert_eq!(code(check(&headers(Some("1.0"), &[], &[]), &list)), 0);
    assert!(has_sessions(&headers(Some("1.0"), &[], &[])).is_err());
    assert_eq!(has_sessions(&headers(Some("2026-07-28"), &[], &[])), Ok(false));
}

#[test]
fn initialize_always_begins_a_session() {
    for version in ["2025-06-18", "2026-07-28", "2099-01-01"] {
        let hello = message("initialize", &json!({ "protocolVersion": version }));
        assert_eq!(check(&headers(None, &[], &[]), &hello), Ok(Lifecycle::Session));
    }
    let bare = message("initialize", &json!({}));
    assert_eq!(code(check(&headers(None, &[], &[]), &bare)), -32602);
    let hello = message("initialize", &json!({ "protocolVersion": "2025-06-18" }));
    assert_eq!(code(check(&headers(Some("2025-03-26"), &[], &[]), &hello)), -32600);
    let hello = message("initialize", &json!({ "protocolVersion": "2026-07-28" }));
    let newest = Some("2026-07-28");
    assert_eq!(check(&headers(newest, &[], &[]), &hello), Ok(Lifecycle::Session));
    assert_eq!(check(&headers(newest, &["initialize"], &[]), &hello), Ok(Lifecycle::Session));
    assert_eq!(code(check(&headers(newest, &["tools/list"], &[]), &hello)), -32020);
    let twice = headers(newest, &["initialize", "initialize"], &[]);
    assert_eq!(code(check(&twice, &hello)), -32020);
}

#[test]
fn newest_version_must_be_in_header_and_message() {
    let list = message("tools/list", &meta("2026-07-28"));
    let newest = |method: &[&str], name: &[&str]| headers(Some("2026-07-28"), method, name);
    assert_eq!(check(&newest(&["tools/list"], &[]), &list), Ok(Lifecycle::Alone));
    assert_eq!(code(check(&headers(None, &[], &[]), &list)), -32020);
    assert_eq!(code(check(&headers(Some("2025-11-25"), &[], &[]), &list)), -32020);
    let bare = message("tools/list", &json!({}));
    assert_eq!(code(check(&newest(&["tools/list"], &[]), &bare)), -32602);
    let discover = message("server/discover", &json!({}));
    assert_eq!(code(check(&headers(None, &[], &[]), &discover)), -32602);
    // Whether an unknown version is spoken is said in the answer.
    let future = message("tools/list", &meta("2099-01-01"));
    let headers = headers(Some("2099-01-01"), &["tools/list"], &[]);
    assert_eq!(check(&headers, &future), Ok(Lifecycle::Alone));
}

#[test]
fn method_and_name_headers_must_match_the_message() {
    let newest = |method: &[&str], name: &[&str]| headers(Some("2026-07-28"), method, name);
    let mut params = meta("2026-07-28");
    params["name"] = json!("l\u{f6}ok");
    let call = message("tools/call", &params);
    assert_eq!(
        check(&newest(&["tools/call"], &["=?base64?bMO2b2s=?="]), &call),
        Ok(Lifecycle::Alone)
    );
    for (method, name) in [
        (&[][..], &["l\u{f6}ok"][..]),
        (&["tools/list"], &["l\u{f6}ok"]),
        (&["tools/call", "tools/call"], &["l\u{f6}ok"]),
        (&["tools/call"], &[]),
        (&["tools/call"], &["other"]),
        (&["tools/call"], &["=?base64?!?="]),
        (&["tools/call"], &["l\u{f6}ok", "l\u{f6}ok"]),
    ] {
        assert_eq!(code(check(&newest(method, name), &call)), -32020, "{method:?} {name:?}");
    }
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    assert_eq!(check(&newest(&["notifications/x"], &[]), note), Ok(Lifecycle::Alone));
    assert_eq!(code(check(&newest(&[], &[]), note)), -32020);
    assert!(matches!(no_answers(), McpRefusal::Message(_)));
}
