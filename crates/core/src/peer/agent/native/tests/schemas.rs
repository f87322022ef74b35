//! Arguments in the client's own words.

use ibeam_proto::agent::{
    GrepArgs, LsArgs, PiEditExecArgs, PiEditReplacement, ReadArgs, ShellArgs, WriteArgs,
};
use serde_json::json;

use super::{clients::Family, *};

fn kit(tools: &[Tool]) -> Equipment {
    Equipment::of(tools)
}

fn call(ask: &Ask, tools: &[Tool]) -> (String, Value) {
    let call = translate(ask, &kit(tools)).unwrap_or_else(|| panic!("{ask:?} is not mapped"));
    (call.name.clone(), arguments(&call))
}

fn shell(command: &str, directory: &str) -> Ask {
    Ask::ShellArgs(ShellArgs {
        command: command.into(),
        working_directory: directory.into(),
        ..ShellArgs::default()
    })
}

fn lines(offset: i32, limit: u32) -> Ask {
    Ask::ReadArgs(ReadArgs {
        path: "/w/a".into(),
        offset: Some(offset),
        limit: Some(limit),
        ..ReadArgs::default()
    })
}

#[test]
fn command_has_the_form_that_the_schema_declares() {
    let about = "Runs a command that the model asked for";
    let array = tool(
        "shell",
        r#"{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},
            "workdir":{"type":"string"},"timeout_ms":{"type":"number"}},"required":["command"]}"#,
    );
    let strict = tool(
        "run_terminal_cmd",
        r#"{"type":"object","properties":{"command":{"type":"string"},
            "cwd":{"type":["string","null"]},"requires_approval":{"type":"boolean"},
            "is_background":{"type":"boolean"}},
            "required":["command","cwd","requires_approval","is_background"]}"#,
    );
    for (tools, directory, want) in [
        (
            Family::OpenCode.tools(),
            "/w",
            json!({"command": "make", "workdir": "/w", "description": about}),
        ),
        (
            Family::Claude.tools(),
            "/w x",
            json!({"command": "cd '/w x' && make", "description": about}),
        ),
        (
            Family::Codex.tools(),
            "/w",
            json!({"cmd": "make", "workdir": "/w", "yield_time_ms": 120_000}),
        ),
        (vec![array], "/w", json!({"command": ["bash", "-lc", "make"], "workdir": "/w"})),
        (
            vec![strict],
            "",
            json!({"command": "make", "cwd": null, "requires_approval": true,
                   "is_background": false}),
        ),
    ] {
        assert_eq!(call(&shell("make", directory), &tools).1, want);
    }
    let (_, arguments) = call(&shell("a; b", "/w"), &Family::Claude.tools());
    assert_eq!(arguments["command"], "cd '/w' && {\na; b\n}");
}

#[test]
fn time_limit_is_in_the_tools_own_unit_or_omitted() {
    let timed = |behavior| {
        Ask::ShellArgs(ShellArgs {
            command: "make".into(),
            timeout: 1_500,
            timeout_behavior: behavior,
            ..ShellArgs::default()
        })
    };
    let with = |kind: &str, text: &str| {
        let schema = format!(
            r#"{{"type":"object","properties":{{"command":{{"type":"string"}},
                "timeout":{{"type":"{kind}","description":"{text}"}}}},"required":["command"]}}"#
        );
        call(&timed(1), &[tool("bash", &schema)]).1["timeout"].clone()
    };
    assert_eq!(with("number", "Timeout in milliseconds"), json!(1_500));
    assert_eq!(with("number", "Timeout in seconds"), json!(1.5));
    assert_eq!(with("integer", "Timeout in seconds"), json!(2));
    assert_eq!(with("number", "How long"), Value::Null);
    // After this one the command may go on, which a client's tool cannot do.
    assert_eq!(call(&timed(2), &Family::Claude.tools()).1["timeout"], Value::Null);
}

