use std::future::Future;

use super::*;

const A: Seeker = Seeker { owner: Owner(1), quota: Quota::alone(9) };
const B: Seeker = Seeker { owner: Owner(2), quota: Quota::alone(9) };
const MINUTE: Duration = Duration::from_secs(60);

fn turns(total: usize, reserve: usize, waiting: usize) -> Turns {
    Turns::new(Rules { total, reserve, waiting })
}

async fn enter(turns: &Turns, seeker: Seeker, kind: Kind) -> Result<Place, Why> {
    turns.enter(seeker, kind, MINUTE).await
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
    let turns = turns(1, 0, 8);
    let mut first = turns.try_enter(A).unwrap();
    assert!(turns.try_enter(B).is_none());
    let mut waiting = Box::pin(enter(&turns, B, Kind::New));
    asked!(waiting);
    first.give_back();
    let second = waiting.await.unwrap();
    first.take_again();
    assert_eq!(turns.free(), 0);
    drop(first);
    assert_eq!(turns.free(), 0, "two ran, one does");
    drop(second);
    assert_eq!(turns.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_says_what_was_short() {
    let turns = turns(1, 0, 8);
    let _first = turns.try_enter(A).unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(enter(&turns, B, Kind::New).await.unwrap_err(), Why::Total);
    assert_eq!(began.elapsed(), MINUTE);
    assert_eq!(turns.0.lock().gate.waiting(), 0);
    assert!(turns.0.lock().waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_at_its_limit_is_told_so() {
    let turns = turns(4, 0, 8);
    let one = Seeker { quota: Quota::alone(1), ..A };
    let _first = turns.try_enter(one).unwrap();
    assert_eq!(enter(&turns, one, Kind::New).await.unwrap_err(), Why::Owner);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_takes_no_place_along() {
    let turns = turns(1, 0, 8);
    let first = turns.try_enter(A).unwrap();
    let mut gone = Box::pin(enter(&turns, A, Kind::New));
    asked!(gone);
    let mut late = Box::pin(enter(&turns, B, Kind::New));
    asked!(late);
    drop(gone);
    drop(first);
    drop(late.await.unwrap());
    assert_eq!(turns.free(), 1);

    // The verdict is out, and nobody took it.
    let first = turns.try_enter(A).unwrap();
    let mut gone = Box::pin(enter(&turns, A, Kind::New));
    asked!(gone);
    drop(first);
    assert_eq!(turns.free(), 0);
    drop(gone);
    assert_eq!(turns.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_makes_room() {
    let turns = turns(1, 0, 2);
    let first = turns.try_enter(A).unwrap();
    let mut one = Box::pin(enter(&turns, A, Kind::New));
    asked!(one);
    let mut two = Box::pin(enter(&turns, A, Kind::New));
    asked!(two);
    let mut other = Box::pin(enter(&turns, B, Kind::New));
    asked!(other);
    assert_eq!(two.await.unwrap_err(), Why::Total);
    drop(first);
    drop(one.await.unwrap());
    drop(other.await.unwrap());
    assert_eq!(turns.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn results_find_a_place_while_new_turns_wait() {
    let turns = turns(1, 1, 8);
    let _first = turns.try_enter(A).unwrap();
    let mut new = Box::pin(enter(&turns, B, Kind::New));
    asked!(new);
    let _results = enter(&turns, A, Kind::Results).await.unwrap();
    asked!(new);
}

#[tokio::test(start_paused = true)]
async fn a_key_at_its_share_waits_while_another_is_let_in() {
    let turns = turns(4, 0, 8);
    let seeker = |number| Seeker { owner: Owner(number), quota: Quota::shared(9) };
    let _held = [(); 3].map(|()| turns.try_enter(seeker(1)).unwrap());
    assert_eq!(enter(&turns, seeker(1), Kind::New).await.unwrap_err(), Why::Share);
    assert_eq!(turns.free(), 1);
    assert!(turns.try_enter(seeker(2)).is_some());
}
