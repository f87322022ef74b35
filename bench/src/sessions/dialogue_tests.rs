use super::{DialogueAnswer, DialogueCall};

#[test]
fn calls_and_text_are_assembled() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Let \"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"me\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",",
        "\"function\":{\"name\":\"read\",\"arguments\":\"{\"}}]}}]}\n\n",
        ": a comment\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
    );
    let answer = DialogueAnswer::parse(stream).unwrap();
    let call = DialogueCall { id: "a".into(), name: "read".into(), arguments: "{}".into() };
    assert_eq!((answer.text.as_str(), answer.only_call().unwrap()), ("Let me", &call));
}

#[test]
fn errors_and_cut_streams_are_not_answers() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    assert!(DialogueAnswer::parse(text).is_err());
    assert!(DialogueAnswer::parse(&format!("{text}data: [DONE]\n\n")).is_err());
    assert!(DialogueAnswer::parse("data: {\"error\":{\"message\":\"no\"}}\n\n").is_err());
}