#[test]
fn lines_are_counted_as_the_tool_counts() {
    let old = tool(
        "read",
        r#"{"type":"object","properties":{"filePath":{"type":"string"},
            "offset":{"type":"number","description":"The line number to start from (0-based)"},
            "limit":{"type":"number"}},"required":["filePath"]}"#,
    );
    let whole = tool(
        "read",
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
    );
    for (tools, want) in [
        (Family::OpenCode.tools(), json!({"filePath": "/w/a", "offset": 11, "limit": 5})),
        (vec![old], json!({"filePath": "/w/a", "offset": 10, "limit": 5})),
        (Family::Claude.tools(), json!({"file_path": "/w/a", "offset": 11, "limit": 5})),
        (Family::Generic.tools(), json!({"target_file": "/w/a", "start_line": 11, "end_line": 15})),
        (Family::Codex.tools(), json!({"cmd": "sed -n '11,15p' '/w/a'", "yield_time_ms": 120_000})),
        (vec![whole.clone()], json!({"path": "/w/a"})),
    ] {
        assert_eq!(call(&lines(11, 5), &tools).1, want);
    }
    // A whole file is more than what tools show unasked.
    let all = Ask::ReadArgs(ReadArgs { path: "/w/a".into(), ..ReadArgs::default() });
    let want = json!({"file_path": "/w/a", "limit": 100_000});
    assert_eq!(call(&all, &Family::Claude.tools()).1, want);
    // No more than the schema allows; as many lines may not be all.
    for (declared, asked) in [(r#""maximum":3"#, 3), (r#""description":"At most 3"#, 100_000)] {
        let declared = if asked == 3 { declared.to_owned() } else { format!("{declared}\"") };
        let schema = format!(
            r#"{{"type":"object","properties":{{"path":{{"type":"string"}},
                "limit":{{"type":"integer",{declared}}}}},"required":["path"]}}"#
        );
        let call = translate(&all, &kit(&[tool("read", &schema)])).unwrap();
        assert_eq!(arguments(&call), json!({"path": "/w/a", "limit": asked}));
        for (text, truncated) in [("a\nb\nc\n", true), ("a\nb\n", false), ("a\nb\nc\nd", false)] {
            let reply = format!("{:?}", call.back.replies(&answer(text, false)));
            assert!(reply.contains(&format!("truncated: {truncated}")), "{reply}");
        }
    }
    // A tool without a range gives the whole file, and the lines are cut out of it.
    let call = translate(&lines(2, 1), &kit(&[whole])).unwrap();
    let reply = format!("{:?}", call.back.replies(&answer("one\ntwo\nthree\n", false)));
    assert!(reply.contains(r#"Content("two\n")"#) && reply.contains("range_applied: true"));
}

#[test]
fn tool_with_an_unknown_required_parameter_does_not_match() {
    let odd = tool(
        "bash",
        r#"{"type":"object","properties":{"command":{"type":"string"},
            "session":{"type":"string"}},"required":["command","session"]}"#,
    );
    let bare = tool("bash", r#"{"type":"object","properties":{"text":{"type":"string"}}}"#);
    let number = tool("bash", r#"{"type":"object","properties":{"command":{"type":"number"}}}"#);
    for tools in [vec![odd.clone()], vec![bare], vec![number]] {
        assert!(translate(&shell("make", ""), &kit(&tools)).is_none(), "{tools:?}");
    }
    // The next tool of the kind is tried.
    let mut tools = Family::Codex.tools();
    tools.insert(0, odd);
    assert_eq!(call(&shell("make", ""), &tools).0, "exec_command");
    let background = Ask::ShellArgs(ShellArgs {
        command: "serve".into(),
        is_background: true,
        ..ShellArgs::default()
    });
    assert!(translate(&background, &kit(&tools)).is_none());
}

#[test]
fn file_is_written_exactly_or_not_at_all() {
    let write = |text: &str, bytes: &'static [u8]| {
        Ask::WriteArgs(WriteArgs {
            path: "/w/d/a".into(),
            file_text: text.into(),
            file_bytes: bytes.into(),
            ..WriteArgs::default()
        })
    };
    let codex = Family::Codex.tools();
    let (name, arguments) = call(&write("one\n\n*** End Patch\n", b""), &codex);
    assert_eq!(name, "apply_patch");
    assert_eq!(
        arguments["input"],
        "*** Begin Patch\n*** Add File: /w/d/a\n+one\n+\n+*** End Patch\n*** End Patch\n"
    );
    // A patch would add a newline, or lose the carriage return.
    for text in ["it's", "a\r\nb\r\n"] {
        let (name, arguments) = call(&write(text, b""), &codex);
        assert_eq!(name, "exec_command");
        let quoted = text.replace('\'', r"'\''");
        let want = format!("mkdir -p '/w/d' && printf '%s' '{quoted}' > '/w/d/a'");
        assert_eq!(arguments["cmd"], want);
    }
    assert!(translate(&write("", b"\xff\xfe"), &kit(&Family::Claude.tools())).is_none());
    assert!(translate(&write(&"x".repeat(200_000), b""), &kit(&codex)).is_none());
    let (_, arguments) = call(&write("", b"bytes win"), &Family::Claude.tools());
    assert_eq!(arguments["content"], "bytes win");
}

