use super::*;

fn call() -> Option<VerifyCall> {
    let (id, name, arguments) = ("c1", TOOL, "{\"word\":\"beam\"}");
    Some(VerifyCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

#[test]
fn every_dialect_is_parsed() {
    let chat = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}

data: {"choices":[{"index":0,"delta":{"content":"lo"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"ibeam_check","arguments":"{\"word\""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"beam\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]
"#;
    let responses = r#"event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hello"}

data: {"type":"response.output_item.done","item":{"type":"function_call","id":"fc","call_id":"c1","name":"ibeam_check","arguments":"{\"word\":\"beam\"}"}}

data: {"type":"response.completed","response":{"error":null}}
"#;
    let messages = r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"ibeam_check","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"word\":\"beam\"}"}}

data: {"type":"message_stop"}
"#;
    for (dialect, stream) in [
        (ClientApi::Chat, chat),
        (ClientApi::Responses, responses),
        (ClientApi::Messages, messages),
    ] {
        let wanted = VerifyReply { text: "Hello".into(), call: call(), ended: true };
        assert_eq!(heard(dialect, stream), Ok(wanted));
        // A stream that is cut is none.
        let cut = stream.rsplit_once("data: {").unwrap().0;
        assert!(!heard(dialect, cut).unwrap().ended);
    }
}

#[test]
fn failures_keep_their_message() {
    let streams = [
        (ClientApi::Chat, r#"data: {"error":{"message":"no plan"}}"#),
        (
            ClientApi::Responses,
            r#"data: {"type":"response.failed","response":{"error":{"message":"no plan"}}}"#,
        ),
        (ClientApi::Messages, r#"data: {"type":"error","error":{"type":"x","message":"no plan"}}"#),
    ];
    for (dialect, stream) in streams {
        assert_eq!(heard(dialect, stream), Err(VerifyError::Unexpected("no plan".into())));
    }
}

#[test]
fn result_follows_its_call() {
    for dialect in [ClientApi::Chat, ClientApi::Responses, ClientApi::Messages] {
        let asked = first(dialect, "m", "q", true);
        assert!(asked["tool_choice"].is_object());
        let body = second(dialect, asked, &call().unwrap(), &json!({ "word": WORD }));
        assert!(body.get("tool_choice").is_none());
        let list = body.get("messages").or(body.get("input")).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 3, "{body}");
    }
}
