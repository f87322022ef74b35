use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    model::{AnswerFormat, Schema, TurnRequest, ids::CallId},
    models::Family,
    tokens,
    wire::chat,
};

fn request(extra: &serde_json::Value) -> TurnRequest {
    let mut body = json!({ "model": "gpt-5.2", "messages": [{ "role": "user", "content": "hi" }] });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    chat::decode(body.to_string().as_bytes()).unwrap()
}

fn controls(extra: &serde_json::Value) -> Controls {
    *prepare(&mut request(extra), Family::Gpt).unwrap().unwrap()
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

fn reasoning(text: &str) -> TurnEvent {
    TurnEvent::Reasoning(text.to_owned())
}

fn begin(n: u32) -> TurnEvent {
    TurnEvent::ToolCallBegin { id: CallId::sanitised(&n.to_string()), name: "bash".to_owned() }
}

const STOP: TurnEvent = TurnEvent::Finished(FinishReason::Stop);
const CALLS: TurnEvent = TurnEvent::Finished(FinishReason::ToolCalls);

/// Feeds events until one gives another verdict than `Go`.
fn run(
    controls: &mut Controls,
    events: impl IntoIterator<Item = TurnEvent>,
) -> (Vec<TurnEvent>, ControlVerdict) {
    let mut out = Vec::new();
    for event in events {
        let verdict = controls.on_event(event);
        out.extend(std::iter::from_fn(|| controls.pop()));
        if verdict != ControlVerdict::Go {
            return (out, verdict);
        }
    }
    (out, ControlVerdict::Go)
}

fn joined(events: &[TurnEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        TurnEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn no_controls_for_a_plain_request() {
    let mut plain = request(&json!({ "temperature": 0, "reasoning_effort": "low" }));
    assert!(prepare(&mut plain, Family::Gpt).unwrap().is_none());
    assert!(plain.system.is_empty());
}

#[test]
fn stop_sequence_ends_the_answer() {
    let mut leg = controls(&json!({ "stop": ["###", "END"], "stream": true }));
    let events = [
        TurnEvent::Started,
        reasoning("### is fine"),
        text("one #"),
        text("# two E"),
        text("ND three"),
    ];
    let (out, verdict) = run(&mut leg, events);
    assert_eq!(verdict, ControlVerdict::End(FinishReason::StopSequence(1)));
    assert_eq!(out[..2], [TurnEvent::Started, reasoning("### is fine")]);
    assert_eq!(joined(&out), "one ## two ");
}

#[test]
fn held_back_text_comes_before_calls_and_the_end() {
    let mut leg = controls(&json!({ "stop": ["###"] }));
    let (out, verdict) = run(&mut leg, [text("a #"), begin(1), CALLS]);
    assert_eq!((out, verdict), (vec![text("a "), text("#"), begin(1), CALLS], ControlVerdict::Go));
    let mut leg = controls(&json!({ "stop": ["###"] }));
    assert_eq!(run(&mut leg, [text("a ##"), STOP]).0, [text("a "), text("##"), STOP]);
    let failed = TurnEvent::Failed(TurnError::new(ErrorCode::Unavailable, "later"));
    let mut leg = controls(&json!({ "stop": ["###"] }));
    assert_eq!(run(&mut leg, [text("#"), failed.clone()]).0, [text("#"), failed]);
}

#[test]
fn started_call_is_completed() {
    let mut leg = controls(&json!({ "stop": ["END"], "max_tokens": 5 }));
    let id = CallId::sanitised("1");
    let args = TurnEvent::ToolCallArgs {
        id: id.clone(),
        delta: "{\"a\": \"far too long for it\"}".into(),
    };
    let end = TurnEvent::ToolCallEnd { id };
    let events =
        [text("look"), begin(1), args.clone(), end.clone(), text(" and END more"), begin(2), CALLS];
    let (out, verdict) = run(&mut leg, events);
    assert_eq!(
        (out, verdict),
        (vec![text("look"), begin(1), args, end, begin(2), CALLS], ControlVerdict::Go)
    );
}

#[test]
fn no_call_starts_after_the_token_limit() {
    let mut leg = controls(&json!({ "max_tokens": 2 }));
    let (out, verdict) = run(&mut leg, [text("one"), text(" two"), begin(1)]);
    assert_eq!(
        (joined(&out).as_str(), verdict),
        ("one two", ControlVerdict::End(FinishReason::Length))
    );
    assert!(!out.contains(&begin(1)));
}

#[test]
fn reasoning_and_text_share_the_limit() {
    let mut leg = controls(&json!({ "max_completion_tokens": 4 }));
    let (out, verdict) = run(&mut leg, [reasoning("one two"), text("three four five"), STOP]);
    assert_eq!(verdict, ControlVerdict::End(FinishReason::Length));
    assert_eq!(joined(&out), "three four");
    // An estimate of what the model said is no more than what was allowed.
    let estimate = Usage { input: 10, output: 5, ..Usage::default() };
    assert_eq!(leg.whole_usage(estimate, FinishReason::Length).output, 4);
    assert_eq!(leg.whole_usage(estimate, FinishReason::Stop).output, 5);
}

#[test]
fn hidden_reasoning_does_not_count_towards_the_limit() {
    let mut asked = request(&json!({ "max_tokens": 2 }));
    asked.hints.hides_reasoning = true;
    let mut leg = *prepare(&mut asked, Family::Gpt).unwrap().unwrap();
    let thoughts = reasoning("far more than two tokens of it");
    let events = [thoughts.clone(), text("one"), thoughts, text(" two three"), STOP];
    let (out, verdict) = run(&mut leg, events);
    assert_eq!(verdict, ControlVerdict::End(FinishReason::Length));
    assert_eq!(joined(&out), "one two");
    // It is part of the output all the same.
    let estimate = Usage { input: 10, output: 19, reasoning: 14, ..Usage::default() };
    assert_eq!(leg.whole_usage(estimate, FinishReason::Length).output, 16);
}

#[test]
fn valid_answer_is_unchanged() {
    let mut leg = controls(&json!({ "max_tokens": 3 }));
    let (out, verdict) = run(&mut leg, [text("one two"), text(" three"), STOP]);
    assert_eq!((joined(&out).as_str(), verdict), ("one two three", ControlVerdict::Go));
    assert_eq!(out.last(), Some(&STOP));
}

fn number() -> serde_json::Value {
    json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": {
        "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } },
        "required": ["n"], "additionalProperties": false,
    } } })
}

