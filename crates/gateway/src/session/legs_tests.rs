use super::*;
use crate::session::visit;
use ibeam_core::model::{FinishReason, TurnEvent};

const A: Key = [1; 32];
const B: Key = [2; 32];

fn names(key: Key, body: u8) -> Names {
    Names { keys: vec![key], body: [body; 32] }
}

fn record(bytes: usize) -> Record {
    let mut record = Record::default();
    record.push(&TurnEvent::Text("x".repeat(bytes)));
    record.push(&TurnEvent::Finished(FinishReason::Stop));
    record
}

fn running(found: Option<Found>) -> Option<u32> {
    match found? {
        Found::Running { number, .. } => Some(number),
        Found::Finished(_) => None,
    }
}

fn finished(found: &Option<Found>) -> bool {
    matches!(found, Some(Found::Finished(_)))
}

#[tokio::test(start_paused = true)]
async fn a_leg_is_found_while_it_runs_and_a_while_after() {
    let legs = Legs::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let ticket = legs.begin(names(A, 1), mailbox, 7);
    assert_eq!(running(legs.find(&A, None)), Some(7));
    assert_eq!(running(legs.find(&A, Some(&[1; 32]))), Some(7));
    assert_eq!(running(legs.find(&A, Some(&[2; 32]))), None, "another body");
    assert!(legs.find(&B, None).is_none());
    ticket.finish(record(10));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(finished(&legs.find(&A, None)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(legs.find(&A, None).is_none());
    assert!(legs.inner.lock().legs.is_empty() && legs.inner.lock().bytes == 0);
}

#[tokio::test(start_paused = true)]
async fn what_failed_or_was_taken_over_is_not_found() {
    let legs = Legs::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let old = legs.begin(names(A, 1), mailbox.clone(), 1);
    let new = legs.begin(names(A, 2), mailbox, 2);
    assert_eq!(running(legs.find(&A, None)), Some(2));
    drop(old);
    assert_eq!(running(legs.find(&A, None)), Some(2), "the name is the other's by now");
    drop(new);
    assert!(legs.find(&A, None).is_none());
    assert!(legs.inner.lock().by_key.is_empty());
}

#[tokio::test(start_paused = true)]
async fn there_is_a_limit_to_what_is_kept() {
    let legs = Legs::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    for n in 0..20 {
        legs.begin(names([n; 32], 0), mailbox.clone(), 1).finish(record(3 << 20));
    }
    assert!(legs.find(&[0; 32], None).is_none(), "the oldest went");
    assert!(finished(&legs.find(&[19; 32], None)));
    assert!(legs.inner.lock().bytes <= REPLAY_BYTES);
}

#[tokio::test(start_paused = true)]
async fn of_equal_requests_the_one_that_was_left_is_asked_for_again() {
    let legs = Legs::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let left = legs.begin(names(A, 1), mailbox.clone(), 1);
    let _read = legs.begin(names(A, 1), mailbox.clone(), 2);
    left.reclaim();
    assert_eq!(running(legs.find(&A, None)), Some(1));
    // Another request under the same key is not disturbed.
    let _other = legs.begin(names(A, 2), mailbox, 3);
    left.reclaim();
    assert_eq!(running(legs.find(&A, None)), Some(3));
}
