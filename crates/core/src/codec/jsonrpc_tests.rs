use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn number(id: i64) -> RpcId {
    RpcId::Number(id.into())
}

#[test]
fn notification_is_a_request_without_id() {
    let request = parse(br#"{"jsonrpc":"2.0","id":"a\n1","method":"m","params":{"x":1}}"#);
    let Some(RpcMessage::Request { id, method, params }) = request else { panic!("no request") };
    assert_eq!((id, method.as_str()), (RpcId::Text("a\n1".to_owned()), "m"));
    assert_eq!(params.unwrap().get(), r#"{"x":1}"#);

    let line = br#" {"method":"m","id":null} "#;
    assert!(
        matches!(parse(line), Some(RpcMessage::Notification { method, params: None }) if method == "m")
    );
}

#[test]
fn response_may_be_empty_and_have_a_string_id() {
    for (line, result) in [
        (r#"{"id":7,"result":{"a":1}}"#, Some(r#"{"a":1}"#)),
        (r#"{"id":"7","result":null}"#, None),
        (r#"{"id":7}"#, None),
    ] {
        let Some(RpcMessage::Response { id: Some(id), outcome: Ok(outcome) }) =
            parse(line.as_bytes())
        else {
            panic!("{line}")
        };
        assert!(id.is(7) && !id.is(8), "{line}");
        assert_eq!(outcome.map(RawValue::get), result, "{line}");
    }
}

#[test]
fn error_messages_of_any_shape_are_kept() {
    for (error, code, words) in [
        (r#"{"code":-32000,"message":"no"}"#, -32000, "no"),
        (r#"{"code":"x","message":"no","data":"why"}"#, 0, "no: why"),
        (
            r#"{"code":1,"message":"Internal error","data":{"details":"the why"}}"#,
            1,
            "Internal error: the why",
        ),
        (r#"{"code":1,"message":"no, why","data":{"message":"why"}}"#, 1, "no, why"),
        (r#"{"data":[1]}"#, 0, ""),
        (r#""plain""#, 0, "plain"),
        ("17", 0, "17"),
    ] {
        let line = format!(r#"{{"id":1,"error":{error}}}"#);
        let Some(RpcMessage::Response { outcome: Err(got), .. }) = parse(line.as_bytes()) else {
            panic!("{line}")
        };
        assert_eq!(got, RpcError { code, words: words.to_owned() }, "{line}");
    }
    let long = json!({"error": {"message": "ä".repeat(5000)}}).to_string();
    let Some(RpcMessage::Response { id: None, outcome: Err(got) }) = parse(long.as_bytes()) else {
        panic!("an error without an id is an answer")
    };
    assert_eq!(got.words.len(), WORDS_CAP);
}

#[test]
fn lines_that_are_not_messages_are_ignored() {
    for line in [
        "",
        "hello",
        "[]",
        r#"["2.0",1,"m",{},{}]"#,
        "{}",
        r#"{"result":1}"#,
        r#"{"method":3}"#,
        "{",
    ] {
        assert!(parse(line.as_bytes()).is_none(), "{line}");
    }
}

#[test]
fn every_message_is_written_as_one_line_of_json() {
    let value = |line: Bytes| -> Value {
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(line.ends_with(b"\n"));
        serde_json::from_slice(&line).unwrap()
    };
    let params = json!({"text": "a\nb"});
    assert_eq!(
        value(request(3, "m", &params)),
        json!({"jsonrpc": "2.0", "id": 3, "method": "m", "params": {"text": "a\nb"}})
    );
    assert_eq!(
        value(notification("m", &params)),
        json!({"jsonrpc": "2.0", "method": "m", "params": {"text": "a\nb"}})
    );
    assert_eq!(
        value(result(&RpcId::Text("x".to_owned()), &params)),
        json!({"jsonrpc": "2.0", "id": "x", "result": {"text": "a\nb"}})
    );
    assert_eq!(
        value(error(&number(-1), METHOD_NOT_FOUND, "no such")),
        json!({"jsonrpc": "2.0", "id": -1, "error": {"code": -32601, "message": "no such"}})
    );
}

proptest! {
    #[test]
    fn response_repeats_the_request_id(number in any::<i64>(), words in any::<String>()) {
        for id in [RpcId::Number(number.into()), RpcId::Text(words)] {
            let line = result(&id, &Value::Null);
            let Some(RpcMessage::Response { id: Some(back), .. }) = parse(&line) else {
                return Err(TestCaseError::fail("no answer"));
            };
            prop_assert_eq!(back, id);
        }
    }

    #[test]
    fn only_objects_are_messages(bytes in any::<Vec<u8>>()) {
        let is_object = bytes.trim_ascii_start().starts_with(b"{");
        prop_assert!(parse(&bytes).is_none() || is_object);
    }
}