#[test]
fn streamed_json_fails_at_the_first_violation() {
    let mut leg = controls(&json!({ "stream": true, "response_format": number() }));
    let (out, verdict) = run(&mut leg, [text("```json\n{\"n\":"), text(" \"one\"}"), STOP]);
    assert_eq!(joined(&out), "{\"n\": ");
    let ControlVerdict::Fail(error) = verdict else { panic!("{verdict:?}") };
    assert_eq!(error.code, ErrorCode::FormatUnmet);
    assert!(error.message.contains("`/n` should be integer but is string"), "{error}");

    let mut leg = controls(&json!({ "stream": true, "response_format": number() }));
    let (out, verdict) = run(&mut leg, [text("{\"n\": 0}"), STOP]);
    assert_eq!(joined(&out), "{\"n\": 0}", "only the whole shows it");
    assert!(
        matches!(verdict, ControlVerdict::Fail(error) if error.message.contains("`/n` does not fit"))
    );
}

#[test]
fn invalid_json_reply_gets_one_repair() {
    let mut leg = controls(&json!({ "response_format": number() }));
    let usage = |input| {
        TurnEvent::Usage(Usage {
            input,
            output: 1,
            source: UsageSource::Backend,
            ..Usage::default()
        })
    };
    let (out, verdict) = run(&mut leg, [TurnEvent::Started, text("Well: {}"), usage(10), STOP]);
    assert_eq!(out, [TurnEvent::Started], "nothing of it goes out");
    let ControlVerdict::Again(ask, _) = verdict else { panic!("{verdict:?}") };
    assert!(ask.contains("the answer is not valid JSON"), "{ask}");
    assert!(leg.asked_again() && !leg.lacks_usage());

    let mut other = controls(&json!({ "response_format": number() }));
    run(&mut other, [text("{}"), STOP]);
    let (out, verdict) =
        run(&mut leg, [TurnEvent::Started, text("```{\"n\": 1}```"), usage(20), STOP]);
    assert_eq!((out, verdict), (vec![text("{\"n\": 1}"), usage(20), STOP], ControlVerdict::Go));
    let TurnEvent::Usage(second) = usage(20) else { unreachable!() };
    let both = leg.summed(second);
    assert_eq!((both.input, both.output), (30, 2), "readers see what both took");

    assert!(other.lacks_usage());
    other.add_usage(Usage { input: 5, output: 5, ..Usage::default() });
    let (_, verdict) = run(&mut other, [text("{\"n\": []}"), STOP]);
    assert!(matches!(verdict, ControlVerdict::Fail(error) if error.message.contains("`/n`")));
}

