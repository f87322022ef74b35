use super::*;

const TOOLS: &str = include_str!("../../../core/tests/recordings/agent-tool-call.jsonl");

fn replayed(text: &str) -> (Recording, Replay) {
    let recording = Recording::read(text).unwrap();
    let replay = replay(&recording).unwrap();
    (recording, replay)
}

#[test]
fn a_replay_is_shown_step_by_step() {
    let (recording, mut replay) = replayed(TOOLS);
    let text = shown(&recording, &replay, false);
    for part in
        ["A turn on `agent`", "given   the request", "does    open a link", "finished: stop"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(text.contains("does the same as the recording"), "{text}");
    assert!(!text.contains("- client") && !text.contains("+ client"), "{text}");

    let piece = |step: &&ReplayStep| is_chatter(step);
    let piece = replay.steps.iter().find(piece).unwrap().clone();
    replay.steps.extend(vec![piece; 20]);
    let (all, folded) = (shown(&recording, &replay, true), shown(&recording, &replay, false));
    assert!(folded.contains("20 frames") && !all.contains("20 frames"), "{folded}");
    assert_eq!(folded.lines().count() + 19, all.lines().count());
}

#[test]
fn differences_are_marked() {
    let (recording, replay) =
        replayed(&TOOLS.replace("\"reason\":\"stop\"", "\"reason\":\"length\""));
    let text = shown(&recording, &replay, false);
    assert!(text.contains("- client  finished: length"), "{text}");
    assert!(text.contains("+ client  finished: stop"), "{text}");
    assert!(text.contains("2 lines differ"), "{text}");
    let value = serde_json::to_value(json(&recording, &replay)).unwrap();
    assert_eq!(value["differences"], 2);
    let steps = value["steps"].as_array().unwrap();
    let missing = steps.iter().find(|step| step["step"] == "missing").unwrap();
    assert_eq!((&missing["what"], &missing["reason"]), (&"event".into(), &"length".into()));
}

/// A recording may be that of a stranger: what is in it is not obeyed by a terminal.
#[test]
fn control_characters_of_a_recording_are_not_printed() {
    let harm = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\u{7f}";
    let json_harm = serde_json::to_string(harm).unwrap().trim_matches('"').to_owned();
    let mut lines: Vec<String> = TOOLS.lines().map(ToOwned::to_owned).collect();
    let mut header: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    header["ibeam"] = harm.into();
    header["time"] = harm.into();
    lines[0] = header.to_string();
    let mut start: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    start["request"]["model"] = harm.into();
    lines[1] = start.to_string();
    lines
        .insert(2, format!(r#"{{"t":1,"what":"link_error","error":{{"refused":"{json_harm}"}}}}"#));
    lines.insert(3, format!(r#"{{"t":1,"what":"event","event":"call_begin","id":"{json_harm}","name":"{json_harm}"}}"#));
    let (recording, replay) = replayed(&lines.join("\n"));
    let plain = without_colours(&shown(&recording, &replay, true));
    for text in [plain, escaped_json(&recording, &replay).unwrap()] {
        assert!(text.contains("owned"), "{text}");
        let bad = text.chars().find(|c| *c != '\n' && is_harmful(*c));
        assert_eq!(bad, None, "{}", text.escape_debug());
    }
    let text = escaped_json(&recording, &replay).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["header"]["time"], harm, "programs get what is there");
}

/// Without our own colours.
fn without_colours(text: &str) -> String {
    let mut text = text.to_owned();
    let ours = [STYLES.get_header(), STYLES.get_error()].map(ToString::to_string);
    for style in [&ours[0], &ours[1], &styling::Reset.to_string(), "\u{1b}[0m"] {
        text = text.replace(style, "");
    }
    text
}

#[test]
fn an_error_about_a_recording_has_no_control_characters() {
    let header = TOOLS.lines().next().unwrap();
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    header["ibeam_recording"] = 99.into();
    header["ibeam"] = "\u{1b}[2Jx".into();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), header.to_string()).unwrap();
    let command = ReplayCommand { file: file.path().to_owned(), all: false, json: false };
    let error = command.run().unwrap_err().to_string();
    assert!(error.contains("format 99") && error.contains("[2Jx"), "{error}");
    assert!(!error.contains('\u{1b}'), "{error}");
}
