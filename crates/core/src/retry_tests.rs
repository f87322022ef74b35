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
fn the_backends_word_counts_as_long_as_it_is_short() {
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
