//! How a turn over ACP ends: by itself, by a cancel, or by a failure.

use super::*;

#[test]
fn every_stop_reason_ends_the_run() {
    for (reason, ended) in [
        ("end_turn", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("a_new_one", FinishReason::Stop),
    ] {
        let mut run = Run::prompting();
        run.update(&chunk("x"));
        run.result(&json!({"stopReason": reason}));
        assert_eq!(run.heard(), [text("x"), ChildEvent::Ended(ended)], "{reason}");
        assert_eq!(run.sent(), [json!("release")], "{reason}");
    }
    for (reason, expected) in [
        ("refusal", (ErrorCode::PolicyDenied, Remedy::None)),
        ("cancelled", (ErrorCode::Cancelled, Remedy::None)),
        ("max_turn_requests", (ErrorCode::UpstreamError, Remedy::None)),
    ] {
        let mut run = Run::prompting();
        run.update(&chunk("x"));
        run.result(&json!({"stopReason": reason}));
        let (code, remedy, _) = run.failed();
        assert_eq!((code, remedy), expected, "{reason}");
        assert_eq!(run.sent(), [json!("release")], "{reason}");
    }
}

#[test]
fn empty_answer_is_a_failure() {
    let thought =
        json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}});
    let hosted = json!({"sessionUpdate": "tool_call", "toolCallId": "t",
        "rawInput": {"providerIdentifier": "ibeam", "toolName": "x", "args": {}}});
    for (update, empty) in
        [(chunk(""), true), (thought, true), (chunk(" "), false), (hosted, false)]
    {
        let mut run = Run::prompting();
        run.update(&update);
        run.result(&json!({"stopReason": "end_turn"}));
        let last = run.heard().pop().unwrap();
        match last {
            ChildEvent::Failed(failure) => {
                assert!(empty, "{update}");
                assert_eq!(failure.error.code, ErrorCode::UpstreamError);
                assert_eq!(failure.remedy, Remedy::FreshConversation);
            }
            last => {
                assert_eq!(
                    (last, empty),
                    (ChildEvent::Ended(FinishReason::Stop), false),
                    "{update}"
                )
            }
        }
    }
}

#[test]
fn usage_comes_before_the_ending() {
    let usage = Usage {
        input: 30,
        output: 5,
        cache_read: 20,
        cache_write: 1,
        reasoning: 2,
        source: UsageSource::Backend,
    };
    let ours = json!({"inputTokens": 30, "outputTokens": 5, "cacheReadTokens": 20,
        "cacheWriteTokens": 1, "reasoningTokens": 2});
    let acp = json!({"totalTokens": 35, "inputTokens": 30, "outputTokens": 5,
        "cachedReadTokens": 20, "cachedWriteTokens": 1, "thoughtTokens": 2});
    for result in [
        json!({"stopReason": "end_turn", "usage": acp}),
        json!({"stopReason": "end_turn", "_meta": {"usage": ours}}),
    ] {
        let mut run = Run::prompting();
        run.update(&chunk("x"));
        run.result(&result);
        let expected = [text("x"), ChildEvent::Usage(usage), ChildEvent::Ended(FinishReason::Stop)];
        assert_eq!(run.heard(), expected);
    }
}

#[test]
fn other_updates_only_show_that_the_agent_is_alive() {
    let mut run = Run::prompting();
    for kind in ["plan", "current_mode_update", "available_commands_update", "session_info_update"]
    {
        run.update(&json!({"sessionUpdate": kind, "entries": []}));
        assert_eq!(run.heard(), [ChildEvent::Alive], "{kind}");
    }
    assert_eq!(run.0.unknown(), 0);
    for update in [
        json!({"sessionUpdate": "a_new_one"}),
        json!({"sessionUpdate": 7}),
        json!("noise"),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": ""}}),
    ] {
        run.update(&update);
        assert_eq!(run.heard(), [ChildEvent::Alive], "{update}");
    }
    assert_eq!(run.0.unknown(), 4);
    run.say(&json!({"method": "cursor/new_thing", "params": {}}));
    run.0.on_output("some noise\n\n".into());
    run.say(&json!({"id": 999, "result": {}}));
    assert_eq!(run.0.unknown(), 7);
    // An agent below this one.
    let params = json!({"sessionId": "other", "update": chunk("not the answer")});
    run.say(&json!({"method": "session/update", "params": params}));
    assert_eq!(run.heard(), [ChildEvent::Alive]);
    assert!(run.sent().is_empty());
}

#[test]
fn every_request_of_the_agent_is_answered() {
    for (method, result) in [
        ("cursor/update_todos", Some(json!({}))),
        ("cursor/task", Some(json!({}))),
        ("fs/read_text_file", None),
        ("terminal/create", None),
        ("cursor/new_thing", None),
    ] {
        let mut run = Run::prompting();
        run.say(&json!({"jsonrpc": "2.0", "id": "a\nb", "method": method, "params": {}}));
        let sent = run.one();
        assert_eq!(sent["id"], "a\nb");
        match result {
            Some(result) => assert_eq!(sent["result"], result),
            None => {
                assert_eq!(sent["error"]["code"], -32601);
                assert!(sent["error"]["message"].as_str().unwrap().contains(method), "{sent}");
            }
        }
        assert_eq!(run.heard(), [ChildEvent::Alive]);
    }
    let mut run = Run::prompting();
    run.say(&json!({"id": 0, "method": "cursor/ask_question", "params": {"questions": []}}));
    let asked = run.one();
    assert_eq!(asked["result"]["outcome"]["outcome"], "skipped");
    assert_eq!(asked["result"]["answers"], json!([]));
    run.say(&json!({"id": 1, "method": "cursor/create_plan", "params": {"plan": "x"}}));
    let planned = run.one();
    assert_eq!(planned["result"]["outcome"]["outcome"], "rejected");
    assert_eq!(planned["result"]["approved"], false);
}

