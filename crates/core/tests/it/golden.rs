//! One recording of the backend in every dialect: as a stream and as a whole.

use ibeam_core::model::{FinishReason, Sampling, TurnEvent};

use crate::{
    dialects::{ALL, Dialect, Ending, STOPS},
    recording,
};

/// Both forms of a turn, as they go over the wire.
fn written(dialect: &Dialect, events: &[TurnEvent]) -> String {
    let stream = dialect.stream(events, &[]);
    let whole = match dialect.reply(events) {
        Ok(reply) => {
            let whole = Ending::Whole(serde_json::from_str(&reply).unwrap());
            assert_eq!(dialect.read(&stream), Ok(whole), "{}", dialect.name);
            reply
        }
        Err(error) => format!("{:?}, {}", error.code, error.code.row().status),
    };
    let stream = String::from_utf8(stream).unwrap();
    format!("{stream}=== not streamed ===\n{whole}")
}

fn check(name: &str, events: &[TurnEvent]) {
    // One way of speaking each is enough to look at; the laws go over all.
    for dialect in ALL.iter().filter(|dialect| !dialect.name.contains('-')) {
        insta::assert_snapshot!(format!("{name}_{}", dialect.name), written(dialect, events));
    }
}

#[test]
fn recordings_match_the_golden_files_in_every_dialect() {
    for recording in recording::all() {
        check(recording.name, &recording.events());
    }
}

/// The endings that the backend knows nothing of: the client's limits, met on the way.
#[test]
fn controlled_answers_match_the_golden_files_in_every_dialect() {
    let stop = STOPS.map(str::to_owned).to_vec();
    for (name, played, sampling, reason) in [
        (
            "length",
            "answer",
            Sampling { max_tokens: Some(8), ..Sampling::default() },
            FinishReason::Length,
        ),
        (
            "stop",
            "sequence",
            Sampling { stop, ..Sampling::default() },
            FinishReason::StopSequence(0),
        ),
    ] {
        let mut recordings = recording::all().into_iter();
        let recording = recordings.find(|recording| recording.name == played).unwrap();
        let events = recording.controlled(sampling);
        assert_eq!(events.last(), Some(&TurnEvent::Finished(reason)), "{name}");
        check(name, &events);
    }
}
