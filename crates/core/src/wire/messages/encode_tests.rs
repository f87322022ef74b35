use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::aggregate::MessagesCollector, AnthropicErrorBody, MessagesEncoder, Thinking};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage},
    wire::{
        Collect as _, Encode as _,
        testing::{args, begin, end, reasoning, stream, text, usage},
    },
};

const ID: &str = "msg_xxx";
const MODEL: &str = "claude-sonnet-4-5";

fn encoder(thinking: Thinking) -> MessagesEncoder {
    let stop = vec!["END".to_owned(), "STOP".to_owned()];
    MessagesEncoder::new(ID.to_owned(), MODEL.to_owned(), thinking, stop)
}

fn encode(thinking: Thinking, events: &[TurnEvent]) -> String {
    stream(encoder(thinking), events)
}

#[test]
fn complete_stream() {
    insta::assert_snapshot!(encode(
        Thinking::Shown,
        &[
            TurnEvent::Started,
            reasoning("Let me "),
            reasoning("think…"),
            text("Hello "),
            text("wörld \"quoted\"\n"),
            begin("sess_1__call_0", "Bash"),
            args("sess_1__call_0", "{\"command\":"),
            args("sess_1__call_0", "\"ls\"}"),
            end("sess_1__call_0"),
            TurnEvent::Usage(usage()),
            TurnEvent::Finished(FinishReason::ToolCalls),
        ],
    ));
}

/// Calls that grow side by side, with words between them, are written one by one.
#[test]
fn only_one_block_is_open_at_a_time() {
    insta::assert_snapshot!(encode(
        Thinking::Shown,
        &[
            begin("a", "first"),
            args("a", "{\"a\":"),
            begin("b", "second"),
            text("Meanwhile"),
            args("b", "{\"b\":"),
            reasoning("hm"),
            begin("c", "third"),
            args("a", "1}"),
            text(" and"),
            end("c"),
            args("b", "2"),
            end("a"),
            args("b", "}"),
            text(" after"),
            end("b"),
            text("."),
            TurnEvent::Finished(FinishReason::ToolCalls),
        ],
    ));
}

