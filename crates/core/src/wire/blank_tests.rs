use crate::{
    error::{ErrorCode, TurnError},
    wire::{chat, completions, messages, responses},
};

#[track_caller]
fn refused<T: std::fmt::Debug>(read: Result<T, TurnError>, param: &str) {
    let error = read.expect_err(param);
    assert_eq!(error.code, ErrorCode::InvalidValue, "{error:?}");
    assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
}

fn chat(list: &str) -> Result<(), TurnError> {
    let body = format!(r#"{{"model":"auto","messages":[{list}]}}"#);
    chat::decode(body.as_bytes()).map(drop)
}

fn messages(list: &str) -> Result<(), TurnError> {
    let body = format!(r#"{{"model":"auto","max_tokens":9,"messages":[{list}]}}"#);
    messages::decode(body.as_bytes()).map(drop)
}

fn responses(input: &str) -> Result<(), TurnError> {
    let body = format!(r#"{{"model":"auto","input":{input}}}"#);
    responses::decode(body.as_bytes()).map(drop)
}

#[test]
fn blank_last_turn_is_refused_with_its_field() {
    let blank = r#"{"role":"user","content":" \n\t"}"#;
    let before = r#"{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"}"#;
    let parts =
        r#"{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"\u00a0"}]}"#;
    for read in [chat, messages] {
        refused(read(blank), "messages[0].content");
        refused(read(&format!("{before},{blank}")), "messages[2].content");
        refused(read(&format!("{before},{blank},{parts}")), "messages[3].content");
    }
    let system = r#"{"role":"system","content":"Be brief."}"#;
    refused(chat(&format!("{blank},{system}")), "messages[0].content");
    refused(chat(r#"{"role":"user","content":""}"#), "messages[0].content");
    refused(responses("\" \""), "input");
    refused(responses(&format!("[{before},{blank}]")), "input[2].content");
    let prompt = completions::decode(br#"{"model":"auto","prompt":" \n"}"#);
    refused(prompt, "prompt");
}

#[test]
fn blank_text_next_to_other_content_is_accepted() {
    let blank = r#"{"role":"user","content":" "}"#;
    let text = r#"{"role":"user","content":"hi"}"#;
    for read in [chat, messages] {
        read(&format!("{text},{blank}")).unwrap();
        read(&format!("{blank},{text}")).unwrap();
        read(&format!(r#"{blank},{{"role":"assistant","content":"what?"}},{text}"#)).unwrap();
    }
    responses(&format!("[{text},{blank}]")).unwrap();
    let call = r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"t","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":""}"#;
    chat(&format!("{text},{call},{blank}")).unwrap();
    chat(&format!("{text},{call}")).unwrap();
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}"#;
    chat(&format!(r#"{{"role":"user","content":[{{"type":"text","text":" "}},{image}]}}"#))
        .unwrap();
}

/// Counting tokens asks for no answer, and warming up a connection does not either.
#[test]
fn blank_text_is_accepted_when_no_answer_is_requested() {
    let body = br#"{"model":"auto","messages":[{"role":"user","content":" "}]}"#;
    messages::decode_count(body).unwrap();
    responses::decode(br#"{"model":"auto","input":" ","generate":false}"#).unwrap();
}
