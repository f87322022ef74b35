use super::*;
use crate::session::EVENTS_CAP;
use ibeam_core::model::FinishReason;

const STALL: Duration = Duration::from_secs(60);

fn text(n: usize) -> TurnEvent {
    TurnEvent::Text(n.to_string())
}

fn end() -> TurnEvent {
    TurnEvent::Finished(FinishReason::Stop)
}

async fn rest(mut stream: TurnStream) -> Vec<TurnEvent> {
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        all.push(event);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn every_reader_gets_every_event() {
    let mut readers = LegReaders::default();
    let first = readers.open();
    readers.send(text(0));
    let second = readers.attach(&[text(0)]).unwrap();
    readers.send(text(1));
    readers.send(end());
    readers.end_leg();
    assert!(readers.is_empty(), "nobody is behind");
    let want = [text(0), text(1), end()];
    assert_eq!(
        (rest(first).await.as_slice(), rest(second).await.as_slice()),
        (&want[..], &want[..])
    );
}

#[tokio::test(start_paused = true)]
async fn full_reader_blocks_and_continues() {
    let mut readers = LegReaders::default();
    let mut stream = readers.open();
    for n in 0..=EVENTS_CAP {
        assert!(!readers.is_blocked(), "{n}");
        readers.send(text(n));
    }
    assert!(readers.is_blocked());
    assert_eq!(readers.deadline(STALL), Some(Instant::now() + STALL));
    assert_eq!(stream.next().await, Some(text(0)));
    readers.changed().await;
    assert!(!readers.is_blocked());
    assert_eq!(readers.deadline(STALL), None);
    for n in 1..=EVENTS_CAP {
        assert_eq!(stream.next().await, Some(text(n)));
    }
}

#[tokio::test(start_paused = true)]
async fn finished_leg_is_read_to_its_end_and_blocks_nothing() {
    let mut readers = LegReaders::default();
    let slow = readers.open();
    for n in 0..EVENTS_CAP + 3 {
        readers.send(text(n));
    }
    readers.send(end());
    readers.end_leg();
    assert!(!readers.is_empty() && !readers.is_blocked());
    // The next leg has a reader of its own.
    let next = readers.open();
    readers.send(text(99));
    assert_eq!(readers.count(), 1);
    let (all, ()) = tokio::join!(rest(slow), async {
        while readers.list.len() > 1 {
            readers.changed().await;
        }
    });
    assert_eq!((all.len(), all.last()), (EVENTS_CAP + 4, Some(&end())));
    readers.send(end());
    readers.end_leg();
    assert_eq!(rest(next).await, [text(99), end()]);
}

#[tokio::test(start_paused = true)]
async fn disconnected_readers_are_noticed_and_stalled_ones_are_cut() {
    let mut readers = LegReaders::default();
    let (leaves, sleeps) = (readers.open(), readers.attach(&[]).unwrap());
    drop(leaves);
    readers.changed().await;
    assert_eq!(readers.count(), 1);
    for n in 0..=EVENTS_CAP {
        readers.send(text(n));
    }
    tokio::time::advance(STALL - Duration::from_millis(1)).await;
    assert!(!readers.cut_stalled(STALL));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(readers.cut_stalled(STALL));
    assert_eq!(readers.count(), 0);
    let all = rest(sleeps).await;
    assert_eq!(all.len(), EVENTS_CAP + 1);
    assert!(matches!(all.last(), Some(TurnEvent::Failed(_))), "it reads why");
}

#[tokio::test(start_paused = true)]
async fn number_of_readers_is_four() {
    let mut readers = LegReaders::default();
    let _first = readers.open();
    let more: Vec<_> = (0..4).map(|_| readers.attach(&[])).collect();
    assert_eq!(more.iter().flatten().count(), READERS - 1);
}
