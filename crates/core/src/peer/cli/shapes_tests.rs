//! An answer is output once, in every format and whatever is around it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    hear,
    testing::{bare, delta, ends, flush, heard, shell, success, text},
};
use crate::peer::child::ChildEvent;

/// Texts that repeat themselves, in the pieces in which they come.
const REPEATED: [&[&str]; 9] = [
    &["no", " no", " no"],
    &["no", "no", "no", "no"],
    &["\n", "\n", "\n"],
    &["a", " a", " a", " a"],
    &["🦀", "🦀", "🦀🦀"],
    &["ha", "haha", "haha", "ha"],
    &["the ", "the ", "the the "],
    &["}", "}", "{\"type\":\"result\"}", "\n}"],
    &["e\u{301}", "\u{301}", "e\u{301}"],
];

/// A message as builds with marks write it, and whether a tool is called after it.
fn with_marks(pieces: &[&str], then_call: bool) -> Vec<Value> {
    let mut events: Vec<Value> = pieces.iter().map(|piece| delta(piece)).collect();
    let whole = pieces.concat();
    if then_call {
        events.extend([flush(&whole), shell()]);
    } else {
        events.push(bare(&whole));
    }
    events
}

/// The same as snapshots of builds without marks.
fn as_snapshots(pieces: &[&str], then_call: bool) -> Vec<Value> {
    let mut so_far = String::new();
    let mut events = Vec::new();
    for piece in pieces {
        so_far.push_str(piece);
        events.push(bare(&so_far));
    }
    events.push(bare(&so_far));
    events.extend(then_call.then(shell));
    events
}

#[test]
fn repeated_text_is_output_exactly_once_in_every_format() {
    for pieces in REPEATED {
        let whole = pieces.concat();
        let short = |piece: &&str| json!({ "type": "assistant", "text": piece });
        let shapes = [
            with_marks(pieces, false),
            with_marks(pieces, true),
            as_snapshots(pieces, false),
            as_snapshots(pieces, true),
            vec![bare(&whole)],
            vec![flush(&whole), shell()],
            pieces.iter().map(short).collect(),
            pieces.iter().map(short).chain([bare(&whole)]).collect(),
        ];
        for shape in shapes {
            let mut events = shape.clone();
            events.push(success(&whole));
            assert_eq!(text(&heard(&events)), whole, "{shape:#?}");
        }
    }
}

#[test]
fn equal_messages_with_marks_are_all_output() {
    for pieces in REPEATED {
        let mut events = with_marks(pieces, true);
        events.extend(with_marks(pieces, true));
        events.extend(with_marks(pieces, false));
        events.push(success(&pieces.concat().repeat(3)));
        assert_eq!(text(&heard(&events)), pieces.concat().repeat(3));
    }
}

/// Something that is not a part of the answer.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        Just(json!({ "type": "retry", "text": "x" }).to_string()),
        Just(json!({ "type": "system", "subtype": "notice", "message": 5 }).to_string()),
        Just(json!({ "type": "user", "message": { "content": "echo" } }).to_string()),
        Just(json!({ "type": "assistant" }).to_string()),
        Just(json!({ "type": "assistant", "message": { "content": { "text": 1 } } }).to_string()),
        Just(json!({ "type": "tool_call", "subtype": "completed", "tool_call": {} }).to_string()),
        Just("{\"type\":\"assistant\",\"text\":\"cut".to_owned()),
        Just("\u{1b}[2K\u{1b}[1G".to_owned()),
    ]
}

/// Pieces of a message, out of few words so that they repeat themselves.
fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
    const WORDS: &[&str] = &["no", " no", "\n", "a", " ", "🦀", "é", "\"", "}"];
    prop::collection::vec(prop::sample::select(WORDS), 1..8)
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (head, tail) = rest.split_at((*cut).min(rest.len()));
        chunks.push(head);
        rest = tail;
    }
    chunks
}

proptest! {
    #[test]
    fn any_split_gives_the_same_answer_despite_noise(
        messages in prop::collection::vec(pieces(), 1..4),
        noise in prop::collection::vec((any::<prop::sample::Index>(), noise()), 0..8),
        cuts in prop::collection::vec(1_usize..60, 1..20),
        crlf in any::<bool>(),
        last in any::<bool>(),
    ) {
        let mut events = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            events.extend(with_marks(message, index + 1 < messages.len()));
        }
        let want: String = messages.concat().concat();
        events.extend(last.then(|| success(&want)));
        let mut lines: Vec<String> = events.iter().map(Value::to_string).collect();
        // Nothing is read after the result, so that the noise comes before it.
        let room = lines.len() - usize::from(last);
        for (at, line) in noise {
            lines.insert(at.index(room + 1).min(room), line);
        }
        let end = if crlf { "\r\n" } else { "\n" };
        let bytes = lines.join(end).into_bytes();
        let whole = hear(&[&bytes]);
        prop_assert_eq!(&whole, &hear(&cut(&bytes, &cuts)));
        prop_assert_eq!(text(&whole), want);
        prop_assert_eq!(ends(&whole), 1);
        let is_whole = matches!(whole.last(), Some(ChildEvent::Ended(_)));
        prop_assert_eq!(is_whole, last);
    }

    #[test]
    fn snapshots_are_output_once(message in pieces(), then_call in any::<bool>()) {
        let mut events = as_snapshots(&message, then_call);
        events.push(success(&message.concat()));
        prop_assert_eq!(text(&heard(&events)), message.concat());
    }

    #[test]
    fn any_bytes_give_exactly_one_ending(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::peer::cli::fuzz(&bytes);
    }
}