#[test]
fn cancelled_prompt_is_waited_for() {
    let mut run = Run::prompting();
    run.update(&chunk("x"));
    run.0.cancel();
    run.0.cancel();
    let sent = run.one();
    assert_eq!((&sent["method"], &sent["id"]), (&json!("session/cancel"), &Value::Null));
    assert_eq!(sent["params"], json!({"sessionId": "s1"}));
    // What still comes is not wanted, and what it asks for is not given.
    run.update(&chunk("y"));
    let options = json!([{"optionId": "allow-once", "kind": "allow_once"}]);
    let params = json!({"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": options});
    run.say(&json!({"id": 5, "method": "session/request_permission", "params": params}));
    assert_eq!(run.one()["result"], json!({"outcome": {"outcome": "cancelled"}}));
    run.result(&json!({"stopReason": "end_turn"}));
    let heard = run.heard();
    assert!(!heard.contains(&text("y")));
    let Some(ChildEvent::Failed(failure)) = heard.last() else { panic!("{heard:?}") };
    assert_eq!(failure.error.code, ErrorCode::Cancelled);
    assert_eq!(run.sent(), [json!("release")]);
}

#[test]
fn cancel_before_the_prompt_fails_at_once() {
    let mut run = Run::begin(&greeted(), &asking("x"));
    assert_eq!(run.method(), "session/new");
    run.0.cancel();
    assert_eq!(run.failed().0, ErrorCode::Cancelled);
    run.result(&json!({"sessionId": "s1"}));
    assert!(run.sent().is_empty() && run.heard().is_empty());
}

#[test]
fn prompt_error_is_classified_by_its_message() {
    for (words, code, remedy) in [
        ("You've hit your usage limit", ErrorCode::InsufficientQuota, Remedy::None),
        ("Cannot use this model: x", ErrorCode::ModelNotFound, Remedy::None),
        ("fetch failed", ErrorCode::Unavailable, Remedy::Retry),
        ("Upgrade your plan to continue", ErrorCode::PlanRequired, Remedy::None),
        ("something else", ErrorCode::UpstreamError, Remedy::None),
        ("Session x not found", ErrorCode::UpstreamError, Remedy::None),
    ] {
        let mut run = Run::prompting();
        let error = json!({"code": -32000, "message": words});
        run.say(&json!({"id": run.0.last_id, "error": error}));
        let got = run.failed();
        assert_eq!((got.0, got.1), (code, remedy), "{words}");
        assert!(run.sent().is_empty(), "a child that failed is not used again");
    }
    // An answer that cannot say which request it is for can only be for this one.
    let mut run = Run::prompting();
    run.say(&json!({"id": null, "error": {"code": -32700, "message": "Parse error"}}));
    assert_eq!(run.failed().0, ErrorCode::UpstreamError);
}

#[test]
fn early_exit_is_a_failure() {
    let exit = |stderr: &str| Exit { code: Some(1), stderr: stderr.to_owned() };
    // Nothing was heard: another try.
    let mut run = Run::prompting();
    run.0.on_exit(&exit(""));
    let (code, remedy, message) = run.failed();
    assert_eq!((code, remedy), (ErrorCode::UpstreamClosed, Remedy::Retry));
    assert!(message.contains("exited with code 1"), "{message}");
    // Some was. Whether it can be taken back is not known here.
    let mut run = Run::prompting();
    run.update(&chunk("x"));
    run.0.on_exit(&Exit::default());
    assert_eq!(run.failed().1, Remedy::Retry);
    // It went while a conversation was to be opened again.
    let mut run = Run::begin(&greeted(), &resuming("old"));
    run.0.on_exit(&exit("boom"));
    assert_eq!(run.failed().1, Remedy::FreshConversation);
    // It says why.
    let mut run = Run::begin(&greeted(), &asking("x"));
    run.0.on_exit(&exit("\x1b[31mError: Not logged in\x1b[0m"));
    let (code, remedy, message) = run.failed();
    assert_eq!((code, remedy), (ErrorCode::NotAuthenticated, Remedy::None));
    assert!(message.contains("--backend acp"), "{message}");
    // It was cancelled.
    let mut run = Run::prompting();
    run.0.cancel();
    run.0.on_exit(&exit(""));
    assert_eq!(run.failed().0, ErrorCode::Cancelled);
    // Its last line has no end.
    let mut run = Run::prompting();
    run.update(&chunk("x"));
    let last = json!({"id": run.0.last_id, "result": {"stopReason": "end_turn"}});
    run.0.on_output(last.to_string().into());
    run.0.on_exit(&exit(""));
    assert_eq!(run.heard(), [text("x"), ChildEvent::Ended(FinishReason::Stop)]);
}

#[test]
fn nothing_comes_after_the_end() {
    let mut run = Run::prompting();
    run.update(&chunk("x"));
    run.result(&json!({"stopReason": "end_turn"}));
    run.heard();
    run.sent();
    run.update(&chunk("late"));
    run.result(&json!({"stopReason": "end_turn"}));
    run.say(&json!({"id": 1, "method": "session/request_permission", "params": {}}));
    run.0.cancel();
    run.0.on_exit(&Exit::default());
    assert!(run.heard().is_empty() && run.sent().is_empty());
}
