use super::*;

/// What is shown of a call: its line, then its failure. `None`: it is hosted.
fn shown(json: &str) -> Option<Vec<String>> {
    let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
    let call = CliCall::read(&raw).unwrap();
    (!call.hosted).then(|| std::iter::once(call.line()).chain(call.failure()).collect())
}

#[track_caller]
fn line(json: &str) -> String {
    let mut lines = shown(json).unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn old_and_new_tool_names_give_the_same_line() {
    let rows = [
        ("BashToolCall", "shellToolCall", r#"{"command":"ls -la"}"#, "[bash] ls -la"),
        ("ReadFileToolCall", "readToolCall", r#"{"path":"a.rs","limit":5}"#, "[read] a.rs"),
        ("WriteFileToolCall", "writeToolCall", r#"{"fileText":"…","path":"a"}"#, "[write] a"),
        ("EditFileToolCall", "editToolCall", r#"{"file_path":"a"}"#, "[edit] a"),
        ("GrepToolCall", "grepToolCall", r#"{"path":"src","pattern":"fn x"}"#, "[grep] fn x src"),
        ("LsToolCall", "lsToolCall", r#"{"path":"/tmp","ignore":[]}"#, "[ls] /tmp"),
        ("GlobToolCall", "globToolCall", r#"{"globPattern":"*.rs"}"#, "[glob] *.rs"),
        ("DeleteToolCall", "deleteToolCall", r#"{"path":"x"}"#, "[delete] x"),
        ("SemSearchToolCall", "semSearchToolCall", r#"{"query":"how"}"#, "[search] how"),
        ("WebFetchToolCall", "webFetchToolCall", r#"{"url":"http://x"}"#, "[fetch] http://x"),
        ("WebSearchToolCall", "webSearchToolCall", r#"{"searchTerm":"y"}"#, "[websearch] y"),
        ("TaskToolCall", "taskToolCall", r#"{"prompt":"p","description":"d"}"#, "[task] d"),
        (
            "ReadLintsToolCall",
            "readLintsToolCall",
            r#"{"paths":["a"]}"#,
            r#"[lints] {"paths":["a"]}"#,
        ),
        ("UpdateTodosToolCall", "updateTodosToolCall", "{}", "[todos]"),
        ("NewThingToolCall", "newThingToolCall", r#"{"a":1}"#, r#"[newThing] {"a":1}"#),
    ];
    for (old, new, args, want) in rows {
        for name in [old, new] {
            assert_eq!(line(&format!(r#"{{"{name}":{{"args":{args}}}}}"#)), want);
        }
    }
}

#[test]
fn generic_function_calls_give_the_same_line() {
    let call = r#"{"function":{"name":"BashToolCall","arguments":"{\"command\":\"pwd\"}"}}"#;
    assert_eq!(line(call), "[bash] pwd");
    assert_eq!(line(r#"{"function":{"name":"grep","arguments":{"pattern":"x"}}}"#), "[grep] x");
    assert_eq!(line(r#"{"function":{"name":"x","arguments":"not json"}}"#), "[x] not json");
    assert_eq!(line(r#"{"function":{"name":"x"}}"#), "[x]");
}

#[test]
fn arguments_are_shown_on_one_short_line() {
    let command = "echo 'one'\\n\\techo \\u001b[31mtwo ".repeat(100);
    let told = line(&format!(r#"{{"shellToolCall":{{"args":{{"command":"{command}"}}}}}}"#));
    assert!(told.starts_with("[bash] echo 'one' echo two echo 'one'"), "{told}");
    assert_eq!(told.chars().count(), "[bash] ".len() + SHOWN + 1);
    let name = "x".repeat(10_000);
    assert!(line(&format!(r#"{{"{name}ToolCall":{{}}}}"#)).len() < 80);
}

#[test]
fn values_of_the_wrong_type_do_not_hide_the_call() {
    assert_eq!(line(r#"{"shellToolCall":{"args":{"command":5}}}"#), r#"[bash] {"command":5}"#);
    assert_eq!(line(r#"{"toolCallId":"t","readToolCall":{"args":null}}"#), "[read]");
    assert_eq!(line(r#"{"readToolCall":7}"#), "[read]");
    assert_eq!(line(r#"{"readToolCall":{"args":{"path":"a"},"result":3}}"#), "[read] a");
}

#[test]
fn hosted_tools_are_distinguished_from_other_servers() {
    let mcp = |args: &str| shown(&format!(r#"{{"mcpToolCall":{{"args":{args}}}}}"#));
    for ours in [
        r#"{"name":"ibeam-weather","toolName":"weather","providerIdentifier":"ibeam","args":{}}"#,
        r#"{"providerIdentifier":"ibeam"}"#,
        r#"{"name":"ibeam-weather"}"#,
        r#"{"name":"user-ibeam-weather"}"#,
        r#"{"name":"mcp_ibeam_weather"}"#,
        r#"{"name":"mcp__ibeam__weather"}"#,
    ] {
        assert_eq!(mcp(ours), None, "{ours}");
    }
    assert_eq!(shown(r#"{"function":{"name":"mcp__ibeam__weather","arguments":"{}"}}"#), None);
    let other = r#"{"name":"ibeam-x","toolName":"x","providerIdentifier":"db","args":{"q":1}}"#;
    assert_eq!(mcp(other), Some(vec![r#"[mcp db.x] {"q":1}"#.to_owned()]));
    assert_eq!(mcp(r#"{"name":"ibeamish"}"#), Some(vec!["[mcp ibeamish]".to_owned()]));
    assert_eq!(mcp("[]"), Some(vec!["[mcp]".to_owned()]));
}

#[test]
fn failed_call_has_its_reason() {
    let failed = |result: &str| {
        let json = format!(r#"{{"shellToolCall":{{"args":{{"command":"x"}},"result":{result}}}}}"#);
        shown(&json).unwrap().get(1).cloned()
    };
    let rows = [
        (r#"{"success":{"exitCode":0}}"#, None),
        (r#"{"success":{"isError":true,"message":"m"}}"#, Some("[bash] failed: m")),
        (r#"{"error":null,"success":{}}"#, None),
        (r#"{"error":"no such file"}"#, Some("[bash] failed: no such file")),
        (r#"{"error":{"errorMessage":"gone\nnow"}}"#, Some("[bash] failed: gone now")),
        (r#"{"error":{}}"#, Some("[bash] failed")),
        (r#"{"error":{"a":1}}"#, Some(r#"[bash] failed: {"a":1}"#)),
        (r#"{"rejected":{"reason":"not allowed"}}"#, Some("[bash] rejected: not allowed")),
        (
            r#"{"failure":{"exitCode":2,"stdout":"o","stderr":"bad flag\n"}}"#,
            Some("[bash] failed: exit code 2: bad flag"),
        ),
        (r#"{"failure":{"exitCode":1,"stderr":""}}"#, Some("[bash] failed: exit code 1")),
    ];
    for (result, want) in rows {
        assert_eq!(failed(result).as_deref(), want, "{result}");
    }
}

#[test]
fn json_without_a_tool_call_is_ignored() {
    for json in ["{}", "[]", "null", r#"{"other":{}}"#, r#"{"function":{}}"#] {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        assert!(CliCall::read(&raw).is_none(), "{json}");
    }
}
