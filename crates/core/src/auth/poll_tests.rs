use bytes::Bytes;
use secrecy::ExposeSecret as _;

use super::*;

struct Bench {
    poll: Poll,
    now: Millis,
}

impl Bench {
    fn new() -> Self {
        Self::within(Duration::MAX)
    }

    fn within(limit: Duration) -> Self {
        let now = Millis(5_000);
        Self { poll: Poll::new(Login::new([3; 32], [4; 16]), now, limit), now }
    }

    /// Waits as asked until there is a request to send or an end.
    fn until_asked(&mut self) -> Option<AuthRequest> {
        loop {
            match self.poll.step(self.now) {
                PollStep::Wait(until) => {
                    assert!(until > self.now, "waiting takes time");
                    self.now = until;
                }
                PollStep::Ask(request) => return Some(request),
                PollStep::Done(_) => return None,
            }
        }
    }

    fn tell(&mut self, status: u16, body: &str) {
        let body = Bytes::from(body.to_owned());
        self.poll.on_outcome(&AuthOutcome::Answer { status, body, retry_after: None }, self.now);
    }

    /// The service is too busy to answer, and says for how long.
    fn busy(&mut self, status: u16, seconds: u64) {
        let retry_after = Some(Duration::from_secs(seconds));
        let busy = AuthOutcome::Answer { status, body: Bytes::new(), retry_after };
        self.poll.on_outcome(&busy, self.now);
    }

    fn end(&mut self) -> Result<Box<Grant>, PollError> {
        match self.poll.step(self.now) {
            PollStep::Done(how) => how,
            other => panic!("{other:?}"),
        }
    }
}

const TOKENS: &str = r#"{"accessToken":"a.b.c","refreshToken":"d.e.f","authId":"auth0|u"}"#;

#[test]
fn poll_sends_the_verifier_and_returns_the_tokens() {
    let mut bench = Bench::new();
    let request = bench.until_asked().unwrap();
    assert!(request.body.is_none() && request.bearer.is_none());
    let path = request.path.expose_secret();
    assert!(path.starts_with("/auth/poll?uuid=04040404-"), "{path}");
    assert!(path.contains("&verifier=AwMDAwMD"), "{path}");
    bench.tell(404, "");
    bench.until_asked().unwrap();
    bench.tell(200, TOKENS);
    let grant = bench.end().unwrap();
    assert_eq!(grant.access.expose_secret(), "a.b.c");
    assert_eq!(grant.refresh.unwrap().expose_secret(), "d.e.f");
    bench.poll.cancel();
    assert!(bench.end().is_ok(), "too late");
}

#[test]
fn poll_interval_grows_by_a_fifth_up_to_ten_seconds() {
    let mut bench = Bench::new();
    let mut waits = Vec::new();
    for _ in 0..20 {
        let before = bench.now;
        bench.until_asked().unwrap();
        waits.push(bench.now.since(before).as_millis());
        bench.tell(404, "");
    }
    assert_eq!(waits[..4], [1_000, 1_200, 1_440, 1_728]);
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert_eq!(waits[19], 10_000);
}

#[test]
fn poll_ends_without_a_sign_in() {
    let mut bench = Bench::new();
    let whole = bench.poll.time_left(bench.now);
    assert!(whole > Duration::from_secs(20 * 60) && whole < Duration::from_secs(25 * 60));
    let mut asked = 0;
    while bench.until_asked().is_some() {
        asked += 1;
        bench.tell(404, "");
    }
    assert_eq!(asked, 150);
    assert_eq!(bench.end().unwrap_err(), PollError::TimedOut);
    assert!(bench.poll.time_left(bench.now) < Duration::from_millis(100));
}

#[test]
fn slow_answers_do_not_extend_the_poll() {
    let mut bench = Bench::new();
    let deadline = bench.now + bench.poll.time_left(bench.now);
    let mut asked = 0;
    while bench.until_asked().is_some() {
        asked += 1;
        bench.now = bench.now + Duration::from_secs(20);
        bench.tell(404, "");
    }
    assert!(asked < 60, "{asked}");
    assert!(bench.now.since(deadline) < Duration::from_secs(30));
    assert_eq!(bench.end().unwrap_err(), PollError::TimedOut);
}

#[test]
fn shorter_limit_ends_the_poll_earlier() {
    let mut bench = Bench::within(Duration::from_secs(10));
    let began = bench.now;
    assert_eq!(bench.poll.time_left(bench.now), Duration::from_secs(10));
    let mut asked = 0;
    while bench.until_asked().is_some() {
        asked += 1;
        bench.tell(404, "");
    }
    // After 1, 2.2, 3.64, 5.37, 7.44, 9.93 and 10 seconds.
    assert_eq!(asked, 7);
    assert_eq!(bench.end().unwrap_err(), PollError::TimedOut);
    assert_eq!(bench.now.since(began), Duration::from_millis(10_001));
}

