use serde_json::json;

use super::{
    faults::{ResetCode, StreamFault},
    quirks::Quirk,
    *,
};

#[test]
fn toml_and_json_are_equivalent() {
    let toml = r#"
        name = "both"
        quirks = ["terse"]
        [[rule]]
        when = { contains = "weather", tools = true }
        times = 2
        quirks = ["no_end_frame"]
        cut = { after_frames = 3, how = { reset = "internal_error" } }
        steps = [
            "checkpoint",
            { text = "Hello" },
            { text = { text = "slow", chunk = 1, pace_ms = 5 } },
            { exec = { arm = "mcp", args = { name = "w", args = { city = "Oslo" } } } },
            { execs = [{ arm = "read", args = { path = "a" } }, { arm = "ls", args = { path = "." } }] },
            { query = { arm = "web_search", args = { args = { search_term = "x" } } } },
            { unknown_exec = { field = 99, hex = "0a00" } },
            { usage = { input = 5, output = 2 } },
            { fault = "eof" },
        ]
    "#;
    let from_toml = Scenario::from_toml(toml).unwrap();
    let json = json!({
        "name": "both",
        "quirks": ["terse"],
        "rule": [{
            "when": {"contains": "weather", "tools": true},
            "times": 2,
            "quirks": ["no_end_frame"],
            "cut": {"after_frames": 3, "how": {"reset": 2}},
            "steps": [
                "checkpoint",
                {"text": "Hello"},
                {"text": {"text": "slow", "chunk": 1, "pace_ms": 5}},
                {"exec": {"arm": "mcp", "args": {"name": "w", "args": {"city": "Oslo"}}}},
                {"execs": [{"arm": "read", "args": {"path": "a"}}, {"arm": "ls", "args": {"path": "."}}]},
                {"query": {"arm": "web_search", "args": {"args": {"search_term": "x"}}}},
                {"unknown_exec": {"field": 99, "hex": "0a00"}},
                {"usage": {"input": 5, "output": 2}},
                {"fault": "eof"},
            ],
        }],
    });
    assert_eq!(Scenario::from_json(&json.to_string()).unwrap(), from_toml);
    let rule = &from_toml.rules[0];
    assert_eq!(rule.cut.as_ref().unwrap().how, StreamFault::Reset(ResetCode::INTERNAL_ERROR));
    assert!(rule.quirks.has(Quirk::NoEndFrame));
    assert!(from_toml.decides_early());
}

#[track_caller]
fn complaint(toml: &str, parts: &[&str]) {
    let text = Scenario::from_toml(toml).unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn errors_name_their_place() {
    complaint("name = \"x\"\nrules = []", &["line 2", "unknown field `rules`"]);
    complaint("[[rule]]\nsteps = [\n  { txt = \"x\" },\n]", &["line 3", "unknown variant `txt`"]);
    complaint("[[rule]]\nquirks = [\"nope\"]", &["line 2", "unknown variant `nope`"]);
    complaint(
        "[[rule]]\nsteps = [{ text = { text = \"x\", chnk = 2 } }]",
        &["line 2", "unknown field `chnk`"],
    );
    complaint(
        "[[rule]]\nsteps = [\"checkpoint\", { exec = { arm = \"raed\" } }]",
        &["rule 1, step 2", "no field `raed`", "read_args"],
    );
    complaint(
        "[[rule]]\nsteps = [{ exec = { arm = \"read\", args = { file = \"x\" } } }]",
        &["rule 1, step 1", "`agent.v1.ReadArgs` has no field `file`"],
    );
    complaint("[[rule]]\ncut = { after_frames = 1, how = { reset = \"oops\" } }", &["line 2"]);
    complaint(
        "[[rule]]\nsteps = [{ error = { kind = \"NOPE\" } }]",
        &["unknown error kind `NOPE`"],
    );
}

#[test]
fn missing_file_is_named() {
    let error = Scenario::from_path("no/such/file.toml").unwrap_err();
    assert!(error.to_string().contains("no/such/file.toml"));
}

#[test]
fn conditions_must_all_hold() {
    let when = When {
        model: Some("default".into()),
        contains: Some("HELLO".into()),
        nth: Some(2),
        ..When::default()
    };
    let past = HistoryFacts { text: "well, hello", ..HistoryFacts::default() };
    let facts =
        || RunFacts { model: "default", nth: 2, history: Some(past), ..RunFacts::default() };
    assert_eq!(when.fits(&facts()), Some(true));
    assert_eq!(when.fits(&RunFacts { nth: 1, ..facts() }), Some(false));
    // Before the history was read, only the rest can decide.
    assert_eq!(when.fits(&RunFacts { history: None, ..facts() }), None);
    assert_eq!(when.fits(&RunFacts { history: None, nth: 1, ..facts() }), Some(false));
}
