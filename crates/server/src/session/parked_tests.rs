use super::*;
use crate::session::visit;

const MINE: Scope = [1; 32];

fn session(n: u8) -> SessionId {
    SessionId::from_random([n; 16])
}

fn table(count: usize, bytes: usize, turns: u8) -> (TurnTable, Vec<mpsc::Receiver<Visit>>) {
    let mut table = TurnTable::new(ParkedLimits { count, bytes });
    let mut inboxes = Vec::new();
    for n in 0..turns {
        let (mailbox, inbox) = visit::mailbox();
        let identity = TurnIdentity { scope: MINE, setup: [0; 32], model: ModelPick::default() };
        table.enter(session(n), LiveTurn { identity: Arc::new(identity), mailbox });
        inboxes.push(inbox);
    }
    (table, inboxes)
}

fn sent_away(inboxes: &mut [mpsc::Receiver<Visit>]) -> Vec<usize> {
    let mut gone = Vec::new();
    for (n, inbox) in inboxes.iter_mut().enumerate() {
        while let Ok(Visit::End { why: ParkedEnding::Evicted, .. }) = inbox.try_recv() {
            gone.push(n);
        }
    }
    gone
}

fn calls(awaiting: &[u32]) -> ParkedCalls {
    ParkedCalls { awaiting: awaiting.to_vec(), highest: 2 }
}

#[test]
fn least_recently_parked_turn_is_evicted_first() {
    let (mut table, mut inboxes) = table(2, usize::MAX, 3);
    table.park(session(0), 10, "a", calls(&[1]));
    table.park(session(1), 10, "b", calls(&[1]));
    // It was used in between, so the other turn is older.
    table.unpark(session(0));
    table.park(session(0), 10, "a", calls(&[2]));
    assert_eq!(sent_away(&mut inboxes), [0; 0]);
    table.park(session(2), 10, "c", calls(&[1]));
    assert_eq!(sent_away(&mut inboxes), [1]);
    assert_eq!(table.parked(), (2, 20));
}

#[test]
fn bytes_count_too_and_an_oversized_turn_is_evicted_at_once() {
    let (mut table, mut inboxes) = table(10, 100, 3);
    table.park(session(0), 60, "a", calls(&[]));
    table.park(session(1), 60, "b", calls(&[]));
    assert_eq!(sent_away(&mut inboxes), [0]);
    assert_eq!(table.parked(), (1, 60));
    table.park(session(2), 101, "c", calls(&[]));
    assert_eq!(sent_away(&mut inboxes), [1, 2], "the other one and itself");
    assert_eq!(table.parked(), (0, 0));
}

#[test]
fn growing_parked_turn_is_measured_again() {
    let (mut table, mut inboxes) = table(10, 100, 2);
    table.park(session(0), 20, "a", calls(&[]));
    table.park(session(1), 20, "b", calls(&[]));
    table.reweigh(session(1), 70);
    assert_eq!((table.parked(), sent_away(&mut inboxes)), ((2, 90), vec![]));
    table.reweigh(session(1), 90);
    assert_eq!((table.parked(), sent_away(&mut inboxes)), ((1, 90), vec![0]));
    table.unpark(session(1));
    table.reweigh(session(1), 50);
    assert_eq!(table.parked(), (0, 0), "it is not parked");
}

#[test]
fn parked_turn_with_a_full_mailbox_still_counts() {
    let (mut table, mut inboxes) = table(1, usize::MAX, 3);
    table.park(session(0), 10, "a", calls(&[]));
    let mailbox = table.turns[&session(0)].live.mailbox.clone();
    while mailbox.try_send(Visit::End { why: ParkedEnding::Superseded, done: None }).is_ok() {}
    table.park(session(1), 10, "b", calls(&[]));
    assert_eq!(table.parked(), (1, 10), "the next one went instead");
    assert_eq!(sent_away(&mut inboxes[1..]), [0]);
    assert!(table.turns[&session(0)].parked.is_some());
}

/// Another part of the program may need what a parked turn holds, whatever the limits.
#[test]
fn parked_turn_is_evicted_on_demand() {
    let (mut table, mut inboxes) = table(10, 100, 3);
    assert!(!table.evict_oldest(None), "nobody is parked");
    table.park(session(1), 10, "a", calls(&[]));
    table.park(session(0), 10, "b", calls(&[]));
    assert!(table.evict_oldest(None));
    assert_eq!((table.parked(), sent_away(&mut inboxes)), ((1, 10), vec![1]));
    assert!(table.evict_oldest(None) && !table.evict_oldest(None));
    assert_eq!((table.parked(), sent_away(&mut inboxes)), ((0, 0), vec![0]));
}

#[test]
fn turn_is_found_only_by_its_owner() {
    let (mut table, _inboxes) = table(10, 100, 1);
    assert!(table.find(session(0), MINE).is_some());
    assert!(table.find(session(0), [2; 32]).is_none());
    let waits = |table: &TurnTable, scope, calls: &[u32]| {
        table.waiting_for(scope, calls.iter().map(|call| (session(0), *call))).len()
    };
    assert_eq!(waits(&table, MINE, &[1]), 0, "it does not wait");
    table.park(session(0), 1, "a", calls(&[1, 2]));
    assert_eq!(waits(&table, MINE, &[2, 1]), 1, "one turn, whatever the calls");
    assert_eq!(waits(&table, MINE, &[3]), 0);
    assert_eq!(waits(&table, [2; 32], &[1]), 0);
    assert!(table.parked_as(MINE, "a").is_some() && table.parked_as([2; 32], "a").is_none());
    table.leave(session(0));
    assert!(table.find(session(0), MINE).is_none() && table.parked_as(MINE, "a").is_none());
    assert_eq!(table.parked(), (0, 0));
}
