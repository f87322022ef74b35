use serde_json::{Value, json};

use super::*;
use crate::{
    error::ErrorCode,
    peer::Remedy,
    peer::child::Speaker as _,
    peer::cli::{
        hear,
        testing::{bare, call, delta, ends, failure, flush, heard, lines, shell, success, text},
    },
};
use crate::{
    model::{Usage, UsageSource},
    peer::child::Prompt,
};

#[test]
fn complete_run() {
    let events = [
        json!({ "type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/w",
            "session_id": "s-1", "model": "Composer 2", "permissionMode": "default" }),
        json!({ "type": "user", "session_id": "s-1",
            "message": { "role": "user", "content": [{ "type": "text", "text": "hi" }] } }),
        json!({ "type": "thinking", "subtype": "delta", "text": "Let me", "timestamp_ms": 1 }),
        json!({ "type": "thinking", "subtype": "delta", "text": " see", "timestamp_ms": 2 }),
        json!({ "type": "thinking", "subtype": "completed", "timestamp_ms": 3 }),
        delta("I "),
        delta("look."),
        flush("I look."),
        shell(),
        call(
            "completed",
            &json!({ "shellToolCall": { "args": { "command": "ls -la" },
            "result": { "failure": { "exitCode": 2, "stderr": "denied" } } } }),
        ),
        call(
            "started",
            &json!({ "mcpToolCall": { "args": {
            "providerIdentifier": "ibeam", "toolName": "weather", "args": {} } } }),
        ),
        call(
            "completed",
            &json!({ "mcpToolCall": {
            "args": { "providerIdentifier": "ibeam", "toolName": "weather" },
            "result": { "success": { "content": [], "isError": true } } } }),
        ),
        delta("Done."),
        bare("Done."),
        json!({ "type": "result", "subtype": "success", "duration_ms": 1, "is_error": false,
            "result": "I look.Done.", "session_id": "s-1", "request_id": "r",
            "usage": { "inputTokens": 120, "outputTokens": 30, "cacheReadTokens": 100,
                "cacheWriteTokens": 5, "reasoningTokens": 7 } }),
    ];
    insta::assert_debug_snapshot!(heard(&events));
}

#[test]
fn short_event_formats_are_read() {
    let events = [
        json!({ "type": "thinking", "text": "Let me think..." }),
        json!({ "type": "assistant", "text": "no" }),
        json!({ "type": "assistant", "text": "no" }),
        json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": " way" }] } }),
        json!({ "type": "tool_call", "call_id": "call_123",
            "tool_call": { "BashToolCall": { "args": { "command": "ls" } } } }),
        json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "Here" }] } }),
        success("nono wayHere"),
    ];
    insta::assert_debug_snapshot!(heard(&events));
}

#[test]
fn thinking_blocks_in_a_message_are_reasoning() {
    let blocks = json!([
        { "type": "thinking", "thinking": "hm" },
        { "type": "text", "text": "yes" },
        { "type": "redacted_thinking", "data": "…" },
        { "text": " sir" },
    ]);
    let event = json!({ "type": "assistant", "message": { "content": blocks } });
    let as_text = json!({ "type": "assistant", "message": { "content": "plain" } });
    insta::assert_debug_snapshot!(heard(&[event, shell(), as_text, success("")]));
}

#[test]
fn unknown_events_are_counted_and_nothing_is_lost() {
    let mut speaker = CliSpeaker::default();
    let long = format!("{{\"type\":\"{}\"}}\n", "x".repeat(crate::codec::ndjson::MAX_LINE));
    let events = [
        json!({ "type": "retry", "after": 5 }),
        json!({ "type": "system", "subtype": "new" }),
        json!({ "type": "tool_call", "subtype": "started" }),
        json!({ "type": "assistant", "subtype": 7, "session_id": [], "usage": "x", "is_error": 1,
            "tool_call": 5, "text": {}, "error": null,
            "message": { "role": 1, "content": [5, { "type": "text", "text": "kept" }] } }),
        json!({ "no": "type" }),
        json!(["result", "success"]),
    ];
    speaker.on_output(Bytes::from(lines(&events)));
    speaker.on_output(Bytes::from_static(b"Warning: noise\n\n{\"type\":\"assistant\",\n"));
    speaker.on_output(Bytes::from(long));
    speaker.on_output(Bytes::from(lines(&[success("kept")])));
    let heard: Vec<ChildEvent> = std::iter::from_fn(|| speaker.poll_heard()).collect();
    assert_eq!(text(&heard), "kept");
    assert_eq!(heard.last(), Some(&ChildEvent::Ended(FinishReason::Stop)));
    assert_eq!(speaker.unknown(), 3 + 1 + 2 + 2 + 1);
}

