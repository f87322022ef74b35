use proptest::prelude::*;

use super::*;

const A: SlotOwner = SlotOwner(1);
const B: SlotOwner = SlotOwner(2);
const C: SlotOwner = SlotOwner(3);

fn gate(total: usize, reserve: usize, waiting: usize) -> SlotGate {
    SlotGate::new(GateRules { total, reserve, waiting })
}

fn wait(gate: &mut SlotGate, owner: SlotOwner, kind: SlotRequest) -> Ticket {
    match gate.ask(owner, Quota::alone(100), kind) {
        GateAnswer::Wait(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn verdicts(gate: &mut SlotGate) -> Vec<(SlotOwner, TicketVerdict)> {
    std::iter::from_fn(|| gate.poll_verdict()).map(|(t, verdict)| (t.owner, verdict)).collect()
}

#[test]
fn slots_are_given_until_the_queue_is_full() {
    let mut gate = gate(2, 0, 1);
    assert_eq!(gate.ask(A, Quota::alone(100), SlotRequest::New), GateAnswer::Enter);
    assert_eq!(gate.ask(B, Quota::alone(100), SlotRequest::New), GateAnswer::Enter);
    let ticket = wait(&mut gate, A, SlotRequest::New);
    assert_eq!(gate.ask(A, Quota::alone(100), SlotRequest::New), GateAnswer::Refused);
    assert_eq!((gate.free(), gate.waiting()), (0, 1));
    gate.leave(B);
    assert_eq!(gate.poll_verdict(), Some((ticket, TicketVerdict::Enter)));
    assert_eq!(gate.poll_verdict(), None);
    assert!(!gate.give_up(ticket), "it is in");
    gate.leave(A);
    gate.leave(A);
    assert_eq!((gate.free(), gate.waiting()), (2, 0));
}

#[test]
fn owners_take_turns_in_the_queue() {
    let mut gate = gate(1, 0, 100);
    assert_eq!(gate.ask(A, Quota::alone(100), SlotRequest::New), GateAnswer::Enter);
    for owner in [A, A, A, B, B, C] {
        wait(&mut gate, owner, SlotRequest::New);
    }
    let mut order = Vec::new();
    let mut last = A;
    while gate.waiting() > 0 {
        gate.leave(last);
        let (ticket, verdict) = gate.poll_verdict().unwrap();
        assert_eq!(verdict, TicketVerdict::Enter);
        last = ticket.owner;
        order.push((ticket.owner.0, ticket.number));
    }
    assert_eq!(order, [(1, 1), (2, 4), (3, 6), (1, 2), (2, 5), (1, 3)]);
}

#[test]
fn owner_at_its_limit_does_not_block_others() {
    let mut gate = gate(3, 0, 10);
    assert_eq!(gate.ask(A, Quota::alone(1), SlotRequest::New), GateAnswer::Enter);
    let GateAnswer::Wait(second) = gate.ask(A, Quota::alone(1), SlotRequest::New) else {
        panic!("beyond its limit")
    };
    assert_eq!(gate.why(A, Quota::alone(1), SlotRequest::New), Some(Why::Owner));
    assert_eq!(gate.why(A, Quota::alone(2), SlotRequest::New), None);
    assert_eq!(gate.ask(B, Quota::alone(100), SlotRequest::New), GateAnswer::Enter);
    assert_eq!(gate.ask(B, Quota::alone(100), SlotRequest::New), GateAnswer::Enter);
    assert_eq!(gate.why(A, Quota::alone(1), SlotRequest::New), Some(Why::Total));
    gate.leave(B);
    assert_eq!(verdicts(&mut gate), [], "still at its limit");
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), Some((second, TicketVerdict::Enter)));
}

#[test]
fn results_use_the_reserve_and_ignore_owner_limits() {
    let mut gate = gate(2, 1, 10);
    assert_eq!(gate.ask(A, Quota::alone(1), SlotRequest::New), GateAnswer::Enter);
    assert_eq!(
        gate.ask(A, Quota::alone(1), SlotRequest::Results),
        GateAnswer::Enter,
        "beyond its limit"
    );
    let new = wait(&mut gate, B, SlotRequest::New);
    assert_eq!(
        gate.ask(A, Quota::alone(1), SlotRequest::Results),
        GateAnswer::Enter,
        "the reserve"
    );
    let results = wait(&mut gate, A, SlotRequest::Results);
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), Some((results, TicketVerdict::Enter)), "before the new one");
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), None, "the reserve is not for new turns");
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), Some((new, TicketVerdict::Enter)));
}