#[test]
fn text_before_a_call_need_not_be_json() {
    let tools = json!([{ "type": "function", "function": { "name": "bash" } }]);
    for stream in [true, false] {
        let extra = json!({ "stream": stream, "tools": tools, "response_format": number() });
        let mut leg = controls(&extra);
        let (out, verdict) = run(&mut leg, [text("Let me"), text(" look."), begin(1), CALLS]);
        assert_eq!((joined(&out).as_str(), verdict), ("Let me look.", ControlVerdict::Go));
        assert_eq!(out[out.len() - 2..], [begin(1), CALLS]);
        // Without a call they are an answer, and a wrong one.
        let (out, verdict) = run(&mut controls(&extra), [text("Let me"), text(" look."), STOP]);
        assert_eq!(out, []);
        assert_eq!(matches!(verdict, ControlVerdict::Fail(_)), stream, "{verdict:?}");
    }
}

#[test]
fn text_before_a_call_obeys_the_limits() {
    let tools = json!([{ "type": "function", "function": { "name": "bash" } }]);
    for stream in [true, false] {
        let extra = |more: (&str, serde_json::Value)| {
            let mut extra =
                json!({ "stream": stream, "tools": tools, "response_format": number() });
            extra[more.0] = more.1;
            extra
        };
        let unmet = |verdict: &ControlVerdict| matches!(verdict, ControlVerdict::Fail(error) if error.code == ErrorCode::FormatUnmet);
        let words = || [text("Let me"), text(" look it up for you now."), begin(1), CALLS];
        for more in [("max_tokens", json!(4)), ("stop", json!(["up"]))] {
            let (out, verdict) = run(&mut controls(&extra(more.clone())), words());
            assert!(out.is_empty() && unmet(&verdict), "{more:?}: {out:?} {verdict:?}");
        }
        let mut leg = controls(&extra(("max_tokens", json!(100))));
        let (out, verdict) = run(&mut leg, words());
        let seen = joined(&out);
        assert_eq!(
            (seen.as_str(), verdict),
            ("Let me look it up for you now.", ControlVerdict::Go)
        );

        let mut leg = controls(&extra(("n", json!(1))));
        let long = (0..10).map(|_| text(&"x".repeat(1 << 20)));
        let (out, verdict) = run(&mut leg, long);
        assert!(out.is_empty() && unmet(&verdict), "{verdict:?}");
    }
}

#[test]
fn repaired_answer_with_a_call_has_its_own_tokens() {
    let tools = json!([{ "type": "function", "function": { "name": "bash" } }]);
    let mut leg = controls(&json!({ "tools": tools, "response_format": number() }));
    let usage = |input| Usage { input, source: UsageSource::Backend, ..Usage::default() };
    let (_, verdict) = run(&mut leg, [text("No."), TurnEvent::Usage(usage(10)), STOP]);
    assert!(matches!(verdict, ControlVerdict::Again(..)));
    let (out, _) = run(&mut leg, [begin(1), TurnEvent::Usage(usage(20)), CALLS]);
    assert_eq!(out, [begin(1), TurnEvent::Usage(usage(20)), CALLS]);
    assert_eq!(leg.summed(usage(20)).input, 30);
}

