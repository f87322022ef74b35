use super::{Answer, Call};

#[test]
fn calls_are_put_together_and_text_is_joined() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Let \"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"me\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",",
        "\"function\":{\"name\":\"read\",\"arguments\":\"{\"}}]}}]}\n\n",
        ": a comment\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
    );
    let answer = Answer::parse(stream).unwrap();
    let call = Call { id: "a".into(), name: "read".into(), arguments: "{}".into() };
    assert_eq!((answer.text.as_str(), answer.only_call().unwrap()), ("Let me", &call));
}

#[test]
fn errors_and_cut_streams_are_no_answers() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    assert!(Answer::parse(text).is_err());
    assert!(Answer::parse(&format!("{text}data: [DONE]\n\n")).is_err());
    assert!(Answer::parse("data: {\"error\":{\"message\":\"no\"}}\n\n").is_err());
}
