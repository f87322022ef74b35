use bytes::Bytes;

use super::*;

struct Bench {
    refresh: Refresh,
    now: Millis,
    asked: Vec<String>,
}

const TOKENS: &str = r#"{"accessToken":"new","refreshToken":"next"}"#;
const DEAD: &str = r#"{"access_token":"","id_token":"","shouldLogout":true}"#;

impl Bench {
    fn new() -> Self {
        Self::with(Proof::RefreshToken(SecretString::from("old")))
    }

    fn with(proof: Proof) -> Self {
        Self { refresh: Refresh::new(proof, 1.0), now: Millis(0), asked: Vec::new() }
    }

    fn ask(&mut self) -> AuthRequest {
        loop {
            match self.refresh.step(self.now) {
                RefreshStep::Wait(until) => {
                    assert!(until > self.now);
                    self.now = until;
                }
                RefreshStep::Ask(request) => {
                    self.asked.push(request.path.expose_secret().to_owned());
                    return request;
                }
                RefreshStep::Done(how) => panic!("{how:?}"),
            }
        }
    }

    fn answer(&mut self, status: u16, body: &str) {
        self.ask();
        let body = Bytes::from(body.to_owned());
        self.refresh.on_outcome(&AuthOutcome::Answer { status, body, retry_after: None }, self.now);
    }

    fn unreachable(&mut self) {
        self.ask();
        self.refresh.on_outcome(&AuthOutcome::Unreachable("no route".into()), self.now);
    }

