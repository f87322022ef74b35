use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;
use crate::{
    error::ErrorCode,
    model::{AgentMode, Image, ImageSource, Usage, UsageSource},
    peer::child::{HostAddress, Prompt, Speaker as _},
};

const BEARER: &str = "b34r3r-of-this-test";

/// A speaker, and the agent's side of it.
struct Run(AcpSpeaker);

impl Run {
    fn begin(ready: &Ready, ask: &ChildRequest) -> Self {
        let mut speaker = AcpSpeaker::new(ToolPolicy::default());
        speaker.begin(ready, ask);
        Self(speaker)
    }

    /// Greeted, opened and asked.
    fn prompting() -> Self {
        let mut run = Self::begin(&greeted(), &asking("hello"));
        run.answer("session/new", &json!({"sessionId": "s1"}));
        assert_eq!(run.method(), "session/prompt");
        assert_eq!(run.heard(), [ChildEvent::Session("s1".to_owned())]);
        run
    }

    fn sent(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.0.poll_send())
            .map(|sent| match sent {
                ToChild::Input(line) => serde_json::from_slice(&line).unwrap(),
                ToChild::Release => json!("release"),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// The one message that was sent.
    fn one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn method(&mut self) -> String {
        self.one()["method"].as_str().unwrap().to_owned()
    }

    fn heard(&mut self) -> Vec<ChildEvent> {
        std::iter::from_fn(|| self.0.poll_heard()).collect()
    }

    fn say(&mut self, message: &Value) {
        self.0.on_output(format!("{message}\n").into());
    }

    /// Answers the request that waits, which must be this one.
    fn answer(&mut self, method: &str, result: &Value) -> Value {
        let request = self.one();
        assert_eq!(request["method"], method);
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
        request["params"].clone()
    }

    fn refuse(&mut self, method: &str, code: i64, message: &str) {
        let request = self.one();
        assert_eq!(request["method"], method);
        let error = json!({"code": code, "message": message});
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    fn result(&mut self, result: &Value) {
        let id = self.0.last_id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn update(&mut self, update: &Value) {
        let params = json!({"sessionId": "s1", "update": update});
        self.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn failed(&mut self) -> (ErrorCode, Remedy, String) {
        match self.heard().pop() {
            Some(ChildEvent::Failed(PeerFailure { error, remedy })) => {
                (error.code, remedy, error.message.into_owned())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn greeted() -> Ready {
    Ready { workspace: "/w".to_owned(), greeted: true, ..Ready::default() }
}

fn asking(text: &str) -> ChildRequest {
    ChildRequest {
        prompt: Prompt { text: text.to_owned(), images: Vec::new() },
        ..ChildRequest::default()
    }
}

fn resuming(name: &str) -> ChildRequest {
    ChildRequest { resume: Some(name.to_owned()), ..asking("and now?") }
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

fn text(words: &str) -> ChildEvent {
    ChildEvent::Text(words.to_owned())
}

#[test]
fn section_9_a_session_in_another_mode_is_set_to_the_mode_of_the_request() {
    let opened = |mode: &str| json!({"sessionId": "s1", "modes": {"currentModeId": mode}});
    for (current, wanted, sets) in [
        ("agent", AgentMode::Plan, true),
        ("plan", AgentMode::Agent, true),
        ("ask", AgentMode::Ask, false),
    ] {
        let mut run = Run::begin(&greeted(), &ChildRequest { mode: wanted, ..asking("x") });
        run.answer("session/new", &opened(current));
        if sets {
            let params = run.answer("session/set_mode", &json!({}));
            assert_eq!(params, json!({"sessionId": "s1", "modeId": wanted.name()}));
        }
        run.answer("session/prompt", &json!({"stopReason": "end_turn"}));
    }
    // One that was open already has it, and nothing is sent in another mode than asked for.
    let ready = Ready { session: Some("s1".to_owned()), ..greeted() };
    let ask = ChildRequest { mode: AgentMode::Plan, ..resuming("s1") };
    Run::begin(&ready, &ask).answer("session/prompt", &json!({"stopReason": "end_turn"}));
    let mut run = Run::begin(&greeted(), &ask);
    run.answer("session/load", &opened("agent"));
    run.refuse("session/set_mode", -32601, "Method not found");
    assert_eq!(run.failed().1, Remedy::None);
}

#[test]
fn complete_run_from_initialize_to_release() {
    let host = HostAddress {
        url: "http://127.0.0.1:1/mcp/x".to_owned(),
        bearer: SecretString::from(BEARER),
    };
    let ready = Ready { workspace: "/w".to_owned(), host: Some(host), ..Ready::default() };
    let ask = ChildRequest { model: "composer-2-fast".to_owned(), ..asking("hello") };
    let mut run = Run::begin(&ready, &ask);
    let greeting = run.answer(
        "initialize",
        &json!({
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": true, "mcpCapabilities": {"http": true}},
            "authMethods": [{"id": "cursor_login", "name": "Cursor"}],
        }),
    );
    assert_eq!(
        greeting,
        json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false},
                "terminal": false,
            },
            "clientInfo": {"name": "ibeam", "title": "ibeam", "version": env!("CARGO_PKG_VERSION")},
        })
    );
    let models =
        [json!({"modelId": "composer-2[fast=false]"}), json!({"modelId": "composer-2[fast=true]"})];
    let opened = run.answer(
        "session/new",
        &json!({"sessionId": "s1", "models": {"currentModelId": "x", "availableModels": models}}),
    );
    assert_eq!(
        opened,
        json!({
            "cwd": "/w",
            "mcpServers": [{
                "type": "http",
                "name": "ibeam",
                "url": "http://127.0.0.1:1/mcp/x",
                "headers": [{"name": "Authorization", "value": format!("Bearer {BEARER}")}],
            }],
        })
    );
    let chosen = run.answer("session/set_config_option", &json!({"configOptions": []}));
    assert_eq!(
        chosen,
        json!({"sessionId": "s1", "configId": "model", "value": "composer-2[fast=true]"})
    );
    let prompt = run.one();
    assert_eq!(prompt["method"], "session/prompt");
    assert_eq!(
        prompt["params"],
        json!({"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]})
    );
    run.update(
        &json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
    );
    run.update(&chunk("Hel"));
    run.update(&chunk(""));
    run.update(&chunk("lo"));
    run.result(&json!({"stopReason": "end_turn"}));
    assert_eq!(
        run.heard(),
        [
            ChildEvent::Session("s1".to_owned()),
            ChildEvent::Thought("hm".to_owned()),
            text("Hel"),
            ChildEvent::Alive,
            text("lo"),
            ChildEvent::Ended(FinishReason::Stop),
        ]
    );
    assert_eq!(run.sent(), [json!("release")]);
    assert_eq!(run.0.unknown(), 0);
}

#[test]
fn debug_output_has_neither_bearer_nor_prompt() {
    let host = HostAddress { url: "http://h".to_owned(), bearer: SecretString::from(BEARER) };
    let ready = Ready { host: Some(host), ..greeted() };
    let mut run = Run::begin(&ready, &asking("a secret question"));
    let sent = run.0.poll_send().unwrap();
    let ToChild::Input(line) = &sent else { panic!("{sent:?}") };
    assert!(String::from_utf8_lossy(line).contains(BEARER));
    for shown in [format!("{:?}", run.0), format!("{:#?}", run.0), format!("{sent:?}")] {
        assert!(!shown.contains(BEARER) && !shown.contains("question"), "{shown}");
    }
}

#[test]
fn no_mcp_server_without_host_or_http_support() {
    let mut run = Run::begin(&greeted(), &asking("x"));
    assert_eq!(run.one()["params"], json!({"cwd": "/w", "mcpServers": []}));

    let host = HostAddress { url: "http://h".to_owned(), bearer: SecretString::from(BEARER) };
    let ready = Ready { host: Some(host), greeted: false, ..greeted() };
    let mut run = Run::begin(&ready, &asking("x"));
    let able = json!({"mcpCapabilities": {"http": false}});
    run.answer("initialize", &json!({"protocolVersion": 1, "agentCapabilities": able}));
    assert_eq!(run.one()["params"]["mcpServers"], json!([]));
}

#[test]
fn other_protocol_version_is_an_error() {
    let ready = Ready { greeted: false, ..greeted() };
    let mut run = Run::begin(&ready, &asking("x"));
    run.answer("initialize", &json!({"protocolVersion": 2}));
    let (code, remedy, message) = run.failed();
    assert_eq!((code, remedy), (ErrorCode::UpstreamError, Remedy::None));
    assert!(message.contains("version 2"), "{message}");
    assert!(run.sent().is_empty());
}

#[test]
fn images_go_as_base64() {
    let mut ask = asking("look");
    let data = vec![0xff, 0xd8, 0xff].into();
    let source = ImageSource::Inline { mime: "image/jpeg".to_owned(), data };
    ask.prompt.images.push(Image { source });
    let mut run = Run::begin(&greeted(), &ask);
    run.answer("session/new", &json!({"sessionId": "s1"}));
    assert_eq!(
        run.one()["params"]["prompt"],
        json!([
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/jpeg", "data": "/9j/"},
        ])
    );

    // One that takes none is not asked as if they were not there.
    let mut run = Run::begin(&Ready { greeted: false, ..greeted() }, &ask);
    run.answer("initialize", &json!({"protocolVersion": 1, "agentCapabilities": {}}));
    assert_eq!(run.failed().0, ErrorCode::UnsupportedParameter);
    assert_eq!(run.sent(), [json!("release")]);
}

#[test]
fn sign_in_is_tried_once_and_only_on_demand() {
    for code in [-32000, -32001] {
        let mut run = Run::begin(&greeted(), &asking("x"));
        run.refuse("session/new", code, "Authentication required");
        let asked = run.answer("authenticate", &json!({}));
        assert_eq!(asked, json!({"methodId": "cursor_login"}));
        run.refuse("session/new", code, "Authentication required");
        let (code, remedy, message) = run.failed();
        assert_eq!((code, remedy), (ErrorCode::NotAuthenticated, Remedy::None));
        assert!(message.contains("`ibeam login --backend acp`"), "{message}");
        assert!(run.sent().is_empty());
    }

    let mut run = Run::begin(&greeted(), &asking("x"));
    run.refuse("session/new", -32000, "Not logged in");
    run.refuse("authenticate", -32001, "no credentials");
    assert_eq!(run.failed().0, ErrorCode::NotAuthenticated);

    let mut run = Run::begin(&greeted(), &resuming("old"));
    run.refuse("session/load", -32001, "");
    run.answer("authenticate", &Value::Null);
    run.answer("session/load", &Value::Null);
    assert_eq!(run.method(), "session/prompt");
}

#[test]
fn replayed_history_is_not_part_of_the_answer() {
    let mut run = Run::begin(&greeted(), &resuming("s1"));
    let load = run.one();
    assert_eq!(load["method"], "session/load");
    assert_eq!(load["params"], json!({"sessionId": "s1", "cwd": "/w", "mcpServers": []}));
    run.update(
        &json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "q"}}),
    );
    run.update(&chunk("an old answer"));
    run.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "title": "ls"}),
    );
    run.say(&json!({"method": "cursor/update_todos", "params": {}}));
    run.result(&json!({"modes": {}}));
    assert_eq!(run.method(), "session/prompt");
    run.update(&chunk("new"));
    run.result(&json!({"stopReason": "end_turn"}));
    assert_eq!(
        run.heard(),
        [
            ChildEvent::Alive,
            ChildEvent::Session("s1".to_owned()),
            text("new"),
            ChildEvent::Ended(FinishReason::Stop)
        ]
    );
    assert_eq!(run.sent(), [json!("release")]);
}

#[test]
fn open_session_is_reused() {
    let ready = Ready { session: Some("s1".to_owned()), ..greeted() };
    let mut run = Run::begin(&ready, &resuming("s1"));
    assert_eq!(run.method(), "session/prompt");
    assert_eq!(run.heard(), [ChildEvent::Session("s1".to_owned())]);

    // With a model, which may be another one than before.
    let ask = ChildRequest { model: "gpt-5.4-high".to_owned(), ..resuming("s1") };
    let mut run = Run::begin(&ready, &ask);
    let set = run.answer("session/set_config_option", &json!({}));
    assert_eq!(set, json!({"sessionId": "s1", "configId": "model", "value": "gpt-5.4-high"}));
    assert_eq!(run.method(), "session/prompt");

    // The list has the name of an option that is called otherwise.
    let mut run = Run::begin(&ready, &ask);
    run.refuse("session/set_config_option", -32602, "Invalid params");
    let models = json!({"availableModels": [{"modelId": "gpt-5.4[reasoning=high]"}]});
    run.answer("session/load", &json!({"models": models}));
    let set = run.answer("session/set_config_option", &json!({}));
    assert_eq!(set["value"], "gpt-5.4[reasoning=high]");
    assert_eq!(run.method(), "session/prompt");
    assert_eq!(run.heard(), [ChildEvent::Session("s1".to_owned())]);

    // Another one than the open one is loaded.
    let mut run = Run::begin(&ready, &resuming("s2"));
    assert_eq!(run.method(), "session/load");
}

#[test]
fn agent_without_config_options_is_prompted_anyway() {
    let ask = ChildRequest { model: "b".to_owned(), ..asking("x") };
    let mut run = Run::begin(&greeted(), &ask);
    let models =
        json!({"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]});
    run.answer("session/new", &json!({"sessionId": "s1", "models": models}));
    run.refuse("session/set_config_option", METHOD_NOT_FOUND, "Method not found");
    assert_eq!(run.method(), "session/prompt");
}

#[test]
fn unknown_model_error_lists_the_available_ones() {
    let ask = ChildRequest { model: "nope".to_owned(), ..asking("x") };
    let mut run = Run::begin(&greeted(), &ask);
    let models =
        json!({"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]});
    run.answer("session/new", &json!({"sessionId": "s1", "models": models}));
    let (code, remedy, message) = run.failed();
    assert_eq!((code, remedy), (ErrorCode::ModelNotFound, Remedy::None));
    assert!(message.contains("`nope`") && message.contains("a, b"), "{message}");
    assert_eq!(run.sent(), [json!("release")], "the child is in order");
}

#[test]
fn lost_session_needs_a_fresh_conversation() {
    for (code, words) in [
        (-32002, "Resource not found"),
        (-32603, "Session not found: old"),
        (-32603, "Internal error"),
        (-32602, ""),
    ] {
        let mut run = Run::begin(&greeted(), &resuming("old"));
        run.refuse("session/load", code, words);
        let (code, remedy, _) = run.failed();
        assert_eq!(
            (code, remedy),
            (ErrorCode::UpstreamError, Remedy::FreshConversation),
            "{words}"
        );
    }
    // Not where a new one would not help either.
    let mut run = Run::begin(&greeted(), &resuming("old"));
    run.refuse("session/load", -32000, "You've hit your usage limit");
    let (code, remedy, _) = run.failed();
    assert_eq!((code, remedy), (ErrorCode::InsufficientQuota, Remedy::None));

    let mut run = Run::begin(&Ready { greeted: false, ..greeted() }, &resuming("old"));
    run.answer("initialize", &json!({"agentCapabilities": {"loadSession": false}}));
    assert_eq!(run.failed().1, Remedy::FreshConversation);

    let ready = Ready { session: Some("old".to_owned()), ..greeted() };
    let mut run = Run::begin(&ready, &resuming("old"));
    run.refuse("session/prompt", -32002, "Session old not found");
    assert_eq!(run.failed().1, Remedy::FreshConversation);
}

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

#[path = "cuts_tests.rs"]
mod cuts;