#[test]
fn json_cut_by_a_client_limit_is_not_validated() {
    for stream in [true, false] {
        let extra = json!({ "stream": stream, "max_tokens": 4, "response_format": { "type": "json_object" } });
        let (out, verdict) = run(
            &mut controls(&extra),
            [text("{\"name\": \"a long story"), text(" and more\"}"), STOP],
        );
        assert_eq!(verdict, ControlVerdict::End(FinishReason::Length));
        assert!(!out.is_empty() && "{\"name\": \"a long".starts_with(&joined(&out)), "{out:?}");
    }
}

#[test]
fn prompt_states_the_format_and_invalid_schemas_are_refused() {
    let mut asked = request(&json!({ "response_format": number() }));
    asked.system = vec!["Be brief.".to_owned()];
    prepare(&mut asked, Family::Gpt).unwrap();
    assert_eq!(asked.system[0], "Be brief.");
    assert!(asked.system[1].contains("\"minimum\":1"), "{:?}", asked.system);
    // Of nothing but instructions, the last one is the question.
    asked.items.clear();
    asked.system = vec!["Be brief.".to_owned(), "Give me one.".to_owned()];
    prepare(&mut asked, Family::Gpt).unwrap();
    assert_eq!(asked.system[2], "Give me one.");

    let bad =
        AnswerFormat::Schema(Schema { name: "n".to_owned(), text: "{\"type\": 5}".to_owned() });
    asked.sampling.format = bad;
    let error = prepare(&mut asked, Family::Gpt).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidValue);
    assert_eq!(error.param.as_deref(), Some("response_format.json_schema.schema"));
}

#[test]
fn stop_sequences_are_limited() {
    for (stop, param) in
        [(vec!["a".to_owned(); 17], "stop"), (vec!["a".to_owned(), "b".repeat(2000)], "stop[1]")]
    {
        let mut asked = request(&json!({ "stop": stop }));
        let error = prepare(&mut asked, Family::Gpt).unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), (ErrorCode::InvalidValue, Some(param)));
    }
}

proptest! {
    /// However the text is cut into pieces, the client sees the same, no sequence among it,
    /// and no more tokens than it allowed.
    #[test]
    fn chunking_does_not_change_the_output(
        words in prop::collection::vec(
            prop_oneof![Just(" one"), Just(" two"), Just("END"), Just("E"), Just("N"), Just("\n"), Just("12"), Just("{\"a\": ["), Just("é")], 1..30),
        limit in 1u64..20,
        format in prop_oneof![Just("text"), Just("json_object")],
        stream in any::<bool>(),
        cuts in prop::collection::vec(0usize..120, 0..10),
    ) {
        let whole = words.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| whole.floor_char_boundary(at)).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let extra = json!({ "stop": ["END", "two\n"], "max_tokens": limit, "stream": stream,
                            "response_format": { "type": format } });
        let pieces = cuts.windows(2).map(|pair| text(&whole[pair[0]..pair[1]]));
        let (out, verdict) = run(&mut controls(&extra), pieces.chain([STOP]));
        let (one, same) = run(&mut controls(&extra), [text(&whole), STOP]);
        prop_assert_eq!(joined(&out), joined(&one));
        prop_assert_eq!(&verdict, &same);
        let seen = joined(&out);
        prop_assert!(!seen.contains("END") && !seen.contains("two\n"), "{}", seen);
        prop_assert!(tokens::count(&seen, Family::Gpt) <= limit);
        if verdict == ControlVerdict::Go {
            prop_assert_eq!(out.last(), Some(&STOP));
            prop_assert_eq!(seen.trim(), whole.trim());
        }
    }
}
