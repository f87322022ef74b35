use super::*;

#[tokio::test(start_paused = true)]
async fn restart_delay_doubles_up_to_a_minute() {
    let mut starts = StartHistory::default();
    let now = Instant::now();
    let waits: Vec<u64> = (0..9).map(|_| starts.wait(now, now).as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn long_run_resets_the_restart_delay() {
    let mut starts = StartHistory::default();
    let now = Instant::now();
    for _ in 0..5 {
        starts.wait(now, now);
    }
    assert_eq!(starts.wait(now, now + WELL), FIRST_WAIT);
    assert_eq!(starts.wait(now, now), FIRST_WAIT);
}

#[tokio::test(start_paused = true)]
async fn starts_in_an_hour_are_limited() {
    let mut starts = StartHistory::default();
    let first = Instant::now();
    let mut now = first;
    for _ in 0..STARTS - 1 {
        now += starts.wait(now, now);
    }
    assert!(now - first < HOUR);
    now += starts.wait(now, now);
    assert_eq!(now - first, HOUR, "the first one must be an hour old");
    assert_eq!(starts.wait(now, now), LONGEST_WAIT.max(FIRST_WAIT));
}
