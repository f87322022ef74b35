//! The flight recorder, and `ibeam replay`: what is in a recording, what is not, and that a replay
//! of it does the same.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    backends::soon,
    cli::{Home, Server},
    client::{ask, tool},
};

/// What the conversation has that must not be in a recording without texts.
const PLANTED: [&str; 9] = [
    "PlantedSystem",
    "PlantedQuestion",
    "planted@example.com",
    "/home/planted/notes.txt",
    "planted_tool",
    "PlantedResult",
    "sk-ant-planted0123456789abcdef",
    "crsr_planted0123456789abcdef",
    "PlantedAnswer",
];

/// A conversation with a tool call, its result, an answer, and a turn that continues it. The
/// scenario's answers have planted words, too.
const SCENARIO: &str = r#"
[[rule]]
when.contains = "again"
steps = [{ text = "PlantedAnswer once more" }]

[[rule]]
steps = [
    { thinking = "PlantedAnswer thoughts" },
    { exec = { arm = "mcp", args = { name = "planted_tool", args = { path = "/home/planted/notes.txt" } } } },
    { text = "PlantedAnswer: {result}" },
]
"#;

const TURNS: usize = 3;

/// `with_keys`: the system prompt has keys. The simulated CLI keeps its conversations on disk, where
/// the step `secrets` would find them; ibeam's own store is off for the same reason.
fn converse(url: &str, with_keys: bool) {
    let keys = "sk-ant-planted0123456789abcdef crsr_planted0123456789abcdef";
    let prompt = format!("PlantedSystem {}", if with_keys { keys } else { "" });
    let system = json!({ "role": "system", "content": prompt.trim() });
    let question =
        json!({ "role": "user", "content": "PlantedQuestion of planted@example.com, please" });
    let mut messages = vec![system, question];
    let body = |messages: &[Value]| {
        let tools = [tool("planted_tool", &["path"])];
        json!({ "model": "auto", "stream": true, "messages": messages, "tools": tools })
    };
    let said = ask(url, &[], &body(&messages));
    assert_eq!(said.calls.len(), 1, "{said:?}");
    let result = said.calls[0].result("PlantedResult in /home/planted/notes.txt");
    messages.extend([said.message(), result]);
    let said = ask(url, &[], &body(&messages));
    assert!(said.text.contains("PlantedResult"), "{said:?}");
    messages
        .extend([said.message(), json!({ "role": "user", "content": "PlantedQuestion again" })]);
    let said = ask(url, &[], &body(&messages));
    assert!(said.text.contains("once more"), "{said:?}");
    // Of this conversation nothing is stored.
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let rebuilt = [
        message("user", "PlantedQuestion of old"),
        message("assistant", "PlantedAnswer of old"),
        message("user", "PlantedQuestion again"),
    ];
    let said = ask(url, &[], &body(&rebuilt));
    assert!(said.text.contains("once more"), "{said:?}");
}

