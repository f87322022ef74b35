use std::future::Future;

use super::*;

const A: PermitClaim = PermitClaim { owner: SlotOwner(1), quota: Quota::alone(9) };
const B: PermitClaim = PermitClaim { owner: SlotOwner(2), quota: Quota::alone(9) };
const MINUTE: Duration = Duration::from_secs(60);

fn slots(total: usize, reserve: usize, waiting: usize) -> TurnSlots {
    TurnSlots::new(GateRules { total, reserve, waiting })
}

async fn acquire(slots: &TurnSlots, claim: PermitClaim, kind: SlotRequest) -> Result<Permit, Why> {
    slots.acquire(claim, kind, MINUTE).await
}

/// Polls once: whoever waits is in the queue from then on.
macro_rules! asked {
    ($future:ident) => {
        std::future::poll_fn(|cx| {
            let polled = $future.as_mut().poll(cx);
            assert!(polled.is_pending());
            std::task::Poll::Ready(())
        })
        .await
    };
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_back_goes_to_the_one_who_waits() {
    let slots = slots(1, 0, 8);
    let mut first = slots.try_acquire(A).unwrap();
    assert!(slots.try_acquire(B).is_none());
    let mut waiting = Box::pin(acquire(&slots, B, SlotRequest::New));
    asked!(waiting);
    first.release();
    let second = waiting.await.unwrap();
    first.reacquire();
    assert_eq!(slots.free(), 0);
    drop(first);
    assert_eq!(slots.free(), 0, "two ran, one does");
    drop(second);
    assert_eq!(slots.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_says_what_was_short() {
    let slots = slots(1, 0, 8);
    let _first = slots.try_acquire(A).unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(acquire(&slots, B, SlotRequest::New).await.unwrap_err(), Why::Total);
    assert_eq!(began.elapsed(), MINUTE);
    assert_eq!(slots.0.lock().gate.waiting(), 0);
    assert!(slots.0.lock().waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_at_its_limit_is_told_so() {
    let slots = slots(4, 0, 8);
    let one = PermitClaim { quota: Quota::alone(1), ..A };
    let _first = slots.try_acquire(one).unwrap();
    assert_eq!(acquire(&slots, one, SlotRequest::New).await.unwrap_err(), Why::Owner);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_takes_no_place_along() {
    let slots = slots(1, 0, 8);
    let first = slots.try_acquire(A).unwrap();
    let mut gone = Box::pin(acquire(&slots, A, SlotRequest::New));
    asked!(gone);
    let mut late = Box::pin(acquire(&slots, B, SlotRequest::New));
    asked!(late);
    drop(gone);
    drop(first);
    drop(late.await.unwrap());
    assert_eq!(slots.free(), 1);

    // The verdict is out, and nobody took it.
    let first = slots.try_acquire(A).unwrap();
    let mut gone = Box::pin(acquire(&slots, A, SlotRequest::New));
    asked!(gone);
    drop(first);
    assert_eq!(slots.free(), 0);
    drop(gone);
    assert_eq!(slots.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_makes_room() {
    let slots = slots(1, 0, 2);
    let first = slots.try_acquire(A).unwrap();
    let mut one = Box::pin(acquire(&slots, A, SlotRequest::New));
    asked!(one);
    let mut two = Box::pin(acquire(&slots, A, SlotRequest::New));
    asked!(two);
    let mut other = Box::pin(acquire(&slots, B, SlotRequest::New));
    asked!(other);
    assert_eq!(two.await.unwrap_err(), Why::Total);
    drop(first);
    drop(one.await.unwrap());
    drop(other.await.unwrap());
    assert_eq!(slots.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn results_find_a_place_while_new_turns_wait() {
    let slots = slots(1, 1, 8);
    let _first = slots.try_acquire(A).unwrap();
    let mut new = Box::pin(acquire(&slots, B, SlotRequest::New));
    asked!(new);
    let _results = acquire(&slots, A, SlotRequest::Results).await.unwrap();
    asked!(new);
}

#[tokio::test(start_paused = true)]
async fn a_key_at_its_share_waits_while_another_is_let_in() {
    let slots = slots(4, 0, 8);
    let claim = |number| PermitClaim { owner: SlotOwner(number), quota: Quota::shared(9) };
    let _held = [(); 3].map(|()| slots.try_acquire(claim(1)).unwrap());
    assert_eq!(acquire(&slots, claim(1), SlotRequest::New).await.unwrap_err(), Why::Share);
    assert_eq!(slots.free(), 1);
    assert!(slots.try_acquire(claim(2)).is_some());
}
