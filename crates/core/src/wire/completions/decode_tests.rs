use super::*;
use crate::error::ErrorCode;

fn decoded(body: &str) -> TurnRequest {
    decode(body.as_bytes()).unwrap()
}

fn refused(body: &str) -> (ErrorCode, String) {
    let error = decode(body.as_bytes()).unwrap_err();
    (error.code, error.param.unwrap_or_default().into_owned())
}

#[test]
fn prompt_becomes_a_user_message() {
    for body in [
        r#"{"model":" auto ","prompt":"Say hello."}"#,
        r#"{"model":"auto","prompt":["Say hello."],"n":1,"best_of":1,"echo":false,"suffix":""}"#,
        r#"{"model":"auto","prompt":"Say hello.","suffix":null,"logprobs":null,"what":"ever"}"#,
    ] {
        let turn = decoded(body);
        assert_eq!(turn.model, "auto");
        assert_eq!(turn.dialect, Dialect::Completions);
        let parts = vec![Part::Text("Say hello.".to_owned())];
        assert_eq!(turn.items, [Item::Message(Message { role: Role::User, parts })]);
        assert!(turn.system.is_empty() && turn.tools.is_empty());
        assert_eq!(turn.sampling, Sampling::default());
        assert_eq!(turn.hints, Hints { hides_reasoning: true, ..Hints::default() });
    }
}

#[test]
fn no_token_limit_by_default() {
    assert_eq!(decoded(r#"{"model":"auto","prompt":"x"}"#).sampling.max_tokens, None);
}

/// They are likely mistakes that would otherwise go unnoticed.
#[test]
fn names_of_the_sibling_apis_are_listed() {
    let names = [
        "input",
        "instructions",
        "max_completion_tokens",
        "max_output_tokens",
        "messages",
        "response_format",
        "stop_sequences",
        "system",
    ];
    let set = |value: &str| names.map(|name| format!(r#""{name}":{value}"#)).join(",");
    let asked = |value| decoded(&format!(r#"{{"model":"auto","prompt":"x",{}}}"#, set(value)));
    assert_eq!(asked("[{}]").sampling.params.ignored, names);
    assert!(asked("null").sampling.params.ignored.is_empty());
}

#[test]
fn controls_and_hints_are_decoded() {
    let turn = decoded(
        r#"{"model":"auto","prompt":"x","max_tokens":7,"stop":["\n","END"],"temperature":0,
            "top_p":1,"seed":3,"user":"me","stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!(turn.sampling.max_tokens, Some(7));
    assert_eq!(turn.sampling.stop, ["\n", "END"]);
    assert_eq!(turn.sampling.params.emulated, ["max_tokens", "stop"]);
    assert_eq!(turn.sampling.params.ignored, ["temperature", "seed", "user"]);
    assert!(turn.sampling.params.native.is_empty());
    assert!(turn.hints.stream && turn.hints.include_usage);
    assert_eq!(turn.hints.user.as_deref(), Some("me"));
    let one = decoded(r#"{"model":"auto","prompt":"x","stop":"END"}"#);
    assert_eq!(one.sampling.stop, ["END"]);
}

#[test]
fn unsupported_completion_parameters_are_refused_by_name() {
    use ErrorCode::{InvalidValue, UnsupportedParameter};
    for (field, code, param) in [
        (r#""n":2"#, UnsupportedParameter, "n"),
        (r#""n":0"#, InvalidValue, "n"),
        (r#""best_of":3"#, UnsupportedParameter, "best_of"),
        (r#""echo":true"#, UnsupportedParameter, "echo"),
        (r#""suffix":"}""#, UnsupportedParameter, "suffix"),
        (r#""logprobs":0"#, UnsupportedParameter, "logprobs"),
        (r#""max_tokens":0"#, InvalidValue, "max_tokens"),
        (r#""max_tokens":1.5"#, InvalidValue, "max_tokens"),
        (r#""stop":7"#, InvalidValue, "stop"),
    ] {
        let body = format!(r#"{{"model":"auto","prompt":"x",{field}}}"#);
        assert_eq!(refused(&body), (code, param.to_owned()), "{field}");
    }
}

#[test]
fn prompt_must_be_one_text() {
    use ErrorCode::{InvalidValue, UnsupportedParameter};
    for (prompt, code) in [
        ("[1,2,3]", UnsupportedParameter),
        ("[[1,2],[3]]", UnsupportedParameter),
        (r#"["a","b"]"#, UnsupportedParameter),
        (r#"["a",7]"#, UnsupportedParameter),
        ("[]", InvalidValue),
        (r#""""#, InvalidValue),
        ("null", InvalidValue),
        ("7", InvalidValue),
        ("{}", InvalidValue),
    ] {
        let body = format!(r#"{{"model":"auto","prompt":{prompt}}}"#);
        assert_eq!(refused(&body), (code, "prompt".to_owned()), "{prompt}");
    }
    assert_eq!(refused(r#"{"model":"auto"}"#), (InvalidValue, "prompt".to_owned()));
    assert_eq!(refused(r#"{"prompt":"x"}"#), (InvalidValue, "model".to_owned()));
    assert_eq!(refused("[]").0, ErrorCode::InvalidJson);
    assert_eq!(refused("").0, ErrorCode::InvalidJson);
}
