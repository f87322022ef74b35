//! Files of strangers: what is short in a file stays small in memory.

use serde_json::Value;

use super::*;
use crate::recording::{RecordingError, line::LONGEST, start::PlanJson};

const TOOLS: &str = include_str!("../../tests/recordings/agent-tool-call.jsonl");

/// The fixture, with these lines instead of its own from the second line on that has `what`.
fn with(what: &str, lines: &[String]) -> String {
    let from = TOOLS.find(&format!(r#""what":"{what}""#)).unwrap();
    let from = TOOLS[..from].rfind('\n').unwrap();
    let end = r#"{"t":9000,"what":"end"}"#;
    format!("{}\n{}\n{end}\n", &TOOLS[..from], lines.join("\n"))
}

fn resumed() -> Value {
    let line = TOOLS.lines().find(|line| line.contains(r#""what":"resumed""#)).unwrap();
    serde_json::from_str(line).unwrap()
}

#[test]
fn placeholders_and_images_of_all_lines_have_one_limit() {
    let shown =
        |length: usize| format!(r#"{{"t":1,"what":"shown","text":"abcdefghijkl…{length}"}}"#);
    let half = LONGEST / 2;
    let error = Recording::read(&with("resumed", &vec![shown(half); 3])).unwrap_err();
    assert!(matches!(error, RecordingError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("128 MiB of placeholders and images"), "{error}");
    let mut line = resumed();
    let image =
        json!({ "item": "user", "parts": [{ "image": { "mime": "image/png", "bytes": half } }] });
    line["items"] = json!([image, image, image]);
    for texts in ["true", "false"] {
        let text = with("resumed", &[line.to_string()]);
        let text = text.replace(r#""texts":false"#, &format!(r#""texts":{texts}"#));
        let error = Recording::read(&text).unwrap_err();
        assert!(matches!(error, RecordingError::TooLarge { .. }), "{texts}: {error}");
    }
}

#[test]
fn items_that_a_line_repeats_are_not_copied_for_each_line() {
    let mut line = resumed();
    let text = "abcdefghijkl…1000000";
    line["items"] = json!([{ "item": "user", "parts": [{ "text": text }] }]);
    line["same_items"] = 0.into();
    let first = line.to_string();
    line["items"] = json!([]);
    line["same_items"] = 1.into();
    let mut lines = vec![line.to_string(); 100];
    lines.insert(0, first);
    let recording = Recording::read(&with("resumed", &lines)).unwrap();
    let items = recording.lines.iter().filter_map(|line| match &line.body {
        LineBody::Resumed(request) => Some(request.items.len()),
        _ => None,
    });
    assert_eq!(items.sum::<usize>(), 1);
    assert_eq!(replay_within(&recording, 50_000_000), Err(ReplayRefused::TooLarge));
    assert!(ReplayRefused::TooLarge.to_string().contains("4 GiB"));
    let replay = replay_within(&recording, 200_000_000).unwrap();
    assert!(replay.steps.len() > 100);
}

#[test]
fn facts_about_the_service_are_always_recorded_and_those_that_are_missing_are_of_their_time() {
    let service = |text: &str| {
        let recording = Recording::read(text).unwrap();
        let PlanJson::Agent(plan) = recording.start.plan else { panic!() };
        plan.service
    };
    assert!(!TOOLS.contains("\"service\""), "it is of a version that left the usual out");
    assert!(!service(TOOLS).aliases_builtins);
    let with = |facts: &str| {
        TOOLS.replacen(r#""agent":{"#, &format!(r#""agent":{{"service":{facts},"#), 1)
    };
    assert!(!service(&with(r#"{"rules_lost":true}"#)).aliases_builtins);
    assert!(service(&with(r#"{"rules_lost":true}"#)).rules_lost);
    assert!(service(&with(r#"{"aliases_builtins":true}"#)).aliases_builtins);

    let (mut turn, taped) = agent(request(vec![user("Hello")]), Settings::default());
    drain(&mut turn);
    let text = taped.text(Mask::redacted([5; 32]));
    assert!(text.contains(r#""aliases_builtins":true"#), "{text}");
    assert!(service(&text).aliases_builtins);
}