/// Records a conversation on this backend and gives the text of each recording.
fn record(home: &Home, options: &str) -> Vec<(String, String)> {
    let scenario = home.0.path().join("scenario.toml");
    fs::write(&scenario, SCENARIO).unwrap();
    let folder = home.0.path().join("recordings");
    let mut command = home.ibeam("serve --sim --port 0 --set cursor_agent.warm=0");
    command.arg("--scenario").arg(&scenario).arg("--record").arg(&folder);
    command.args(options.split_whitespace()).arg("--set=store.enabled=false");
    let server = Server::start(command);
    converse(&server.url, !options.contains("--backend"));
    // The end of a recording is written a moment after the end of its answer.
    soon("a recording has no end", || {
        let all = read(&folder);
        all.len() == TURNS && all.iter().all(|(_, text)| text.contains(r#""what":"end""#))
    });
    read(&folder)
}

fn read(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    let mut all: Vec<(String, String)> = entries
        .map(|entry| entry.path())
        .map(|path| (path.display().to_string(), text(&path)))
        .collect();
    all.sort();
    all
}

fn replay(home: &Home, path: &str) -> (i32, String) {
    let mut command: Command = home.ibeam("replay");
    let output = command.arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text + &String::from_utf8(output.stderr).unwrap())
}

fn check(options: &str) {
    let home = Home::new();
    let recordings = record(&home, options);
    for (path, text) in &recordings {
        for planted in PLANTED {
            assert!(!text.contains(planted), "{options}: {planted} in {text}");
        }
        assert!(!text.to_lowercase().contains("planted"), "{options}: {text}");
        let (code, shown) = replay(&home, path);
        assert_eq!(code, 0, "{options}: {shown}");
        assert!(shown.contains("The replay does the same as the recording."), "{shown}");
    }
    let with_tools = |(_, text): &&(String, String)| text.contains(r#""what":"resumed""#);
    let (path, _) = recordings.iter().find(with_tools).unwrap();
    let (_, shown) = replay(&home, path);
    for part in ["call of", "finished: tool_calls", "the next request", "finished: stop"] {
        assert!(shown.contains(part), "{options}: no `{part}` in {shown}");
    }
    let mut command = home.ibeam("replay --json");
    let json = command.arg(path).output().unwrap().stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["differences"], &json["complete"]), (&json!(0), &json!(true)));
    let steps = json["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["step"] == "given" && step["what"] == "in"), "{json}");
}

#[test]
fn a_recording_over_http2_has_no_texts_and_replays() {
    check("--transport h2");
}

#[test]
fn a_recording_over_http1_has_no_texts_and_replays() {
    check("--transport h1");
}

#[test]
fn a_recording_of_a_rebuilt_history_has_no_texts_and_replays() {
    check("--set history=auto");
}

#[test]
fn a_recording_of_the_cli_has_no_texts_and_replays() {
    check("--backend cli");
}

#[test]
fn a_recording_over_acp_has_no_texts_and_replays() {
    check("--backend acp");
}

/// The backend is offered such tools under other names, which come back in its calls.
#[test]
fn a_recording_of_tools_with_built_in_names_has_no_texts_and_replays() {
    let home = Home::new();
    let scenario = home.0.path().join("scenario.toml");
    fs::write(
        &scenario,
        r#"
[[rule]]
steps = [
    { exec = { arm = "mcp", args = { name = "Read_tool", args = { path = "/home/planted/a" } } } },
    { exec = { arm = "mcp", args = { name = "shell_tool", args = { path = "/home/planted/b" } } } },
    { exec = { arm = "mcp", args = { name = "grep_tool", args = { path = "/home/planted/c" } } } },
    { text = "PlantedAnswer: {result}" },
]
"#,
    )
    .unwrap();
    let folder = home.0.path().join("recordings");
    let mut command = home.ibeam("serve --sim --port 0");
    command.arg("--scenario").arg(&scenario).arg("--record").arg(&folder);
    let server = Server::start(command);
    let names = ["Read", "shell", "grep"];
    let tools = names.map(|name| tool(name, &["path"]));
    let mut messages = vec![json!({ "role": "user", "content": "PlantedQuestion" })];
    let mut called = Vec::new();
    for _ in names {
        let body = json!({ "model": "auto", "messages": messages, "tools": tools });
        let said = ask(&server.url, &[], &body);
        messages.push(said.message());
        for call in &said.calls {
            called.push(call.name.clone());
            messages.push(call.result("PlantedResult"));
        }
        if said.calls.is_empty() || called.len() == names.len() {
            break;
        }
    }
    assert_eq!(called, names);
    let body = json!({ "model": "auto", "messages": messages, "tools": tools });
    assert!(ask(&server.url, &[], &body).text.contains("PlantedAnswer"));
    soon("the recording has no end", || {
        let all = read(&folder);
        all.len() == 1 && all.iter().all(|(_, text)| text.contains(r#""what":"end""#))
    });
    let (path, text) = read(&folder).swap_remove(0);
    assert!(!text.to_lowercase().contains("planted"), "{text}");
    let (code, shown) = replay(&home, &path);
    assert_eq!(code, 0, "{shown}");
    for name in names {
        assert!(shown.contains(&format!("call of {name}")), "{name}: {shown}");
    }
}

#[test]
fn with_texts_a_recording_has_them_but_no_keys() {
    let home = Home::new();
    for (path, text) in record(&home, "--record-texts") {
        assert!(text.contains("PlantedQuestion") && text.contains("PlantedAnswer"), "{text}");
        for key in ["sk-ant-planted0123456789abcdef", "crsr_planted0123456789abcdef"] {
            assert!(!text.contains(key), "{text}");
        }
        let (code, shown) = replay(&home, &path);
        assert_eq!(code, 0, "{shown}");
    }
}

#[cfg(unix)]
#[test]
fn recordings_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let recordings = record(&home, "");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.0.path().join("recordings")), 0o700);
    for (path, _) in recordings {
        assert_eq!(mode(Path::new(&path)), 0o600, "{path}");
        let name = Path::new(&path).file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with("turn-20") && name.ends_with(".jsonl"), "{name}");
    }
}

