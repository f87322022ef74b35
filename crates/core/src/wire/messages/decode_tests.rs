use proptest::prelude::*;

use super::{decode, decode_count};
use crate::{
    error::ErrorCode::{
        InvalidJson, InvalidValue, MissingMessages, ThreadUnsupported, UnsupportedParameter,
    },
    model::{AnswerFormat, Effort, Schema},
    wire::messages::{
        Thinking,
        testing::{messages, ok, refused, user, whole, with},
    },
};

// === what real clients send ===

/// With a model name that it does not know: a message of role `system` (client rule 20).
#[test]
fn request_of_claude_code_is_decoded() {
    insta::assert_debug_snapshot!(whole(
        r#"{
        "model": "gpt-5.2",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>\n"},
                {"type": "text", "text": "run it", "cache_control": {"type": "ephemeral"}}
            ]},
            {"role": "system", "content": "The user is in plan mode."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "EqQBCgIYAg=="},
                {"type": "text", "text": "I'll run it."},
                {"type": "tool_use", "id": "sess_abababababababababababab__call_0", "name": "Bash",
                 "input": {"command": "echo STUB-42 > a.txt", "description": "Write"}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "sess_abababababababababababab__call_0",
                 "content": "(no output)", "is_error": false, "cache_control": {"type": "ephemeral"}}
            ]},
            {"role": "system", "content": [{"type": "text", "text": "Tools have changed."},
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "DeferredToolPlaceholder"}}]}
        ],
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325.1f2; cc_entrypoint=sdk-cli; cch=00000;"},
            {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "You are an interactive agent.", "cache_control": {"type": "ephemeral", "ttl": "1h", "scope": "global"}}
        ],
        "tools": [
            {"name": "Bash", "description": "Executes a command", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false}},
            {"name": "ToolSearch", "description": "Finds tools", "input_schema": {"type": "object"}},
            {"name": "DeferredToolPlaceholder", "defer_loading": true, "description": "", "input_schema": {"type": "object", "properties": {}}}
        ],
        "metadata": {"user_id": "{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s\"}"},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": true
    }"#
    ));
}

#[test]
fn request_of_pi_with_thinking_is_decoded() {
    insta::assert_debug_snapshot!(whole(
        r#"{
        "model": "claude-sonnet-4-5",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Read it first", "signature": "not one of ours"},
                {"type": "redacted_thinking", "data": "EmwKAhgB"},
                {"type": "tool_use", "id": "toolu_01", "name": "read", "input": {"path": "a.txt"}},
                {"type": "tool_use", "id": "toolu_02", "name": "read", "input": {"path": "b.txt"}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": [
                    {"type": "text", "text": "one"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}}
                ], "is_error": false},
                {"type": "tool_result", "tool_use_id": "toolu_02", "content": [{"type": "text", "text": "no such file"}],
                 "is_error": true, "cache_control": {"type": "ephemeral"}}
            ]}
        ],
        "max_tokens": 16384,
        "stream": true,
        "system": [{"type": "text", "text": "You are an expert coding assistant.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read", "description": "Read a file", "eager_input_streaming": true,
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}],
        "thinking": {"type": "enabled", "budget_tokens": 15360, "display": "summarized"}
    }"#
    ));
}

#[test]
fn request_of_opencode_is_decoded() {
    insta::assert_debug_snapshot!(whole(
        r#"{
        "model": "stub-1",
        "max_tokens": 32000,
        "thinking": {"type": "enabled", "budget_tokens": -1},
        "system": [{"type": "text", "text": "You are opencode."}, {"type": "text", "text": ""}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "\"please run\"", "cache_control": {"type": "ephemeral"}}]}],
        "tools": [{"name": "bash", "description": "Runs", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "stream": true
    }"#
    ));
}

// === the request ===

#[test]
fn malformed_json_is_refused() {
    for body in ["", " \n", "{\"model\":\"sonnet\"", "[]", "\"text\"", "null", "{} {}"] {
        refused(body, InvalidJson, None);
    }
    let nested = r#"{"type":"tool_result","tool_use_id":"a","content":["#.repeat(200);
    let error = decode(user(&nested).as_bytes()).unwrap_err();
    assert_eq!(error.code, InvalidJson);
    assert!(error.message.contains("`messages[0].content[0].content[0]"), "{error}");
}