#[test]
fn oversized_result_line_ends_the_answer() {
    let long = success(&"x".repeat(crate::codec::ndjson::MAX_LINE));
    let last = |events: &[Value], code| {
        let mut speaker = CliSpeaker::default();
        speaker.on_output(Bytes::from(lines(events)));
        speaker.on_exit(&Exit { code: Some(code), stderr: String::new() });
        std::iter::from_fn(|| speaker.poll_heard()).last()
    };
    let ended = Some(ChildEvent::Ended(FinishReason::Stop));
    assert_eq!(last(&[delta("a"), long.clone()], 0), ended);
    // It failed, there is no answer, or something else was too long.
    for (events, code) in [
        (vec![delta("a"), long.clone()], 1),
        (vec![long.clone()], 0),
        (vec![long.clone(), delta("a")], 0),
    ] {
        assert!(matches!(last(&events, code), Some(ChildEvent::Failed(_))));
    }
}

#[test]
fn lone_surrogate_loses_only_itself() {
    let line = br#"{"type":"assistant","text":"a\ud83d b"}"#;
    let heard = hear(&[line, b"\n"]);
    assert!(text(&heard).starts_with('a') && text(&heard).ends_with(" b"));
}

#[test]
fn valid_session_id_is_reported_once() {
    let named = |name: &str| json!({ "type": "system", "subtype": "init", "session_id": name });
    let long = "x".repeat(300);
    let events: Vec<Value> =
        ["", "-rf", "a b", "a\nb", &long, "s-1", "s-1", "s-2"].iter().map(|n| named(n)).collect();
    let heard = heard(&events);
    let sessions: Vec<&ChildEvent> =
        heard.iter().filter(|h| matches!(h, ChildEvent::Session(_))).collect();
    let named = |name: &str| ChildEvent::Session(name.to_owned());
    assert_eq!(sessions, [&named("s-1"), &named("s-2")]);
}

#[test]
fn result_is_the_answer_if_no_text_was_streamed() {
    let heard = heard(&[success("all of it")]);
    assert_eq!(
        heard,
        [ChildEvent::Text("all of it".to_owned()), ChildEvent::Ended(FinishReason::Stop)]
    );
}

#[test]
fn empty_answer_without_tool_calls_is_a_failure() {
    let nothing = heard(&[success("")]);
    let empty = failure(&nothing);
    assert_eq!(
        (empty.error.code, empty.remedy),
        (ErrorCode::UpstreamError, Remedy::FreshConversation)
    );
    let heard = heard(&[shell(), success("")]);
    assert_eq!(heard.last(), Some(&ChildEvent::Ended(FinishReason::Stop)));
}

#[test]
fn cached_tokens_are_added_to_the_input_if_missing() {
    let usage = |usage: Value| {
        let result = json!({ "type": "result", "result": "x", "usage": usage });
        heard(&[result]).into_iter().find_map(|heard| match heard {
            ChildEvent::Usage(usage) => Some(usage),
            _ => None,
        })
    };
    let left_out = usage(json!({ "inputTokens": 5, "outputTokens": 3, "cacheReadTokens": 100,
        "cacheWriteTokens": 10, "reasoningTokens": 9 }));
    let want = Usage {
        input: 115,
        output: 3,
        cache_read: 100,
        cache_write: 10,
        reasoning: 3,
        source: UsageSource::Backend,
    };
    assert_eq!(left_out, Some(want));
    let within = usage(json!({ "inputTokens": 200, "outputTokens": "?", "cacheReadTokens": 100 }));
    assert_eq!(within.map(|usage| (usage.input, usage.output)), Some((200, 0)));
    assert_eq!(usage(json!({ "cacheReadTokens": 1 })), None);
    assert_eq!(usage(json!([])), None);
}

#[test]
fn errors_are_read_from_results_and_error_events() {
    let rows = [
        (
            json!({ "type": "result", "subtype": "error", "is_error": true,
                "error": { "message": "Usage limit reached", "code": "x", "details": {} } }),
            ErrorCode::InsufficientQuota,
        ),
        (
            json!({ "type": "result", "subtype": "success", "is_error": true,
                "result": "Unauthorized" }),
            ErrorCode::NotAuthenticated,
        ),
        (
            json!({ "type": "result", "subtype": "error_during_execution",
                "error": { "code": "unavailable" } }),
            ErrorCode::Unavailable,
        ),
        (json!({ "type": "error", "message": "fetch failed" }), ErrorCode::Unavailable),
        (json!({ "type": "error", "error": "unknown model" }), ErrorCode::ModelNotFound),
        (
            json!({ "type": "error", "error": { "message": "Workspace trust required" } }),
            ErrorCode::PolicyDenied,
        ),
        (json!({ "type": "error" }), ErrorCode::UpstreamError),
    ];
    for (event, code) in rows {
        let heard = heard(&[delta("some"), event.clone(), success("late")]);
        assert_eq!(failure(&heard).error.code, code, "{event}");
        assert_eq!((ends(&heard), text(&heard).as_str()), (1, "some"));
    }
}

