use super::*;
use crate::session::visit;
use ibeam_core::model::{FinishReason, TurnEvent};

const A: LegKey = [1; 32];
const B: LegKey = [2; 32];

fn names(key: LegKey, body: u8) -> LegKeys {
    LegKeys { keys: vec![key], body: [body; 32] }
}

fn record(bytes: usize) -> LegRecord {
    let mut record = LegRecord::default();
    record.push(&TurnEvent::Text("x".repeat(bytes)));
    record.push(&TurnEvent::Finished(FinishReason::Stop));
    record
}

fn running(found: Option<FoundLeg>) -> Option<u32> {
    match found? {
        FoundLeg::Running { number, .. } => Some(number),
        FoundLeg::Coming(_) | FoundLeg::Finished(_) => None,
    }
}

fn find(legs: &LegIndex, key: &LegKey, body: Option<&LegKey>) -> Option<FoundLeg> {
    legs.inner.lock().forget_until(Instant::now());
    legs.inner.lock().find(&LegQuery { key: *key, body: body.copied() })
}

fn begin(legs: &LegIndex, names: LegKeys, mailbox: mpsc::Sender<Visit>, number: u32) -> LegEntry {
    let leg_entry = legs.reserve(names);
    leg_entry.begin(mailbox, number);
    leg_entry
}

fn finished(found: &Option<FoundLeg>) -> bool {
    matches!(found, Some(FoundLeg::Finished(_)))
}

#[tokio::test(start_paused = true)]
async fn leg_is_found_while_it_runs_and_for_a_while_after() {
    let legs = LegIndex::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let leg_entry = begin(&legs, names(A, 1), mailbox, 7);
    assert_eq!(running(find(&legs, &A, None)), Some(7));
    assert_eq!(running(find(&legs, &A, Some(&[1; 32]))), Some(7));
    assert_eq!(running(find(&legs, &A, Some(&[2; 32]))), None, "another body");
    assert!(find(&legs, &B, None).is_none());
    leg_entry.finish(record(10));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(finished(&find(&legs, &A, None)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(find(&legs, &A, None).is_none());
    assert!(legs.inner.lock().legs.is_empty() && legs.inner.lock().bytes == 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_or_replaced_leg_is_not_found() {
    let legs = LegIndex::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let old = begin(&legs, names(A, 1), mailbox.clone(), 1);
    let new = begin(&legs, names(A, 2), mailbox, 2);
    assert_eq!(running(find(&legs, &A, None)), Some(2));
    drop(old);
    assert_eq!(running(find(&legs, &A, None)), Some(2), "the name is the other's by now");
    drop(new);
    assert!(find(&legs, &A, None).is_none());
    assert!(legs.inner.lock().by_key.is_empty());
}

#[tokio::test(start_paused = true)]
async fn kept_legs_are_limited() {
    let legs = LegIndex::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    for n in 0..20 {
        begin(&legs, names([n; 32], 0), mailbox.clone(), 1).finish(record(3 << 20));
    }
    assert!(find(&legs, &[0; 32], None).is_none(), "the oldest went");
    assert!(finished(&find(&legs, &[19; 32], None)));
    assert!(legs.inner.lock().bytes <= REPLAY_BYTES);
}

#[tokio::test(start_paused = true)]
async fn abandoned_leg_is_preferred_among_equal_requests() {
    let legs = LegIndex::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let left = begin(&legs, names(A, 1), mailbox.clone(), 1);
    let _read = begin(&legs, names(A, 1), mailbox.clone(), 2);
    left.reclaim();
    assert_eq!(running(find(&legs, &A, None)), Some(1));
    // Another request under the same key is not disturbed.
    let _other = begin(&legs, names(A, 2), mailbox, 3);
    left.reclaim();
    assert_eq!(running(find(&legs, &A, None)), Some(3));
}

#[tokio::test(start_paused = true)]
async fn second_of_two_simultaneous_queries_waits() {
    let legs = LegIndex::new(Duration::from_secs(60));
    let (mailbox, _inbox) = visit::mailbox();
    let probes = [LegQuery { key: A, body: None }];
    let ask = || legs.find_or_reserve(&probes, &names(A, 1));
    let first = ask().expect_err("nobody came before");
    let Ok(FoundLeg::Coming(mut coming)) = ask() else { panic!("not waited for") };
    let waits = async {
        coming.changed().await.unwrap_err();
        running(ask().ok())
    };
    let (found, ()) = tokio::join!(waits, async { first.begin(mailbox, 3) });
    assert_eq!(found, Some(3));
    drop(first);
    // One that gives up lets the next have its place.
    let second = ask().expect_err("what failed is forgotten");
    let Ok(FoundLeg::Coming(mut coming)) = ask() else { panic!("not waited for") };
    drop(second);
    coming.changed().await.unwrap_err();
    assert!(ask().is_err());
}