#[test]
fn model_messages_and_limit_are_required() {
    refused(r#"{"max_tokens":1}"#, InvalidValue, Some("model"));
    refused(r#"{"model":" ","max_tokens":1}"#, InvalidValue, Some("model"));
    refused(r#"{"model":"a","max_tokens":1}"#, MissingMessages, Some("messages"));
    refused(r#"{"model":"a","max_tokens":1,"messages":[]}"#, MissingMessages, Some("messages"));
    for silent in [
        r#"{"role":"assistant","content":[]}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":""}]}"#,
        r#"{"role":"system","content":"be brief"}"#,
    ] {
        refused(&messages(silent), MissingMessages, Some("messages"));
    }
    let message = refused(r#"{"model":"a","messages":[]}"#, InvalidValue, Some("max_tokens"));
    assert!(message.contains("missing"), "{message}");
    for limit in ["0", "-1", "1.5", "null"] {
        let body = with("").replace(":10,", &format!(":{limit},"));
        refused(&body, InvalidValue, Some("max_tokens"));
    }
    refused(&with("").replace(":10,", ":\"10\","), InvalidValue, Some("max_tokens"));
    assert_eq!(ok(&with("")).sampling.max_tokens, Some(10));
    assert_eq!(ok(&with("")).sampling.params.emulated, ["max_tokens"]);
}

#[test]
fn counting_does_not_require_a_limit() {
    let body = r#"{"model":"a","messages":[{"role":"user","content":"hi"}]}"#;
    let request = decode_count(body.as_bytes()).unwrap();
    assert_eq!(request.sampling.max_tokens, None);
    assert!(request.sampling.params.emulated.is_empty());
    let error = decode_count(br#"{"model":"a","messages":[]}"#).unwrap_err();
    assert_eq!(error.code, MissingMessages);
}

#[test]
fn wrong_types_name_the_field() {
    for (list, param) in [
        (r#"7"#, "messages[0]"),
        (r#"{"role":5,"content":"hi"}"#, "messages[0].role"),
        (r#"{"role":"user","content":5}"#, "messages[0].content"),
        (r#"{"role":"user","content":["hi"]}"#, "messages[0].content[0]"),
        (r#"{"role":"user","content":[{"type":"text","text":1}]}"#, "messages[0].content[0].text"),
        (r#"{"role":"user","content":[{"text":"a"}]}"#, "messages[0].content[0].type"),
        (r#"{"role":"user","content":[{"type":"text"}]}"#, "messages[0].content[0].text"),
        (
            r#"{"role":"user","content":[{"type":"document","source":{"type":"text"}}]}"#,
            "messages[0].content[0].source.data",
        ),
        (r#"{"role":"user","content":[{"type":"video"}]}"#, "messages[0].content[0].type"),
        (r#"{"role":"user"}"#, "messages[0].content"),
        (r#"{"role":"user","content":""}"#, "messages[0].content"),
        (r#"{"role":"user","content":[{"type":"text","text":""}]}"#, "messages[0].content"),
        (r#"{"content":"hi"}"#, "messages[0].role"),
        (r#"{"role":"tool","content":"hi"}"#, "messages[0].role"),
        (r#"{"role":"assistant","content":[{"type":"image"}]}"#, "messages[0].content[0].type"),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","name":"a"}]}"#,
            "messages[0].content[0].id",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}"#,
            "messages[0].content[0].name",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":"c"}]}"#,
            "messages[0].content[0].input",
        ),
        (
            r#"{"role":"user","content":[{"type":"tool_result"}]}"#,
            "messages[0].content[0].tool_use_id",
        ),
        (
            r#"{"role":"user","content":"a"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"AA=="}}]}]}"#,
            "messages[1].content[0].content[0].source",
        ),
        (
            r#"{"role":"system","content":[{"type":"image"}]},{"role":"user","content":"a"}"#,
            "messages[0].content[0].type",
        ),
    ] {
        refused(&messages(list), InvalidValue, Some(param));
    }
    for (extra, param) in [
        (r#""system":7"#, "system"),
        (r#""system":[{"type":"image"}]"#, "system[0].type"),
        (r#""stream":"yes""#, "stream"),
        (r#""stop_sequences":"END""#, "stop_sequences"),
        (r#""stop_sequences":["a",""]"#, "stop_sequences[1]"),
        (r#""tools":[{"input_schema":{}}]"#, "tools[0].name"),
        (r#""tools":[{"name":"a","input_schema":[]}]"#, "tools[0].input_schema"),
        (r#""tools":[{"type":"bash_20250124"}]"#, "tools[0].name"),
        (r#""tool_choice":"auto""#, "tool_choice"),
        (r#""tool_choice":{"type":"sometimes"}"#, "tool_choice.type"),
        (r#""tool_choice":{"type":"any"}"#, "tool_choice"),
        (r#""tool_choice":{"type":"tool","name":"b"},"tools":[{"name":"a"}]"#, "tool_choice.name"),
        (r#""tool_choice":{"type":"tool"},"tools":[{"name":"a"}]"#, "tool_choice.name"),
        (r#""thinking":{"type":"deep"}"#, "thinking.type"),
        (r#""thinking":{}"#, "thinking.type"),
        (r#""output_config":{"effort":"lots"}"#, "output_config.effort"),
        (r#""output_config":{"format":{"type":"xml"}}"#, "output_config.format.type"),
        (r#""output_config":{"format":{"type":"json_schema"}}"#, "output_config.format.schema"),
        (r#""output_format":{"type":"json_schema","schema":[]}"#, "output_format.schema"),
    ] {
        refused(&with(extra), InvalidValue, Some(param));
    }
}

#[test]
fn unsupported_message_parameters_are_refused_by_name() {
    let server = r#""mcp_servers":[{"type":"url","url":"https://example.com","name":"a"}]"#;
    refused(&with(server), UnsupportedParameter, Some("mcp_servers"));
    ok(&with(r#""mcp_servers":[]"#));
    ok(&with(r#""mcp_servers":null"#));
    let source =
        |source: &str, kind: &str| user(&format!(r#"{{"type":"{kind}","source":{source}}}"#));
    for kind in ["image", "document"] {
        for from in
            [r#"{"type":"url","url":"https://example.com/a"}"#, r#"{"type":"file","file_id":"f"}"#]
        {
            let param = Some("messages[0].content[0].source.type");
            refused(&source(from, kind), UnsupportedParameter, param);
        }
    }
    let pdf = r#"{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}"#;
    let param = Some("messages[0].content[0].source.media_type");
    let message = refused(&source(pdf, "document"), UnsupportedParameter, param);
    assert!(message.contains("application/pdf"), "{message}");
    let upload = r#"{"type":"container_upload","file_id":"f"}"#;
    refused(&user(upload), UnsupportedParameter, Some("messages[0].content[0].type"));
}

/// Client rule 22: whatever else is wrong, so that an SDK sends everything again.
#[test]
fn client_rule_22_threads_are_refused() {
    refused(r#"{"thread":{"id":"t"}}"#, ThreadUnsupported, Some("thread"));
    refused(&with(r#""thread":{"type":"auto"}"#), ThreadUnsupported, Some("thread"));
    ok(&with(r#""thread":null"#));
}

/// Client rule 5.
#[test]
fn client_rule_5_unknown_things_are_accepted() {
    let request = ok(&with(
        r#""betas":["a-2030-01-01"],"cache_control":{"type":"ephemeral"},"some_field_of_tomorrow":[1],
        "metadata":{"user_id":null,"other":1},"output_config":{"task_budget":{"type":"tokens"}},
        "tools":[{"type":"tool_search_tool_regex_20251119","name":"s"},{"type":"computer_20250124","name":"c"},
        {"type":"custom","name":"a","strict":true,"defer_loading":true,"allowed_callers":["direct"]}]"#,
    ));
    assert_eq!(request.sampling.params.ignored, ["tools.type"]);
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    // Traces of tools that another provider ran.
    let request = ok(&messages(
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[
        {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a"}},
        {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result"}]},
        {"type":"text","text":"found","citations":[{"type":"char_location"}]}]},{"role":"user","content":"and?"}"#,
    ));
    assert_eq!(request.items.len(), 3);
    assert_eq!(request.sampling.params.ignored, ["messages.content.type"]);
}

/// They are likely mistakes that would otherwise go unnoticed.
#[test]
fn names_of_the_sibling_apis_are_listed() {
    let names = [
        "input",
        "instructions",
        "max_completion_tokens",
        "max_output_tokens",
        "reasoning_effort",
        "response_format",
        "stop",
    ];
    let set = |value: &str| names.map(|name| format!(r#""{name}":{value}"#)).join(",");
    assert_eq!(ok(&with(&set("[{}]"))).sampling.params.ignored, names);
    assert!(ok(&with(&set("null"))).sampling.params.ignored.is_empty());
}

#[test]
fn ignored_message_parameters_are_listed() {
    let request = ok(&with(
        r#""temperature":0.2,"top_p":0.9,"top_k":40,"metadata":{"user_id":"u"},"service_tier":"standard_only",
        "context_management":{"edits":[]},"container":"c","compaction":{"type":"auto"},"fallbacks":[{"model":"b"}],"inference_geo":"us","speed":"fast""#,
    ));
    assert_eq!(
        request.sampling.params.ignored,
        [
            "temperature",
            "top_p",
            "top_k",
            "metadata",
            "context_management",
            "compaction",
            "container",
            "fallbacks",
            "service_tier",
            "inference_geo",
            "speed"
        ]
    );
    assert_eq!(request.hints.user.as_deref(), Some("u"));
    let defaults =
        r#""temperature":1.0,"top_p":1,"service_tier":"auto","speed":"standard","metadata":{}"#;
    assert!(ok(&with(defaults)).sampling.params.ignored.is_empty());
}

#[test]
fn stops_and_formats_are_emulated() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
    let format = format!(r#"{{"type":"json_schema","schema":{schema}}}"#);
    let expect =
        AnswerFormat::Schema(Schema { name: "output".to_owned(), text: schema.to_owned() });
    let request = ok(&with(&format!(
        r#""stop_sequences":["END","\n\n"],"output_config":{{"format":{format},"effort":"low"}}"#
    )));
    assert_eq!(request.sampling.stop, ["END", "\n\n"]);
    assert_eq!(request.sampling.format, expect);
    let params = &request.sampling.params;
    assert_eq!(params.emulated, ["max_tokens", "stop_sequences", "output_config.format"]);
    assert_eq!(params.native, ["output_config.effort"]);
    let request = ok(&with(&format!(r#""output_format":{format}"#)));
    assert_eq!(request.sampling.format, expect);
    assert_eq!(request.sampling.params.emulated, ["max_tokens", "output_format"]);
    assert_eq!(ok(&with(r#""output_format":null"#)).sampling.format, AnswerFormat::Text);
}

#[test]
fn thinking_becomes_an_effort() {
    use Thinking::{Off, Omitted, Shown};
    for (extra, thinking, effort) in [
        ("", Off, None),
        (r#""thinking":null"#, Off, None),
        (r#""thinking":{"type":"disabled"}"#, Off, Some(Effort::None)),
        (
            r#""thinking":{"type":"disabled"},"output_config":{"effort":"high"}"#,
            Off,
            Some(Effort::None),
        ),
        (r#""thinking":{"type":"adaptive"}"#, Shown, None),
        (r#""thinking":{"type":"between_tools"}"#, Shown, None),
        (r#""thinking":{"type":"adaptive","display":"updates"}"#, Shown, None),
        (r#""thinking":{"type":"adaptive","display":"omitted"}"#, Omitted, None),
        (
            r#""thinking":{"type":"adaptive"},"output_config":{"effort":"max"}"#,
            Shown,
            Some(Effort::Max),
        ),
        (r#""output_config":{"effort":"XHIGH"}"#, Off, Some(Effort::Xhigh)),
        (r#""thinking":{"type":"enabled"}"#, Shown, None),
        (r#""thinking":{"type":"enabled","budget_tokens":-1}"#, Shown, None),
        (r#""thinking":{"type":"enabled","budget_tokens":0}"#, Shown, None),
        (r#""thinking":{"type":"enabled","budget_tokens":1024}"#, Shown, Some(Effort::Minimal)),
        (r#""thinking":{"type":"enabled","budget_tokens":4096}"#, Shown, Some(Effort::Low)),
        (r#""thinking":{"type":"enabled","budget_tokens":10000}"#, Shown, Some(Effort::Medium)),
        (r#""thinking":{"type":"enabled","budget_tokens":15360}"#, Shown, Some(Effort::High)),
        (r#""thinking":{"type":"enabled","budget_tokens":31999}"#, Shown, Some(Effort::High)),
        (r#""thinking":{"type":"enabled","budget_tokens":40000}"#, Shown, Some(Effort::Xhigh)),
        (r#""thinking":{"type":"enabled","budget_tokens":200000}"#, Shown, Some(Effort::Max)),
        (
            r#""thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"high"}"#,
            Shown,
            Some(Effort::High),
        ),
    ] {
        let request = whole(&with(extra));
        assert_eq!((request.thinking, request.turn.sampling.effort), (thinking, effort), "{extra}");
        assert_eq!(request.turn.hints.hides_reasoning, thinking != Shown, "{extra}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
        super::fuzz(&body);
    }

    /// Requests that are nearly right, with any value in any place.
    #[test]
    fn any_values_are_a_request_or_an_error(
        field in prop::sample::select(vec![
            "model", "messages", "system", "max_tokens", "stream", "stop_sequences", "tools",
            "tool_choice", "thinking", "output_config", "output_format", "metadata", "mcp_servers",
        ]),
        block in prop::sample::select(vec![
            "text", "image", "document", "tool_use", "tool_result", "thinking", "search_result",
        ]),
        value in prop::sample::select(vec![
            "null", "1", "-1", "1e400", "\"a\"", "[]", "{}", "[{}]", "[[]]", "{\"type\":\"text\"}",
            "[{\"type\":\"text\",\"text\":\"a\"}]", "{\"type\":\"base64\"}", "[null]",
        ]),
    ) {
        let content = format!(
            r#"[{{"type":"{block}","text":{value},"source":{value},"content":{value},"id":{value},"input":{value},"tool_use_id":"a"}}]"#
        );
        for role in ["user", "assistant", "system"] {
            let body = messages(&format!(r#"{{"role":"{role}","content":{content}}}"#));
            super::fuzz(body.as_bytes());
        }
        super::fuzz(with(&format!("\"{field}\":{value}")).as_bytes());
    }
}
