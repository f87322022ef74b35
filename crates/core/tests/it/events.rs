//! Events of turns: short names for them, random ones, and what they come to.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage, UsageSource, ids::CallId},
};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::dialects::FREEFORM;

pub(crate) fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

pub(crate) fn reasoning(text: &str) -> TurnEvent {
    TurnEvent::Reasoning(text.to_owned())
}

pub(crate) fn begin(id: &str, name: &str) -> TurnEvent {
    TurnEvent::ToolCallBegin { id: CallId::sanitised(id), name: name.to_owned() }
}

pub(crate) fn args(id: &str, delta: &str) -> TurnEvent {
    TurnEvent::ToolCallArgs { id: CallId::sanitised(id), delta: delta.to_owned() }
}

pub(crate) fn end(id: &str) -> TurnEvent {
    TurnEvent::ToolCallEnd { id: CallId::sanitised(id) }
}

pub(crate) fn usage() -> TurnEvent {
    TurnEvent::Usage(Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    })
}

// === what is said, whatever the dialect ===

/// What a turn says, however it was cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gist {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

impl Call {
    /// From a reply; some dialects give the arguments as text.
    pub(crate) fn new(id: &Value, name: &Value, given: &Value) -> Self {
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let arguments = given.as_str().map_or_else(|| given.clone(), arguments);
        Self { id: said(id), name: said(name), arguments }
    }
}

/// Arguments are an object; anything else becomes an empty one in the dialects that
/// cannot express text.
pub(crate) fn arguments(text: &str) -> Value {
    serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default().into()
}

impl Gist {
    pub(crate) fn of(events: &[TurnEvent]) -> Self {
        let mut gist = Self::default();
        let mut calls: Vec<(String, String, String)> = Vec::new();
        for event in events {
            match event {
                TurnEvent::Text(text) => gist.text.push_str(text),
                TurnEvent::Reasoning(text) => gist.reasoning.push_str(text),
                TurnEvent::ToolCallBegin { id, name } => {
                    calls.push((id.to_string(), name.clone(), String::new()));
                }
                TurnEvent::ToolCallArgs { id, delta } => {
                    let call = calls.iter_mut().rev().find(|call| call.0 == id.as_str());
                    call.expect("the guard knows it").2.push_str(delta);
                }
                TurnEvent::Started
                | TurnEvent::ToolCallEnd { .. }
                | TurnEvent::Usage(_)
                | TurnEvent::Finished(_)
                | TurnEvent::Failed(_) => {}
            }
        }
        let call = |(id, name, text): (String, String, String)| Call {
            id,
            name,
            arguments: arguments(&text),
        };
        gist.calls = calls.into_iter().map(call).collect();
        gist
    }
}

// === random ones ===

/// Any events at all, legal or not.
pub(crate) fn any_events() -> impl Strategy<Value = Vec<TurnEvent>> {
    prop::collection::vec(any_event(), 0..50)
}

/// Events that a turn may give: what breaks its rules is left out, so that every legal
/// sequence can come up, and most of them have an ending.
pub(crate) fn legal_events() -> impl Strategy<Value = Vec<TurnEvent>> {
    (any_events(), prop::option::weighted(0.8, any_ending())).prop_map(|(mut events, ending)| {
        events.retain(|event| !event.is_terminal());
        if let Some(ending) = ending {
            events.extend(["a", "b", "c"].map(end));
            events.push(ending);
        }
        let mut guard = TerminalGuard::default();
        events.retain(|event| guard.check(event).is_ok());
        events
    })
}

fn any_event() -> impl Strategy<Value = TurnEvent> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let name = prop::sample::select(vec!["bash", "now", FREEFORM]);
    let piece = prop_oneof![
        3 => Just(r#"{"input":"a\nb\u00e9\ud83e\udd80"}"#.to_owned()),
        1 => Just("{\"input\":".to_owned()),
        1 => Just("\"x\"}".to_owned()),
        1 => Just(r#"{"deep":{"a":[1,2.5,null]},"b":"}"}"#.to_owned()),
        1 => words(),
    ];
    prop_oneof![
        1 => Just(TurnEvent::Started),
        5 => words().prop_map(TurnEvent::Text),
        3 => words().prop_map(TurnEvent::Reasoning),
        3 => (id.clone(), name).prop_map(|(id, name)| begin(id, name)),
        6 => (id.clone(), piece).prop_map(|(id, delta)| args(id, &delta)),
        3 => id.prop_map(end),
        1 => any_usage().prop_map(TurnEvent::Usage),
        1 => any_ending(),
    ]
}

/// Text that hurts: nothing, everything that JSON or an event stream must escape.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        ".{0,6}",
        Just("\"\\\n\n\r\u{2028}\u{0}é🦀".to_owned()),
        Just("data: [DONE]\n\nevent: error\ndata: {}\n\n".to_owned()),
    ]
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![0_u64..1000, Just(u64::MAX)];
    (count(), count(), count(), count(), count()).prop_map(
        |(input, output, cache_read, cache_write, reasoning)| Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
            source: UsageSource::Backend,
        },
    )
}

fn any_ending() -> impl Strategy<Value = TurnEvent> {
    let reasons = [
        FinishReason::Stop,
        FinishReason::StopSequence(0),
        FinishReason::StopSequence(1),
        FinishReason::Length,
        FinishReason::ToolCalls,
    ];
    prop_oneof![
        4 => prop::sample::select(reasons.to_vec()).prop_map(TurnEvent::Finished),
        1 => prop::sample::select(ErrorCode::ALL.to_vec()).prop_map(|code| {
            TurnEvent::Failed(TurnError::new(code, "went wrong").param("messages[0]").cause("why"))
        }),
    ]
}

/// The same turn, cut into other pieces: neighbouring deltas of one thing are joined, and
/// what is joined is cut again at every `step` characters.
pub(crate) fn recut(events: &[TurnEvent], step: usize) -> Vec<TurnEvent> {
    let mut joined: Vec<TurnEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(TurnEvent::Text(all)), TurnEvent::Text(more))
            | (Some(TurnEvent::Reasoning(all)), TurnEvent::Reasoning(more)) => all.push_str(more),
            (
                Some(TurnEvent::ToolCallArgs { id, delta }),
                TurnEvent::ToolCallArgs { id: same, delta: more },
            ) if id == same => delta.push_str(more),
            _ => joined.push(event.clone()),
        }
    }
    let cut = |whole: &str| -> Vec<String> {
        let all: Vec<char> = whole.chars().collect();
        all.chunks(step).map(|piece| piece.iter().collect()).collect()
    };
    let mut pieces = Vec::new();
    for event in joined {
        match event {
            TurnEvent::Text(whole) => pieces.extend(cut(&whole).into_iter().map(TurnEvent::Text)),
            TurnEvent::Reasoning(whole) => {
                pieces.extend(cut(&whole).into_iter().map(TurnEvent::Reasoning));
            }
            TurnEvent::ToolCallArgs { id, delta } => {
                let cut = cut(&delta).into_iter();
                pieces.extend(cut.map(|delta| TurnEvent::ToolCallArgs { id: id.clone(), delta }));
            }
            other => pieces.push(other),
        }
    }
    pieces
}