#[test]
fn omitted_thinking_still_has_its_block() {
    let events = [
        reasoning("secret"),
        text("Hello"),
        TurnEvent::Usage(usage()),
        TurnEvent::Finished(FinishReason::Stop),
    ];
    let stream = encode(Thinking::Omitted, &events);
    insta::assert_snapshot!(stream);
    assert!(!stream.contains("secret") && !stream.contains("thinking_delta"));
    // Thinking was not requested: the first block is the answer.
    let stream = encode(Thinking::Off, &events);
    assert!(!stream.contains(r#""type":"thinking"#), "{stream}");
    let start = stream.find("content_block_start").unwrap();
    assert!(stream[start..].contains(r#""index":0,"content_block":{"type":"text","text":""}"#));
}

/// Client rule 21: a block without a signature is dropped, or sent as plain text. The same
/// thought has the same one, however it was cut.
#[test]
fn client_rule_21_signatures() {
    let signature = |events: &[TurnEvent], thinking| {
        let ending = [TurnEvent::Finished(FinishReason::Stop)];
        let stream = encode(thinking, &[events, &ending].concat());
        let (_, rest) = stream.split_once(r#""signature_delta","signature":""#).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let whole = signature(&[reasoning("Let me think")], Thinking::Shown);
    assert_eq!(whole.len(), 44, "{whole}");
    let parts = [reasoning("Let "), reasoning(""), reasoning("me think"), text("a")];
    assert_eq!(signature(&parts, Thinking::Shown), whole);
    assert_eq!(signature(&parts, Thinking::Omitted), whole);
    assert_ne!(signature(&[reasoning("Let me drink")], Thinking::Shown), whole);
}

#[test]
fn every_finish_reason_has_its_stop_reason() {
    for (reason, expect) in [
        (FinishReason::Stop, r#"{"stop_reason":"end_turn","stop_sequence":null}"#),
        (FinishReason::Length, r#"{"stop_reason":"max_tokens","stop_sequence":null}"#),
        (FinishReason::ToolCalls, r#"{"stop_reason":"tool_use","stop_sequence":null}"#),
        (
            FinishReason::StopSequence(1),
            r#"{"stop_reason":"stop_sequence","stop_sequence":"STOP"}"#,
        ),
    ] {
        let stream = encode(Thinking::Off, &[TurnEvent::Finished(reason)]);
        assert!(stream.contains(expect), "{stream}");
        assert!(stream.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    }
}

#[test]
fn cached_tokens_are_reported_apart_from_the_input() {
    for (usage, expect) in [
        (usage(), [35, 5, 60, 20]),
        // Counters that do not add up must not wrap around.
        (Usage { input: 10, cache_read: 60, ..usage() }, [0, 0, 10, 20]),
        (Usage { input: 62, ..usage() }, [0, 2, 60, 20]),
        (Usage { input: u64::MAX, output: 0, ..Usage::default() }, [u64::MAX, 0, 0, 0]),
    ] {
        let [input, write, read, output] = expect;
        let stream = encode(
            Thinking::Off,
            &[TurnEvent::Usage(usage), TurnEvent::Finished(FinishReason::Stop)],
        );
        let expect = format!(
            r#""usage":{{"input_tokens":{input},"cache_creation_input_tokens":{write},"cache_read_input_tokens":{read},"output_tokens":{output}"#
        );
        assert!(stream.contains(&expect), "{stream}");
    }
}

#[test]
fn thinking_counts_as_output() {
    for (reasoning, expect) in [
        (7, r#""output_tokens":20,"output_tokens_details":{"thinking_tokens":7}}"#),
        (30, r#""output_tokens":20,"output_tokens_details":{"thinking_tokens":20}}"#),
        (0, r#""output_tokens":20}"#),
    ] {
        let counted = TurnEvent::Usage(Usage { reasoning, ..usage() });
        let stream = encode(Thinking::Off, &[counted, TurnEvent::Finished(FinishReason::Stop)]);
        assert!(stream.contains(expect), "{stream}");
    }
}

#[test]
fn failure_is_an_error_event_and_ends_the_stream() {
    let error = TurnError::new(ErrorCode::Unavailable, "the model is busy").cause("secret detail");
    let stream = encode(
        Thinking::Off,
        &[
            TurnEvent::Started,
            text("half an ans"),
            TurnEvent::Failed(error.clone()),
            text("never"),
            TurnEvent::Finished(FinishReason::Stop),
        ],
    );
    assert!(stream.ends_with(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\
         \"message\":\"the model is busy\"}}\n\n"
    ));
    assert!(!stream.contains("message_stop") && !stream.contains("secret detail"));
    let stream = encode(Thinking::Off, &[TurnEvent::Failed(error)]);
    assert!(stream.starts_with("event: error\n"), "{stream}");
}

#[test]
fn cut_stream_is_not_a_clean_stop() {
    let stream = encode(Thinking::Off, &[TurnEvent::Started, text("half")]);
    assert!(stream.contains("event: error\n") && stream.contains("cut off"), "{stream}");
    assert!(!stream.contains("message_delta") && !stream.contains("message_stop"));
}

#[test]
fn pings_fill_silence_after_the_start() {
    let mut encoder = encoder(Thinking::Off);
    let mut out = BytesMut::new();
    encoder.on_silence(&mut out);
    encoder.on_event(&TurnEvent::Started, &mut out);
    encoder.on_silence(&mut out);
    let stream = String::from_utf8(out.split().to_vec()).unwrap();
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    assert!(stream.starts_with("event: message_start\n"), "{stream}");
    assert!(stream.ends_with(&format!("{ping}{ping}")), "{stream}");
    assert_eq!(stream.matches("event: message_start").count(), 1);
    encoder.on_cut(&mut out);
    out.clear();
    encoder.on_silence(&mut out);
    assert!(out.is_empty(), "nothing follows the ending");
}

/// Puts a stream together the way the public SDKs do, and checks the order on the way.
fn collect(stream: &str) -> Result<Value, Value> {
    let mut message = Value::Null;
    let mut content: Vec<Value> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut ended = false;
    let mut stopped = false;
    for frame in stream.split_terminator("\n\n") {
        assert!(!stopped, "something follows message_stop: {frame}");
        let (name, data) = frame.split_once('\n').expect("an `event:` line");
        let name = name.strip_prefix("event: ").expect("an `event:` line");
        let data = data.strip_prefix("data: ").expect("a `data:` line");
        assert!(!data.contains('\n'), "more than one line: {data}");
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["type"], name);
        if name == "error" {
            return Err(event["error"].clone());
        }
        assert_eq!(message.is_null(), name == "message_start", "{frame}");
        let index = event["index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match name {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                assert!(open.is_none() && !ended, "{frame}");
                assert_eq!(index, Some(content.len()));
                open = Some((content.len(), String::new()));
                content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let (at, input) = open.as_mut().expect("an open block");
                assert_eq!(index, Some(*at));
                let (field, delta) = match event["delta"]["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("signature", "signature"),
                    "input_json_delta" => {
                        assert_eq!(content[*at]["input"], json!({}));
                        input.push_str(event["delta"]["partial_json"].as_str().unwrap());
                        continue;
                    }
                    other => panic!("{other}"),
                };
                let old = content[*at][field].as_str().unwrap();
                let new = event["delta"][delta].as_str().unwrap();
                assert_ne!(new, "", "{frame}");
                content[*at][field] = Value::String(format!("{old}{new}"));
            }
            "content_block_stop" => {
                let (at, input) = open.take().expect("an open block");
                assert_eq!(index, Some(at));
                if content[at]["type"] == "tool_use" {
                    let input: Value = serde_json::from_str(&input).unwrap_or_default();
                    content[at]["input"] = if input.is_object() { input } else { json!({}) };
                }
                if content[at]["type"] == "thinking" {
                    assert_ne!(content[at]["signature"], "");
                }
            }
            "message_delta" => {
                assert!(open.is_none() && !ended, "{frame}");
                ended = true;
                for field in ["stop_reason", "stop_sequence"] {
                    message[field] = event["delta"][field].clone();
                }
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => {
                assert!(ended);
                stopped = true;
            }
            other => panic!("{other}"),
        }
    }
    assert!(stopped, "no message_stop");
    message["content"] = Value::Array(content);
    Ok(message)
}

fn aggregate(thinking: Thinking, events: &[TurnEvent]) -> Result<Value, Value> {
    let stop = vec!["END".to_owned(), "STOP".to_owned()];
    let mut all = MessagesCollector::new(ID.to_owned(), MODEL.to_owned(), thinking, stop);
    for event in events {
        all.on_event(event.clone());
    }
    Box::new(all).finish().map(|whole| serde_json::from_slice(&whole).unwrap()).map_err(|error| {
        serde_json::to_value(AnthropicErrorBody::new(&error, None)).unwrap()["error"].clone()
    })
}

/// Any events at all; what breaks the rules is filtered out by the guard below, so that
/// every legal sequence can come up.
fn any_event() -> impl Strategy<Value = TurnEvent> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let words =
        prop_oneof![Just(String::new()), ".{0,6}", Just("\"\\\n\r\u{2028}\u{0}é🦀".to_owned())];
    let input = prop_oneof![words.clone(), Just("{}".to_owned()), Just("{\"a\":1}".to_owned())];
    prop_oneof![
        1 => Just(TurnEvent::Started),
        5 => words.clone().prop_map(TurnEvent::Text),
        3 => words.prop_map(TurnEvent::Reasoning),
        3 => (id.clone(), "[a-z]{1,4}").prop_map(|(id, name)| begin(id, &name)),
        6 => (id.clone(), input).prop_map(|(id, delta)| args(id, &delta)),
        3 => id.prop_map(end),
        1 => (0_u64..1000, 0_u64..1000).prop_map(|(input, cache_read)| {
            TurnEvent::Usage(Usage { input, cache_read, ..Usage::default() })
        }),
        1 => prop::sample::select(vec![FinishReason::Stop, FinishReason::Length,
            FinishReason::StopSequence(0), FinishReason::ToolCalls]).prop_map(TurnEvent::Finished),
        1 => prop::sample::select(ErrorCode::ALL.to_vec())
            .prop_map(|code| TurnEvent::Failed(TurnError::new(code, "went wrong"))),
    ]
}

fn any_thinking() -> impl Strategy<Value = Thinking> {
    prop::sample::select(vec![Thinking::Off, Thinking::Shown, Thinking::Omitted])
}

fn legal(events: Vec<TurnEvent>) -> Vec<TurnEvent> {
    let mut guard = TerminalGuard::default();
    events.into_iter().filter(|event| guard.check(event).is_ok()).collect()
}

proptest! {
    #[test]
    fn any_legal_turn_survives_encode_parse_aggregate(
        thinking in any_thinking(),
        events in prop::collection::vec(any_event(), 0..60)
    ) {
        let events = legal(events);
        prop_assert_eq!(collect(&encode(thinking, &events)), aggregate(thinking, &events));
    }

    /// What was said in one kind comes out whole and in order, whatever stood between.
    #[test]
    fn aggregated_stream_equals_the_events(events in prop::collection::vec(any_event(), 0..60)) {
        let mut events = legal(events);
        events.retain(|event| !event.is_terminal());
        events.push(TurnEvent::Finished(FinishReason::Stop));
        let message = collect(&encode(Thinking::Shown, &events)).unwrap();
        let said = |kind: &str, field: &str| -> String {
            let blocks = message["content"].as_array().unwrap().iter();
            blocks.filter(|block| block["type"] == kind).map(|block| block[field].as_str().unwrap())
                .collect()
        };
        let expect = |pick: fn(&TurnEvent) -> Option<&String>| -> String {
            events.iter().filter_map(pick).map(String::as_str).collect()
        };
        prop_assert_eq!(said("text", "text"), expect(|event| match event {
            TurnEvent::Text(text) => Some(text),
            _ => None,
        }));
        prop_assert_eq!(said("thinking", "thinking"), expect(|event| match event {
            TurnEvent::Reasoning(text) => Some(text),
            _ => None,
        }));
        prop_assert_eq!(said("tool_use", "name"), expect(|event| match event {
            TurnEvent::ToolCallBegin { name, .. } => Some(name),
            _ => None,
        }));
    }

    #[test]
    fn even_illegal_turns_have_one_ending(
        thinking in any_thinking(),
        events in prop::collection::vec(any_event(), 0..40)
    ) {
        let stream = encode(thinking, &events);
        let ends = stream.matches("event: message_stop\n").count()
            + stream.matches("event: error\n").count();
        prop_assert_eq!(ends, 1);
        let _checked = collect(&stream);
    }
}

#[test]
fn first_event_has_the_estimate_and_the_last_the_count() {
    let counted = TurnEvent::Usage(usage());
    let finished = TurnEvent::Finished(FinishReason::Stop);
    for (events, input) in [(vec![text("hi"), counted, finished.clone()], 35), (vec![finished], 70)]
    {
        let stream = stream(encoder(Thinking::Shown).with_input_estimate(70), &events);
        let usage_of = |event: &str, path: &str| {
            let line = stream
                .lines()
                .find(|line| line.starts_with(&format!("data: {{\"type\":\"{event}\"")));
            let data: Value = serde_json::from_str(&line.unwrap()["data: ".len()..]).unwrap();
            data.pointer(path).unwrap().clone()
        };
        assert_eq!(usage_of("message_start", "/message/usage/input_tokens"), 70);
        assert_eq!(usage_of("message_start", "/message/usage/output_tokens"), 0);
        assert_eq!(usage_of("message_delta", "/usage/input_tokens"), input);
    }
}