#[test]
fn exit_without_a_result_is_not_a_clean_stop() {
    let run = |code: Option<i32>, stderr: &str| {
        let mut speaker = CliSpeaker::default();
        let init = json!({ "type": "system", "subtype": "init", "session_id": "s-1" });
        // The words of the model are never taken for a complaint.
        speaker.on_output(Bytes::from(lines(&[init, delta("not logged in, usage limit")])));
        speaker.on_exit(&Exit { code, stderr: stderr.to_owned() });
        speaker.on_exit(&Exit::default());
        let heard: Vec<ChildEvent> = std::iter::from_fn(|| speaker.poll_heard()).collect();
        assert_eq!(ends(&heard), 1);
        failure(&heard).error.code
    };
    assert_eq!(run(Some(0), ""), ErrorCode::UpstreamClosed);
    assert_eq!(run(None, ""), ErrorCode::UpstreamClosed);
    assert_eq!(run(Some(1), "odd"), ErrorCode::UpstreamError);
    assert_eq!(run(Some(1), "Error: fetch failed"), ErrorCode::Unavailable);
    let mirrored = format!("{}", delta("not logged in, usage limit"));
    assert_eq!(run(Some(0), &mirrored), ErrorCode::UpstreamClosed);
}

#[test]
fn interactive_prompt_is_an_error() {
    let of = |output: &str| failure(&hear(&[output.as_bytes()])).error.code;
    assert_eq!(of("\x1b[33m⚠ Workspace Trust Required\x1b[0m\n"), ErrorCode::PolicyDenied);
    assert_eq!(of("Press any key to log in..."), ErrorCode::NotAuthenticated);
}

#[test]
fn session_is_lost_only_if_one_was_resumed() {
    let of = |resume: Option<&str>| {
        let mut speaker = CliSpeaker::default();
        let ask = ChildRequest { resume: resume.map(str::to_owned), ..ChildRequest::default() };
        speaker.begin(&Ready::default(), &ask);
        speaker.on_exit(&Exit { code: Some(1), stderr: "Chat s-1 not found".to_owned() });
        let heard: Vec<ChildEvent> = std::iter::from_fn(|| speaker.poll_heard()).collect();
        failure(&heard).remedy
    };
    assert_eq!((of(Some("s-1")), of(None)), (Remedy::FreshConversation, Remedy::None));
}

#[test]
fn last_line_may_lack_its_newline() {
    let whole = lines(&[delta("a"), success("a")]);
    assert_eq!(hear(&[whole.trim_end().as_bytes()]), hear(&[whole.as_bytes()]));
}

/// All input of the child, as text, and the lengths of its pieces.
fn written(speaker: &mut CliSpeaker) -> (String, Vec<usize>) {
    let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
    while let Some(word) = speaker.poll_send() {
        match word {
            ToChild::Input(piece) => {
                pieces.push(piece.len());
                bytes.extend_from_slice(&piece);
            }
            ToChild::CloseInput => {
                assert!(speaker.poll_send().is_none());
                return (String::from_utf8(bytes).unwrap(), pieces);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the input stays open");
}

#[test]
fn prompt_is_written_in_pieces_before_input_is_closed() {
    let mut speaker = CliSpeaker::default();
    assert!(speaker.poll_send().is_none());
    let text = "ü".repeat(PIECE);
    let prompt = Prompt { text: text.clone(), images: Vec::new() };
    speaker.begin(&Ready::default(), &ChildRequest { prompt, ..ChildRequest::default() });
    assert_eq!(written(&mut speaker), (text, vec![PIECE, PIECE]));
}

#[test]
fn cancel_closes_the_input_and_ends_as_cancelled() {
    let mut speaker = CliSpeaker::default();
    let prompt = Prompt { text: "x".repeat(2 * PIECE), images: Vec::new() };
    speaker.begin(&Ready::default(), &ChildRequest { prompt, ..ChildRequest::default() });
    assert!(matches!(speaker.poll_send(), Some(ToChild::Input(_))));
    speaker.cancel();
    assert!(matches!(speaker.poll_send(), Some(ToChild::CloseInput)));
    assert!(speaker.poll_send().is_none());
    speaker.on_exit(&Exit { code: None, stderr: "not logged in".to_owned() });
    let heard: Vec<ChildEvent> = std::iter::from_fn(|| speaker.poll_heard()).collect();
    assert_eq!(failure(&heard).error.code, ErrorCode::Cancelled);
}