#[test]
fn a_difference_and_an_unreadable_file_have_exit_codes_of_their_own() {
    let home = Home::new();
    let (path, text) = record(&home, "").swap_remove(0);
    let other = home.0.path().join("other.jsonl");
    fs::write(&other, text.replace(r#""reason":"stop""#, r#""reason":"length""#)).unwrap();
    let (code, shown) = replay(&home, other.to_str().unwrap());
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("- client  finished: length"), "{shown}");
    assert!(shown.contains("+ client  finished: stop"), "{shown}");
    fs::write(&other, text.replace("\"ibeam_recording\":1", "\"ibeam_recording\":99")).unwrap();
    let (code, shown) = replay(&home, other.to_str().unwrap());
    assert!(code == 2 && shown.contains("format 99"), "{code}: {shown}");
    let (code, shown) = replay(&home, "no-such-file");
    assert!(code == 2 && shown.contains("no-such-file"), "{code}: {shown}");
    // One that was cut off is replayed as far as it goes.
    fs::write(&other, &text[..text.len() - 20]).unwrap();
    let (code, shown) = replay(&home, other.to_str().unwrap());
    assert!(code == 0 && shown.contains("lacks a part of the turn"), "{code}: {shown}");
    assert_eq!(replay(&home, &path).0, 0);
}

/// The folder vanishes while turns run: they are answered, and the log says once that there are no
/// more recordings.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_harms_no_turn() {
    let home = Home::new();
    let folder = home.0.path().join("recordings");
    let log = home.0.path().join("log");
    let mut command = home.ibeam("serve --sim --port 0");
    command.arg("--record").arg(&folder).arg("--log-file").arg(&log);
    let server = Server::start(command);
    fs::remove_dir_all(&folder).unwrap();
    let body = json!({ "model": "auto", "messages": [{ "role": "user", "content": "Say hi" }] });
    for _ in 0..3 {
        assert_eq!(ask(&server.url, &[], &body).finish, "stop");
    }
    soon("the log does not say it", || {
        fs::read_to_string(&log).unwrap().contains("recordings end here")
    });
    assert_eq!(ask(&server.url, &[], &body).finish, "stop");
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches("recordings end here").count(), 1, "{text}");
}

#[test]
fn the_start_says_that_texts_are_recorded() {
    let home = Home::new();
    let log = home.0.path().join("log");
    let mut command = home.ibeam("serve --sim --port 0 --record-texts --record recordings");
    command.current_dir(home.0.path()).arg("--log-file").arg(&log);
    let _server = Server::start(command);
    soon("nothing is said", || fs::read_to_string(&log).unwrap().contains("WITH THEIR TEXTS"));
    let refused = home.ibeam("serve --sim --port 0 --record-texts").output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("record.dir"), "{text}");
    // A folder that cannot be made is no surprise for later.
    let mut command = home.ibeam("serve --sim --port 0 --record log/folder");
    let refused = command.current_dir(home.0.path()).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("turns cannot be recorded"), "{text}");
}
