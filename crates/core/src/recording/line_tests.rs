use serde_json::json;

use super::*;
use crate::recording::{Recording, RecordingError};

fn header(version: u64) -> String {
    json!({
        "ibeam_recording": version, "ibeam": "9.9.9", "backend": "agent",
        "time": "2026-11-19T00:00:00Z", "texts": false, "later": true,
    })
    .to_string()
}

#[test]
fn long_placeholders_are_written_short() {
    let long = format!("abcdefghijkl{}", "x".repeat(500));
    let plain = "abcdefghijkl and more than forty letters of a text";
    let mut value = json!({ "a": [long, plain, "short"] });
    let was = value.clone();
    shorten(&mut value);
    assert_eq!(value["a"][0], "abcdefghijkl…512");
    assert_eq!(value["a"][1], plain);
    lengthen(&mut value, false, &mut { LONGEST }).unwrap();
    assert_eq!(value, was);
}

#[test]
fn a_line_cannot_ask_for_endless_memory() {
    let mut value = json!(["abcdefghijkl…1000000", "abcdefghijkl…67000000"]);
    assert_eq!(lengthen(&mut value, false, &mut { 64_000_000 }), None);
    let mut value = json!("abcdefghijkl…99999999999999999999999");
    assert_eq!(lengthen(&mut value, false, &mut { LONGEST }), Some(()), "not a length");
    let mut value = json!([{ "image": { "mime": "image/png", "bytes": 5_000 } }]);
    let room = &mut 9_000;
    assert_eq!(lengthen(&mut value, true, room), Some(()));
    assert_eq!((*room, lengthen(&mut value, true, room)), (4_000, None));
}

#[test]
fn a_newer_format_and_other_files_are_refused_with_a_reason() {
    let newer = Recording::read(&header(2)).unwrap_err().to_string();
    assert!(newer.contains("format 2") && newer.contains("9.9.9"), "{newer}");
    for text in ["", "{}", "hello", r#"{"type":"assistant"}"#] {
        let error = Recording::read(text).unwrap_err();
        assert_eq!(error, RecordingError::Header(HeaderRefused::NoHeader), "{text}");
    }
    let other = header(1).replace("agent", "sdk");
    assert!(Recording::read(&other).unwrap_err().to_string().contains("`sdk`"));
    assert_eq!(Recording::read(&header(1)).unwrap_err(), RecordingError::NoStart);
}

#[test]
fn lines_begin_with_their_time_and_kind() {
    let line = RecordingLine { t: 12, body: LineBody::Close { cancel: true } };
    assert_eq!(to_text(&line, false), r#"{"t":12,"what":"close","cancel":true}"#);
    let line = RecordingLine { t: 1, body: LineBody::Opened };
    assert_eq!(to_text(&line, false), r#"{"t":1,"what":"opened"}"#);
    let later: RecordingLine =
        serde_json::from_str(r#"{"t":3,"what":"a_later_kind","more":[1]}"#).unwrap();
    assert_eq!(later.body, LineBody::Unknown);
}