    fn end(&mut self) -> Result<Box<Grant>, RefreshError> {
        match self.refresh.step(self.now) {
            RefreshStep::Done(how) => how,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_form_sends_its_own_request() {
    let mut bench = Bench::new();
    let exchange = bench.ask();
    assert_eq!(exchange.bearer.unwrap().expose_secret(), "old");
    assert_eq!(exchange.body.unwrap().expose_secret(), "{}");
    bench.answer(401, "");
    let refresh = bench.ask();
    assert_eq!(refresh.bearer.unwrap().expose_secret(), "old");
    assert_eq!(refresh.body.unwrap().expose_secret(), "{}");
    bench.answer(401, "");
    let oauth = bench.ask();
    assert!(oauth.bearer.is_none());
    let body: Value = serde_json::from_str(oauth.body.unwrap().expose_secret()).unwrap();
    assert_eq!(body["grant_type"], "refresh_token");
    assert_eq!(body["client_id"], CLIENT_ID);
    assert_eq!(body["refresh_token"], "old");
    bench.asked.dedup();
    assert_eq!(bench.asked, ["/auth/exchange_user_api_key", "/auth/refresh", "/oauth/token"]);
}

#[test]
fn first_form_with_tokens_ends_the_refresh() {
    let mut bench = Bench::new();
    bench.answer(200, TOKENS);
    let grant = bench.end().unwrap();
    assert_eq!(grant.access.expose_secret(), "new");
    assert_eq!(grant.refresh.unwrap().expose_secret(), "next");

    let mut bench = Bench::new();
    bench.answer(404, "");
    bench.answer(503, "");
    bench.answer(200, r#"{"access_token":"new","id_token":"x","shouldLogout":false}"#);
    let grant = bench.end().unwrap();
    assert_eq!(grant.access.expose_secret(), "new");
    assert!(grant.refresh.is_none(), "the one in use stays");
    assert_eq!(bench.now, Millis(0), "another form is asked at once");
}

#[test]
fn rejected_refresh_token_is_final() {
    let mut bench = Bench::new();
    bench.answer(401, r#"{"code":"unauthenticated","message":"Invalid refresh token"}"#);
    bench.answer(401, "");
    bench.answer(200, DEAD);
    let words = Some("Invalid refresh token".to_owned());
    assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(words));

    // All three refuse, be it with a page instead of JSON; with a 403 that would be a proxy's.
    for statuses in [[401, 403, 400], [422, 400, 401], [403, 422, 403]] {
        let mut bench = Bench::new();
        for status in statuses {
            bench.answer(status, if status == 403 { "" } else { "<html>" });
        }
        assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(None), "{statuses:?}");
        assert_eq!(bench.now, Millis(0), "{statuses:?}");
    }

    // Explicitly, by the first.
    for status in [200, 400, 401, 403] {
        let mut bench = Bench::new();
        bench.answer(status, r#"{"shouldLogout":true}"#);
        assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(None), "{status}");
    }
    // Tokens beside it do not count.
    let mut bench = Bench::new();
    bench.answer(200, r#"{"accessToken":"new","refreshToken":"next","shouldLogout":true}"#);
    assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(None));
    // It is a switch, and nothing else.
    let mut bench = Bench::new();
    bench.answer(200, r#"{"accessToken":"new","shouldLogout":"no"}"#);
    assert!(bench.end().is_ok());

    // An empty token of the OAuth form says the same.
    let mut bench = Bench::new();
    bench.answer(500, "");
    bench.answer(500, "");
    bench.answer(200, r#"{"access_token":""}"#);
    assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(None));
}

#[test]
fn server_errors_are_not_rejections() {
    let page = "<html>Blocked</html>";
    for (status, body) in [(500, ""), (403, page), (200, "<html>"), (200, "{}"), (302, "")] {
        let mut bench = Bench::new();
        for _ in 0..4 {
            for _ in 0..3 {
                bench.answer(status, body);
            }
        }
        // Four rounds, and waits of 1, 2 and 4 seconds.
        assert!(matches!(bench.end(), Err(RefreshError::Unavailable(_))), "{status} {body}");
        assert_eq!(bench.now, Millis(7_000), "{status} {body}");
    }
}

#[test]
fn refused_form_is_not_tried_again() {
    let mut bench = Bench::new();
    bench.answer(401, "");
    bench.answer(503, "");
    bench.answer(503, "");
    bench.asked.clear();
    bench.answer(503, "");
    bench.answer(200, r#"{"access_token":"new"}"#);
    assert_eq!(bench.asked, ["/auth/refresh", "/oauth/token"]);
    assert!(bench.end().is_ok());
}

#[test]
fn unreachable_service_is_not_tried_with_other_forms() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.unreachable();
    }
    assert_eq!(bench.asked, ["/auth/exchange_user_api_key"; 4]);
    assert_eq!(bench.end().unwrap_err(), RefreshError::Unavailable("no route".into()));
    let mut bench = Bench::new();
    bench.unreachable();
    bench.answer(200, TOKENS);
    assert!(bench.end().is_ok());
    assert_eq!(bench.now, Millis(1_000));
}

#[test]
fn retry_after_is_honoured_unless_too_long() {
    for (seconds, waits) in [(9, true), (3600, false)] {
        let mut bench = Bench::new();
        bench.ask();
        let retry_after = Some(Duration::from_secs(seconds));
        let busy = AuthOutcome::Answer { status: 429, body: Bytes::new(), retry_after };
        bench.refresh.on_outcome(&busy, bench.now);
        if waits {
            bench.ask();
            assert_eq!(bench.now, Millis(9_000));
        } else {
            assert!(matches!(bench.end(), Err(RefreshError::Unavailable(_))));
        }
    }
}

#[test]
fn too_many_requests_end_the_round() {
    // By the second form, without a time: our own, and from the first form on.
    let mut bench = Bench::new();
    bench.answer(503, "");
    bench.answer(429, "");
    bench.answer(200, TOKENS);
    let paths = ["/auth/exchange_user_api_key", "/auth/refresh", "/auth/exchange_user_api_key"];
    assert_eq!(bench.asked, paths);
    assert_eq!(bench.now, Millis(1_000));
    assert!(bench.end().is_ok());

    // Always: four rounds of one question each.
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.answer(429, r#"{"error":"slow down"}"#);
    }
    let Err(RefreshError::Unavailable(why)) = bench.end() else { panic!() };
    assert!(why.contains("429 (slow down)"), "{why}");
    assert_eq!(bench.now, Millis(7_000));
}

#[test]
fn connection_loss_between_two_forms() {
    let mut bench = Bench::new();
    bench.answer(401, "");
    bench.unreachable();
    bench.answer(200, TOKENS);
    // The refused form is out; the one that was cut short is asked again, later.
    assert_eq!(bench.asked, ["/auth/exchange_user_api_key", "/auth/refresh", "/auth/refresh"]);
    assert_eq!(bench.now, Millis(1_000));
    assert!(bench.end().is_ok());
}

#[test]
fn refresh_token_is_replaced_if_the_answer_has_one() {
    for (body, next) in [
        (r#"{"accessToken":"new","refreshToken":"next"}"#, Some("next")),
        // The same token for both, as some answers have it.
        (r#"{"accessToken":"new","refreshToken":"new"}"#, Some("new")),
        (r#"{"access_token":"new","refresh_token":"next"}"#, Some("next")),
        (r#"{"accessToken":"new"}"#, None),
        (r#"{"accessToken":"new","refreshToken":""}"#, None),
        (r#"{"accessToken":"new","refreshToken":null}"#, None),
    ] {
        let mut bench = Bench::new();
        bench.answer(200, body);
        let grant = bench.end().unwrap();
        assert_eq!(grant.access.expose_secret(), "new", "{body}");
        let refresh = grant.refresh.as_ref().map(|token| token.expose_secret());
        assert_eq!(refresh, next, "{body}");
    }
}

#[test]
fn api_key_is_only_exchanged() {
    let key = || Proof::ApiKey(SecretString::from("crsr_x"));
    let mut bench = Bench::with(key());
    let request = bench.ask();
    assert_eq!(request.path.expose_secret(), "/auth/exchange_user_api_key");
    assert_eq!(request.bearer.unwrap().expose_secret(), "crsr_x");
    bench.answer(200, TOKENS);
    assert!(bench.end().is_ok());

    let mut bench = Bench::with(key());
    bench.answer(401, r#"{"error":"Invalid API key"}"#);
    let words = Some("Invalid API key".to_owned());
    assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(words));

    let mut bench = Bench::with(key());
    bench.answer(503, "");
    bench.answer(200, TOKENS);
    assert!(bench.end().is_ok());
    assert_eq!(bench.now, Millis(1_000));
}

#[test]
fn unexpected_answer_is_ignored() {
    let mut bench = Bench::new();
    bench.refresh.on_outcome(&AuthOutcome::Unreachable("early".into()), Millis(0));
    bench.answer(200, TOKENS);
    bench.refresh.on_outcome(&AuthOutcome::Unreachable("late".into()), Millis(0));
    assert!(bench.end().is_ok());
}

#[test]
fn tokens_invalid_in_a_header_are_ignored() {
    let mut bench = Bench::new();
    bench.answer(200, r#"{"accessToken":"two words","refreshToken":"x"}"#);
    assert!(matches!(bench.refresh.step(bench.now), RefreshStep::Ask(_)));
}

#[test]
fn missing_endpoint_does_not_end_the_sign_in() {
    // None of them is there: another address may be meant.
    let mut bench = Bench::new();
    for status in [404, 410, 501] {
        bench.answer(status, "");
    }
    let error = bench.end().unwrap_err();
    assert!(matches!(&error, RefreshError::Unavailable(why) if why.contains("501")), "{error}");
    assert_eq!(bench.now, Millis(0), "asking again would not bring it back");

    // Those that are there refuse.
    let mut bench = Bench::new();
    bench.answer(404, "");
    bench.answer(401, r#"{"message":"Invalid refresh token"}"#);
    bench.answer(405, "");
    let words = Some("Invalid refresh token".to_owned());
    assert_eq!(bench.end().unwrap_err(), RefreshError::SignedOut(words));
}

#[test]
fn hanging_service_times_out() {
    let hang = |bench: &mut Bench| {
        bench.ask();
        bench.now = bench.now + crate::auth::PATIENCE;
    };
    // It takes the request and never answers.
    let mut bench = Bench::new();
    while let RefreshStep::Ask(_) | RefreshStep::Wait(_) = bench.refresh.step(bench.now) {
        hang(&mut bench);
        bench.refresh.on_outcome(&AuthOutcome::Unreachable("no answer in time".into()), bench.now);
    }
    assert_eq!(bench.end().unwrap_err(), RefreshError::Unavailable("no answer in time".into()));
    assert_eq!(bench.now, Millis(41_000));

    // Every form has a fault, and takes its time to say so.
    let mut bench = Bench::new();
    while let RefreshStep::Ask(_) | RefreshStep::Wait(_) = bench.refresh.step(bench.now) {
        hang(&mut bench);
        let fault = AuthOutcome::Answer { status: 500, body: Bytes::new(), retry_after: None };
        bench.refresh.on_outcome(&fault, bench.now);
    }
    assert!(matches!(bench.end(), Err(RefreshError::Unavailable(_))));
    assert_eq!(bench.now, Millis(40_000));
    assert!(bench.now < Millis(0) + LIMIT + crate::auth::PATIENCE);
}
