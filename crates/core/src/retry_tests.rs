use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn waits_double_up_to_the_cap_and_then_end() {
    let backoff = Backoff { retries: 6, ..Backoff::default() };
    let waits: Vec<_> = (0..7).map(|attempt| backoff.delay(attempt, 1.0, None)).collect();
    let expect = [500, 1000, 2000, 4000, 8000, 8000].map(|millis| Some(ms(millis)));
    assert_eq!(waits[..6], expect);
    assert_eq!(waits[6], None);
}

#[test]
fn the_default_gives_up_after_three_retries() {
    let backoff = Backoff::default();
    assert!(backoff.delay(2, 0.5, None).is_some());
    assert_eq!(backoff.delay(3, 0.5, None), None);
    assert_eq!(Backoff::NEVER.delay(0, 0.5, None), None);
}

#[test]
fn jitter_moves_the_wait_between_half_and_whole() {
    let backoff = Backoff::default();
    assert_eq!(backoff.delay(0, 0.0, None), Some(ms(250)));
    assert_eq!(backoff.delay(0, 0.5, None), Some(ms(375)));
    assert_eq!(backoff.delay(0, 7.0, None), Some(ms(500)));
    assert_eq!(backoff.delay(0, -1.0, None), Some(ms(250)));
    assert_eq!(backoff.delay(0, f64::NAN, None), Some(ms(250)));
}

#[test]
fn short_retry_after_is_honoured() {
    let backoff = Backoff::default();
    assert_eq!(backoff.delay(0, 0.0, Some(ms(3000))), Some(ms(3000)));
    assert_eq!(backoff.delay(2, 1.0, Some(ms(10))), Some(ms(2000)));
    assert_eq!(backoff.delay(0, 0.0, Some(ms(8000))), Some(ms(8000)));
    assert_eq!(backoff.delay(0, 0.0, Some(ms(8001))), None);
}

#[test]
fn large_numbers_do_not_overflow() {
    let backoff = Backoff { base: Duration::MAX, cap: Duration::MAX, retries: u32::MAX };
    assert!(backoff.delay(40, 1.0, None).is_some());
}

#[test]
fn a_leg_takes_at_most_five_runs() {
    let patient = Backoff { retries: 10, ..Backoff::default() };
    let mut attempts = RunAttempts::default();
    attempts.begin_run();
    let mut retries = 0;
    while attempts.retry(&patient, 0.5, None).is_some() {
        attempts.begin_run();
        retries += 1;
    }
    assert_eq!(retries, MAX_RUNS - 1);
    assert!(!attempts.may_run());
    assert!(!attempts.once_more().may_run(), "a repair turn does not start the count again");
}

#[test]
fn runs_for_other_reasons_leave_fewer_for_retries() {
    let mut attempts = RunAttempts::ON_OPEN_STREAM;
    attempts.begin_run();
    attempts.begin_run();
    attempts.begin_run();
    assert!(attempts.retry(&Backoff::default(), 0.5, None).is_some());
    attempts.begin_run();
    assert_eq!(attempts.retry(&Backoff::default(), 0.5, None), None);
}

/// An outage as Codex lives through it: it sends the same request up to thirty times.
#[test]
fn the_retries_of_a_conversation_do_not_multiply() {
    let mut budget = RetryBudget::default();
    let (mut runs, mut now) = (0, Millis(0));
    for _ in 0..30 {
        let retries = budget.left(7, 3, false, now);
        runs += 1 + retries;
        budget.failed(7, retries, now);
        now = now + Duration::from_millis(1900);
    }
    assert_eq!(runs, 30 + 3, "one request for each of the client's, and our three");
}

#[test]
fn retries_are_available_again_after_a_minute() {
    let mut budget = RetryBudget::default();
    budget.failed(7, 2, Millis(1_000));
    budget.failed(7, 1, Millis(50_000));
    assert_eq!(budget.left(7, 3, false, Millis(60_999)), 0);
    assert_eq!(budget.left(7, 3, false, Millis(61_000)), 3);
    budget.failed(7, 2, Millis(61_000));
    assert_eq!(budget.left(7, 3, false, Millis(62_000)), 1, "the old ones are forgotten");
}

#[test]
fn other_conversations_and_requests_without_retries_are_not_charged() {
    let mut budget = RetryBudget::default();
    budget.failed(7, 3, Millis(0));
    budget.failed(8, 0, Millis(0));
    assert_eq!(budget.left(8, 3, false, Millis(0)), 3);
}

#[test]
fn client_that_retries_gets_one_retry_from_us() {
    let budget = RetryBudget::default();
    assert_eq!(budget.left(7, 3, true, Millis(0)), 1);
    assert_eq!(budget.left(7, 0, true, Millis(0)), 0);
}

#[test]
fn the_number_of_counted_conversations_is_limited() {
    let mut budget = RetryBudget::default();
    for conversation in 0..2 * CONVERSATIONS as u64 {
        budget.failed(conversation, 3, Millis(0));
    }
    assert_eq!(budget.spent.len(), CONVERSATIONS);
    budget.failed(u64::MAX, 3, Millis(60_000));
    assert_eq!(budget.spent.len(), 1, "those of the minute before make room");
}
