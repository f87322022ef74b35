//! A backend that asks for much and reads little.

use super::*;

const BLOB: usize = 256 << 10;
const ASKED: u32 = 40;

/// In one piece: all the questions are there before the first answer can be sent.
fn questions() -> Bytes {
    let frames = (1..=ASKED).map(|id| {
        let get = GetBlobArgs { blob_id: Bytes::from_static(b"large") };
        connect::encode(&AgentServerMessage {
            message: Some(FromServer::KvServerMessage(KvServerMessage {
                id,
                message: Some(kv_server_message::Message::GetBlobArgs(get)),
                ..KvServerMessage::default()
            })),
            ..AgentServerMessage::default()
        })
    });
    frames.collect::<Vec<_>>().concat().into()
}

fn with_large_blob() -> Bench {
    let mut bench = Bench::open(&[]);
    bench.say(FromServer::KvServerMessage(KvServerMessage {
        message: Some(kv_server_message::Message::SetBlobArgs(SetBlobArgs {
            blob_id: Bytes::from_static(b"large"),
            blob_data: Bytes::from(vec![b'x'; BLOB]),
        })),
        ..KvServerMessage::default()
    }));
    bench.commands.clear();
    bench.taped.forget();
    bench
}

/// The bytes of the messages that wait in the turn, which are taken.
fn queued(bench: &mut Bench) -> usize {
    let before = bench.commands.len();
    bench.drain();
    let new = bench.commands[before..].iter().map(|command| match command {
        Command::Send(frame) => frame.len(),
        other => panic!("{other:?}"),
    });
    new.sum()
}

fn answered(bench: &Bench) -> Vec<u32> {
    let answers = bench.sent().into_iter().filter_map(|message| match message {
        ToServer::KvClientMessage(answer) => Some(answer.id),
        _ => None,
    });
    answers.collect()
}

#[test]
fn answers_that_are_not_sent_stay_few() {
    let mut bench = with_large_blob();
    bench.turn.on_message(questions(), bench.now);
    assert!(bench.turn.is_congested(), "nothing more should be read");
    // Neither time nor more frames make more of them.
    for _ in 0..5 {
        bench.turn.on_timeout(bench.now);
        bench.turn.on_message(questions(), bench.now);
    }
    assert_ne!(bench.turn.poll_deadline(), Some(Millis(0)), "it waits for its caller");
    let bytes = queued(&mut bench);
    assert!((BLOB..=(1 << 20) + 2 * BLOB).contains(&bytes), "{bytes}");
}

#[test]
fn all_questions_are_answered_once_there_is_room() {
    let mut bench = with_large_blob();
    bench.turn.on_message(questions(), bench.now);
    let mut most = queued(&mut bench);
    while bench.turn.poll_deadline().is_some_and(|due| due <= bench.now) {
        bench.turn.on_timeout(bench.now);
        most = most.max(queued(&mut bench));
    }
    assert!(most <= (1 << 20) + 2 * BLOB, "{most}");
    assert_eq!(answered(&bench), (1..=ASKED).collect::<Vec<_>>());
    assert!(!bench.turn.is_congested());
    finish(&mut bench, "done");
    assert_eq!(bench.said(), "done");
}

/// A turn whose answers are not taken can still end.
#[test]
fn stop_is_not_held_back() {
    let mut bench = with_large_blob();
    bench.turn.on_message(questions(), bench.now);
    assert!(!bench.turn.is_leaving());
    bench.turn.cancel();
    assert!(bench.turn.is_leaving());
    bench.drain();
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: true })));
    assert_eq!(bench.turn.state(), TurnState::Done);
}
