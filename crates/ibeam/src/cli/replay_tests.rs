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
