//! The readers read strictly: a stream that is changed anywhere is refused, or gives
//! another reply. Without this the laws would prove little.

use ibeam_core::model::{FinishReason, TurnEvent};

use crate::{
    dialects::{ALL, Dialect, Ending, FREEFORM},
    events::{args, begin, end, reasoning, text, usage},
    sse::{self, Frame},
};

/// A turn with everything in it.
fn events() -> Vec<TurnEvent> {
    vec![
        TurnEvent::Started,
        reasoning("Let me "),
        reasoning("see."),
        text("I will "),
        text("look."),
        begin("a", "bash"),
        args("a", r#"{"command":"#),
        args("a", r#""ls"}"#),
        begin("b", FREEFORM),
        args("b", r#"{"input":"x"}"#),
        end("a"),
        end("b"),
        usage(),
        TurnEvent::Finished(FinishReason::ToolCalls),
    ]
}

fn frames(dialect: &Dialect) -> Vec<Frame> {
    sse::parse(&dialect.stream(&events(), &[])).unwrap()
}

/// Every stream that differs from the right one by a frame.
fn changed(frames: &[Frame]) -> impl Iterator<Item = (String, Vec<Frame>)> {
    (0..frames.len()).flat_map(move |at| {
        let mut without = frames.to_vec();
        let frame = without.remove(at);
        let mut twice = frames.to_vec();
        twice.insert(at, frame.clone());
        let mut renamed = frames.to_vec();
        renamed[at].event = Some("nonsense".to_owned());
        let mut broken = frames.to_vec();
        broken[at].data.push('}');
        [("without", without), ("twice", twice), ("renamed", renamed), ("broken", broken)]
            .map(|(how, changed)| (format!("{how} {at}: {}", frame.data), changed))
    })
}

#[test]
fn readers_notice_any_change() {
    for dialect in ALL {
        let right = frames(dialect);
        let reply = (dialect.reader)(&right).unwrap();
        assert!(matches!(reply, Ending::Whole(_)), "{}", dialect.name);
        let mut refused = 0;
        for (how, changed) in changed(&right) {
            match (dialect.reader)(&changed) {
                Ok(told) => assert_ne!(told, reply, "{}: {how}", dialect.name),
                Err(_) => refused += 1,
            }
        }
        // Of each frame two of the four are wrong in any dialect.
        assert!(refused >= 2 * right.len(), "{}: {refused}", dialect.name);
    }
}

#[test]
fn readers_notice_reordered_events() {
    for dialect in ALL
        .iter()
        .filter(|dialect| dialect.name == "responses" || dialect.name.starts_with("messages"))
    {
        let right = frames(dialect);
        for at in 1..right.len() {
            let mut swapped = right.clone();
            swapped.swap(at - 1, at);
            let told = (dialect.reader)(&swapped);
            assert_ne!(told, (dialect.reader)(&right), "{}: {:?}", dialect.name, right[at]);
        }
    }
}