#[test]
fn results_are_queued_when_the_queue_for_new_turns_is_full() {
    let mut gate = gate(1, 0, 1);
    assert_eq!(gate.ask(A, Quota::alone(9), SlotRequest::New), GateAnswer::Enter);
    wait(&mut gate, A, SlotRequest::New);
    assert_eq!(gate.ask(A, Quota::alone(9), SlotRequest::New), GateAnswer::Refused);
    wait(&mut gate, A, SlotRequest::Results);
}

#[test]
fn newest_request_of_the_largest_owner_is_dropped() {
    let mut gate = gate(1, 0, 4);
    assert_eq!(gate.ask(A, Quota::alone(9), SlotRequest::New), GateAnswer::Enter);
    let tickets: Vec<Ticket> = (0..4).map(|_| wait(&mut gate, A, SlotRequest::New)).collect();
    wait(&mut gate, B, SlotRequest::New);
    assert_eq!(gate.poll_verdict(), Some((tickets[3], TicketVerdict::Dropped)), "the newest");
    assert!(!gate.give_up(tickets[3]));
    wait(&mut gate, B, SlotRequest::New);
    assert_eq!(gate.poll_verdict(), Some((tickets[2], TicketVerdict::Dropped)));
    assert_eq!(
        gate.ask(B, Quota::alone(9), SlotRequest::New),
        GateAnswer::Refused,
        "it has its half"
    );
    assert_eq!(gate.waiting(), 4);
}

#[test]
fn abandoned_requests_leave_the_queue() {
    let mut gate = gate(1, 0, 4);
    assert_eq!(gate.ask(A, Quota::alone(9), SlotRequest::New), GateAnswer::Enter);
    let (first, second) =
        (wait(&mut gate, B, SlotRequest::New), wait(&mut gate, C, SlotRequest::New));
    assert!(gate.give_up(first) && !gate.give_up(first));
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), Some((second, TicketVerdict::Enter)));
    assert_eq!(gate.waiting(), 0);
}

#[test]
fn turns_that_bypass_the_queue_are_counted() {
    let mut gate = gate(1, 0, 4);
    gate.enter(A);
    gate.enter(A);
    let ticket = wait(&mut gate, B, SlotRequest::New);
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), None);
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), Some((ticket, TicketVerdict::Enter)));
}

/// Asks until the gate lets no more in. Returns how many it let in.
fn fill(gate: &mut SlotGate, owner: SlotOwner, quota: Quota, kind: SlotRequest) -> usize {
    std::iter::repeat_with(|| gate.try_enter(owner, quota, kind)).take_while(|in_| *in_).count()
}

#[test]
fn one_key_cannot_take_every_slot_when_there_are_others() {
    const SHARED: Quota = Quota::shared(usize::MAX);
    let mut gate = gate(32, 8, 8);
    assert_eq!(fill(&mut gate, A, SHARED, SlotRequest::New), 24);
    assert_eq!(gate.why(A, SHARED, SlotRequest::New), Some(Why::Share));
    assert_eq!(fill(&mut gate, B, SHARED, SlotRequest::New), 6);
    assert_eq!(fill(&mut gate, C, SHARED, SlotRequest::New), 1);
    // As slots become free, those with fewer get them, until shares are equal.
    for _ in 0..24 {
        gate.leave(A);
        for owner in [A, B, C] {
            fill(&mut gate, owner, SHARED, SlotRequest::New);
        }
    }
    let held = [A, B, C].map(|owner| gate.running_by.get(&owner).copied().unwrap_or_default());
    assert!(held.iter().all(|held| (8..=12).contains(held)), "{held:?}");
}

#[test]
fn last_slot_is_reserved_for_a_key_without_one() {
    const SHARED: Quota = Quota::shared(usize::MAX);
    for total in 2..40 {
        let mut gate = gate(total, 0, 8);
        assert!(fill(&mut gate, A, SHARED, SlotRequest::New) < total);
        assert_eq!(gate.ask(B, SHARED, SlotRequest::New), GateAnswer::Enter, "of {total}");
    }
    let mut gate = gate(1, 0, 8);
    assert_eq!(fill(&mut gate, A, SHARED, SlotRequest::New), 1, "a single slot goes round");
}