#[test]
fn written_file_is_counted_and_returned_on_request() {
    let ask = Ask::WriteArgs(WriteArgs {
        path: "a".into(),
        file_text: "one\ntwo".into(),
        return_file_content_after_write: true,
        ..WriteArgs::default()
    });
    let call = translate(&ask, &kit(&Family::OpenCode.tools())).unwrap();
    let reply = format!("{:?}", call.back.replies(&answer("Wrote file successfully.", false)));
    assert!(reply.contains(r#"lines_created: 2, file_size: 7"#), "{reply}");
    assert!(reply.contains(r#"file_content_after_write: Some("one\ntwo")"#), "{reply}");
    for (text, want) in [
        ("EACCES: permission denied, open 'a'", "PermissionDenied"),
        ("ENOSPC: no space left on device", "NoSpace"),
        ("You must read file a before overwriting it.", "Error"),
        ("The write tool was called with invalid arguments: content", "Error"),
    ] {
        assert_eq!(variants(&call.back.replies(&answer(text, false))), want, "{text}");
    }
}

#[test]
fn several_edits_need_a_tool_that_takes_several() {
    let edit = |count: usize| {
        let one = PiEditReplacement { old_text: "a".into(), new_text: "b".into() };
        Ask::PiEditArgs(PiEditExecArgs { path: "f".into(), edits: vec![one; count] })
    };
    let multi = tool(
        "MultiEdit",
        r#"{"type":"object","properties":{"file_path":{"type":"string"},"edits":{"type":"array",
            "items":{"type":"object","properties":{"old_string":{"type":"string"},
            "new_string":{"type":"string"}}}}},"required":["file_path","edits"]}"#,
    );
    let mut tools = Family::Claude.tools();
    assert!(translate(&edit(2), &kit(&tools)).is_none());
    assert!(translate(&edit(0), &kit(&tools)).is_none());
    let one = json!({"old_string": "a", "new_string": "b"});
    tools.push(multi);
    assert_eq!(call(&edit(1), &tools).0, "Edit");
    let want = json!({"file_path": "f", "edits": [one, one]});
    assert_eq!(call(&edit(2), &tools), ("MultiEdit".to_owned(), want));
}

#[test]
fn search_uses_the_parameters_that_the_tool_has() {
    let ask = |args: GrepArgs| Ask::GrepArgs(GrepArgs { path: Some("/w".into()), ..args });
    let full = ask(GrepArgs {
        pattern: "a.b".into(),
        glob: Some("*.rs".into()),
        case_insensitive: Some(true),
        context_before: Some(2),
        head_limit: Some(9),
        ..GrepArgs::default()
    });
    let about = "Searches files";
    assert_eq!(
        call(&full, &Family::Claude.tools()).1,
        json!({"pattern": "a.b", "path": "/w", "glob": "*.rs", "output_mode": "content", "-i": true,
               "-n": true, "-B": 2, "head_limit": 9})
    );
    assert_eq!(
        call(&full, &Family::OpenCode.tools()).1,
        json!({"pattern": "(?i)a.b", "path": "/w", "include": "*.rs"})
    );
    assert_eq!(
        call(&full, &Family::Codex.tools()).1["cmd"],
        "if command -v rg >/dev/null 2>&1; then rg --no-heading --color never --hidden -nH -i -B 2 \
         '--glob=*.rs' '--glob=!.git' '--glob=!node_modules' -e 'a.b' '/w' | head -n 9; \
         else grep -rnHI -E -i -B 2 '--include=*.rs' --exclude-dir=.git --exclude-dir=node_modules \
         -e 'a.b' '/w' | head -n 9; fi"
    );
    let typed =
        ask(GrepArgs { pattern: "x".into(), r#type: Some("rust".into()), ..GrepArgs::default() });
    let (name, arguments) = call(&typed, &Family::OpenCode.tools());
    assert_eq!((name.as_str(), &arguments["description"]), ("bash", &json!(about)));
    let command = arguments["command"].as_str().unwrap();
    assert!(command.contains("rg ") && command.contains(" -t 'rust' "), "{command}");
    // No pattern: the names are searched.
    let names = ask(GrepArgs { glob: Some("src/**/*.{rs,md}".into()), ..GrepArgs::default() });
    let want = json!({"pattern": "src/**/*.{rs,md}", "path": "/w"});
    assert_eq!(call(&names, &Family::Claude.tools()), ("Glob".to_owned(), want));
    assert_eq!(
        call(&names, &Family::Codex.tools()).1["cmd"],
        "find '/w' -type f -not -path '*/.git/*' \\( -path '*/src/*.rs' -o -path '*/src/*.md' \\)"
    );
    assert!(translate(&ask(GrepArgs::default()), &kit(&Family::Claude.tools())).is_none());
}

#[test]
fn directory_is_listed_by_the_tool_for_it() {
    let ask = Ask::LsArgs(LsArgs { ignore: vec!["target".into()], ..LsArgs::default() });
    assert_eq!(
        call(&ask, &Family::OpenCode.tools()),
        ("read".to_owned(), json!({"filePath": "."}))
    );
    assert_eq!(call(&ask, &Family::Claude.tools()).1["command"], "ls -1Ap '.'");
    let ls = tool(
        "LS",
        r#"{"type":"object","properties":{"path":{"type":"string"},
            "ignore":{"type":"array","items":{"type":"string"}}},"required":["path"]}"#,
    );
    assert_eq!(call(&ask, &[ls]).1, json!({"path": ".", "ignore": ["target"]}));
}