#[test]
fn last_poll_happens_at_the_deadline_even_if_late() {
    for late in [0, 3, 3_600_000] {
        let mut bench = Bench::within(Duration::from_secs(2));
        bench.until_asked().unwrap();
        bench.tell(404, "");
        bench.now = bench.now + Duration::from_millis(1_000 + late);
        bench.until_asked().unwrap();
        bench.tell(404, "");
        assert!(bench.until_asked().is_none(), "{late}");
        assert_eq!(bench.end().unwrap_err(), PollError::TimedOut);
    }
}

#[test]
fn tokens_after_the_deadline_are_accepted() {
    let mut bench = Bench::within(Duration::from_secs(2));
    bench.until_asked().unwrap();
    bench.now = bench.now + Duration::from_secs(20);
    bench.tell(200, TOKENS);
    assert!(bench.end().is_ok());
}

#[test]
fn a_refresh_token_may_be_missing() {
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    bench.tell(200, r#"{"accessToken":"a.b.c","refreshToken":null}"#);
    let grant = bench.end().unwrap();
    assert_eq!(grant.access.expose_secret(), "a.b.c");
    assert!(grant.refresh.is_none());
}

#[test]
fn policy_rejection_ends_the_poll_with_its_message() {
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    bench.tell(403, r#"{"error":"Your team requires SSO"}"#);
    assert_eq!(bench.end().unwrap_err(), PollError::Refused("Your team requires SSO".into()));
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    bench.tell(403, "");
    assert!(matches!(bench.end(), Err(PollError::Refused(why)) if why.contains("no reason")));
}

#[test]
fn three_consecutive_errors_end_the_poll() {
    let faults: [fn(&mut Bench); 13] = [
        |bench| bench.tell(500, r#"{"error":"oops"}"#),
        |bench| bench.tell(503, ""),
        |bench| bench.busy(503, 1),
        |bench| bench.tell(429, ""),
        |bench| bench.busy(429, 1),
        |bench| bench.tell(400, ""),
        |bench| bench.tell(401, r#"{"error":"Unauthorized"}"#),
        |bench| bench.tell(302, ""),
        |bench| bench.tell(200, "<html>"),
        |bench| bench.tell(200, "{}"),
        |bench| bench.tell(200, r#"{"accessToken":""}"#),
        |bench| bench.tell(200, r#"{"accessToken":"two words","refreshToken":"x"}"#),
        |bench| bench.poll.on_outcome(&AuthOutcome::Unreachable("no route".into()), bench.now),
    ];
    for fault in faults {
        let mut bench = Bench::new();
        for _ in 0..2 {
            bench.until_asked().unwrap();
            fault(&mut bench);
        }
        // A good answer between them restarts the count.
        bench.until_asked().unwrap();
        bench.tell(404, "");
        for _ in 0..3 {
            bench.until_asked().unwrap();
            fault(&mut bench);
        }
        assert!(matches!(bench.end(), Err(PollError::GaveUp(_))));
    }
}

#[test]
fn last_error_is_reported() {
    let mut bench = Bench::new();
    for status in [500, 500, 502] {
        bench.until_asked().unwrap();
        bench.tell(status, r#"{"error":"oops"}"#);
    }
    assert_eq!(bench.end().unwrap_err(), PollError::GaveUp("HTTP status 502 (oops)".into()));
}

#[test]
fn the_service_may_ask_for_a_longer_wait() {
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    let before = bench.now;
    bench.busy(429, 33);
    bench.until_asked().unwrap();
    assert_eq!(bench.now.since(before), Duration::from_secs(33));
    // A shorter one than ours changes nothing.
    let before = bench.now;
    bench.busy(503, 1);
    bench.until_asked().unwrap();
    assert_eq!(bench.now.since(before).as_millis(), 1_440);
}

#[test]
fn requested_wait_does_not_extend_the_poll() {
    let mut bench = Bench::within(Duration::from_secs(60));
    let began = bench.now;
    bench.until_asked().unwrap();
    bench.busy(429, 3_600);
    assert!(bench.until_asked().is_none());
    assert_eq!(bench.end().unwrap_err(), PollError::TimedOut);
    assert_eq!(bench.now.since(began), Duration::from_millis(60_001));
}

#[test]
fn cancelling_is_final() {
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    bench.poll.cancel();
    bench.tell(200, TOKENS);
    assert_eq!(bench.end().unwrap_err(), PollError::Cancelled);
}

#[test]
fn only_one_poll_request_runs_at_a_time() {
    let mut bench = Bench::new();
    bench.until_asked().unwrap();
    let later = bench.now + Duration::from_secs(3);
    assert!(matches!(bench.poll.step(later), PollStep::Wait(_)));
}
