use super::*;
use crate::session::visit;

const MINE: Scope = [1; 32];

fn session(n: u8) -> SessionId {
    SessionId::from_random([n; 16])
}

fn table(count: usize, bytes: usize, turns: u8) -> (Table, Vec<mpsc::Receiver<Visit>>) {
    let mut table = Table::new(Limits { count, bytes });
    let mut inboxes = Vec::new();
    for n in 0..turns {
        let (mailbox, inbox) = visit::mailbox();
        let identity = Identity { scope: MINE, setup: [0; 32], model: ModelPick::default() };
        table.enter(session(n), Live { identity: Arc::new(identity), mailbox });
        inboxes.push(inbox);
    }
    (table, inboxes)
}

#[test]
fn the_least_recently_parked_goes_first() {
    let (mut table, inboxes) = table(2, usize::MAX, 3);
    assert!(table.park(session(0), 10, "a", vec![1]).is_empty());
    assert!(table.park(session(1), 10, "b", vec![1]).is_empty());
    // It was used in between, so it is the other's turn.
    table.unpark(session(0));
    assert!(table.park(session(0), 10, "a", vec![2]).is_empty());
    let victims = table.park(session(2), 10, "c", vec![1]);
    assert_eq!(victims.len(), 1);
    assert!(victims[0].same_channel(&table.turns[&session(1)].live.mailbox));
    assert_eq!(table.parked(), (2, 20));
    drop(inboxes);
}

#[test]
fn bytes_count_too_and_one_that_is_too_large_goes_at_once() {
    let (mut table, _inboxes) = table(10, 100, 3);
    assert!(table.park(session(0), 60, "a", vec![]).is_empty());
    assert_eq!(table.park(session(1), 60, "b", vec![]).len(), 1);
    assert_eq!(table.parked(), (1, 60));
    assert_eq!(table.park(session(2), 101, "c", vec![]).len(), 2, "the other one and itself");
    assert_eq!(table.parked(), (0, 0));
}

#[test]
fn a_turn_is_found_by_those_it_belongs_to() {
    let (mut table, _inboxes) = table(10, 100, 1);
    assert!(table.find(session(0), MINE).is_some());
    assert!(table.find(session(0), [2; 32]).is_none());
    let waits = |table: &Table, scope, calls: &[u32]| {
        table.waiting_for(scope, calls.iter().map(|call| (session(0), *call))).len()
    };
    assert_eq!(waits(&table, MINE, &[1]), 0, "it does not wait");
    table.park(session(0), 1, "a", vec![1, 2]);
    assert_eq!(waits(&table, MINE, &[2, 1]), 1, "one turn, whatever the calls");
    assert_eq!(waits(&table, MINE, &[3]), 0);
    assert_eq!(waits(&table, [2; 32], &[1]), 0);
    assert!(table.parked_as(MINE, "a").is_some() && table.parked_as([2; 32], "a").is_none());
    table.leave(session(0));
    assert!(table.find(session(0), MINE).is_none() && table.parked_as(MINE, "a").is_none());
    assert_eq!(table.parked(), (0, 0));
}