#[test]
fn only_key_or_one_with_its_own_limit_can_take_every_slot() {
    assert_eq!(fill(&mut gate(32, 8, 8), A, Quota::alone(usize::MAX), SlotRequest::New), 32);
    let own = Quota { limit: 32, assured: 32 };
    assert_eq!(fill(&mut gate(32, 8, 8), A, own, SlotRequest::New), 32);
    let own = Quota { limit: 2, assured: 2 };
    assert_eq!(fill(&mut gate(2, 8, 8), A, own, SlotRequest::New), 2);
}

#[test]
fn tool_results_of_one_key_leave_room_for_others() {
    const SHARED: Quota = Quota::shared(usize::MAX);
    let mut gate = gate(32, 8, 64);
    assert_eq!(fill(&mut gate, A, SHARED, SlotRequest::Results), 30);
    let waiting = gate.ask(A, SHARED, SlotRequest::Results);
    assert_eq!(gate.ask(B, SHARED, SlotRequest::New), GateAnswer::Enter);
    assert_eq!(gate.ask(B, SHARED, SlotRequest::Results), GateAnswer::Enter);
    gate.leave(A);
    assert_eq!(gate.poll_verdict(), None, "still at its share");
    gate.leave(B);
    gate.leave(B);
    let GateAnswer::Wait(ticket) = waiting else { panic!("{waiting:?}") };
    assert_eq!(gate.poll_verdict(), Some((ticket, TicketVerdict::Enter)));
}

#[derive(Clone, Debug)]
enum Op {
    Ask(u64, bool),
    Leave(usize),
    GiveUp(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..4u64, any::<bool>()).prop_map(|(owner, results)| Op::Ask(owner, results)),
        2 => any::<usize>().prop_map(Op::Leave),
        1 => any::<usize>().prop_map(Op::GiveUp),
    ]
}

proptest! {
    /// Limits hold, nothing is lost, and no place stays free while someone could have it.
    #[test]
    fn limits_hold_for_any_sequence_of_operations(
        ops in prop::collection::vec(op(), 1..200),
        assured in prop_oneof![Just(0), Just(1), Just(usize::MAX)],
    ) {
        let (total, reserve, waiting) = (4, 2, 6);
        let quota = Quota { limit: 2, assured };
        let mut gate = gate(total, reserve, waiting);
        let mut running: Vec<(SlotOwner, SlotRequest)> = Vec::new();
        let mut queue: Vec<(Ticket, SlotRequest)> = Vec::new();
        for op in ops {
            match op {
                Op::Ask(owner, results) => {
                    let kind = if results { SlotRequest::Results } else { SlotRequest::New };
                    match gate.ask(SlotOwner(owner), quota, kind) {
                        GateAnswer::Enter => running.push((SlotOwner(owner), kind)),
                        GateAnswer::Wait(ticket) => queue.push((ticket, kind)),
                        GateAnswer::Refused => {}
                    }
                }
                Op::Leave(at) if !running.is_empty() => {
                    let (owner, _) = running.swap_remove(at % running.len());
                    gate.leave(owner);
                }
                Op::GiveUp(at) if !queue.is_empty() => {
                    let (ticket, _) = queue.swap_remove(at % queue.len());
                    prop_assert!(gate.give_up(ticket));
                }
                Op::Leave(_) | Op::GiveUp(_) => {}
            }
            while let Some((ticket, verdict)) = gate.poll_verdict() {
                let at = queue.iter().position(|(other, _)| *other == ticket);
                let (ticket, kind) = queue.swap_remove(at.expect("it waited"));
                if verdict == TicketVerdict::Enter {
                    running.push((ticket.owner, kind));
                }
            }
            prop_assert_eq!(gate.free(), total.saturating_sub(running.len()));
            prop_assert_eq!(gate.waiting(), queue.len());
            prop_assert!(running.len() <= total + reserve);
            prop_assert!(queue.iter().filter(|(_, kind)| *kind == SlotRequest::New).count() <= waiting);
            for (ticket, kind) in &queue {
                prop_assert!(gate.why(ticket.owner, quota, *kind).is_some());
                if assured == usize::MAX && *kind == SlotRequest::Results {
                    prop_assert!(running.len() >= total + reserve);
                }
            }
        }
    }
}
