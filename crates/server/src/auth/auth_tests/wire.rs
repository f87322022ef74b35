//! The polls and refreshes of the sign-in machines as they go over a connection, against
//! a service that answers from a script. Time is paused: waits cost nothing and are exact.

use std::{collections::VecDeque, sync::Arc};

use ibeam_core::auth::{
    poll::PollError,
    refresh::{Proof, RefreshError},
    schedule::Skew,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::Instant,
};

use super::*;
use crate::{
    auth::{exchange::exchange, http::AuthHttp, login::BrowserLogin},
    net::connect::{Connector, Host},
    tasks::Tasks,
};

const EPOCH: u64 = 1_800_000_000;
const TOKENS: &str = r#"{"accessToken":"a.b.c","refreshToken":"d.e.f"}"#;

/// What the service does with a request.
#[derive(Clone, Copy)]
enum Answer {
    Says(u16, &'static str),
    /// With a header besides.
    With(u16, &'static str, &'static str),
    /// Closes the connection in place of an answer.
    Cut,
    /// Announces more than it sends, and closes.
    Half,
    /// Never answers.
    Hangs,
}

use Answer::{Cut, Half, Hangs, Says, With};

/// A service, and what it was asked: request line, bearer, body.
struct Service {
    tasks: Tasks,
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<[String; 3]>>>,
}

impl Service {
    fn new(script: &[Answer]) -> Self {
        Self {
            tasks: Tasks::new(),
            script: Arc::new(Mutex::new(script.iter().copied().collect())),
            asked: Arc::default(),
        }
    }

    fn http(&self) -> AuthHttp {
        let (tasks, script, asked) =
            (self.tasks.clone(), Arc::clone(&self.script), Arc::clone(&self.asked));
        let connector = Connector::Memory(Arc::new(move || {
            let (ours, theirs) = tokio::io::duplex(16_384);
            tasks.spawn("service", serve(theirs, Arc::clone(&script), Arc::clone(&asked)));
            ours
        }));
        let host = Host::parse("http://127.0.0.1:1").unwrap();
        AuthHttp::new(&connector, &host, &self.tasks)
    }

    async fn login(&self, limit: Duration) -> Result<Credential, PollError> {
        BrowserLogin::begin(self.http(), limit).wait().await
    }

    async fn refresh(&self, skew: &mut Skew) -> Result<(String, Option<String>), RefreshError> {
        let proof = Proof::RefreshToken(SecretString::from("old"));
        let grant = exchange(proof, &self.http(), skew, || EPOCH).await?;
        let text = |token: &SecretString| token.expose_secret().to_owned();
        Ok((text(&grant.access), grant.refresh.as_ref().map(text)))
    }

    /// The paths, without their queries.
    fn paths(&self) -> Vec<String> {
        let path = |line: &str| line.split([' ', '?']).nth(1).unwrap().to_owned();
        self.asked.lock().iter().map(|[line, ..]| path(line)).collect()
    }
}

async fn serve(
    mut stream: DuplexStream,
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<[String; 3]>>>,
) {
    while let Some(request) = read(&mut stream).await {
        asked.lock().push(request);
        let answer = script.lock().pop_front();
        let (status, header, body, length) = match answer.expect("more requests than answers") {
            Says(status, body) => (status, "x-any: y", body, body.len()),
            With(status, header, body) => (status, header, body, body.len()),
            Half => (200, "x-any: y", TOKENS, TOKENS.len() + 10),
            Cut => return,
            Hangs => return std::future::pending().await,
        };
        let text =
            format!("HTTP/1.1 {status} X\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        if matches!(answer, Some(Half)) {
            return;
        }
    }
}

/// One request; `None` when there are no more.
async fn read(stream: &mut DuplexStream) -> Option<[String; 3]> {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let mut lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
            };
            if body.len() >= header("content-length").parse().unwrap_or(0) {
                let line = head.lines().next().unwrap_or_default();
                let bearer = header("authorization").trim_start_matches("Bearer ");
                return Some([line.to_owned(), bearer.to_owned(), body.to_owned()]);
            }
        }
        match stream.read(&mut buffer).await.unwrap() {
            0 => return None,
            read => text.push_str(std::str::from_utf8(&buffer[..read]).unwrap()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn login_poll_survives_two_faults_in_a_row() {
    for fault in [
        Says(500, "oops"),
        Says(429, ""),
        With(429, "retry-after: 1", ""),
        With(503, "retry-after: soon", ""),
        Says(200, "<html>"),
        Says(200, "{}"),
        Cut,
        Half,
        Hangs,
    ] {
        let pending = Says(404, "");
        let script = [fault, fault, pending, fault, fault, Says(200, TOKENS)];
        let service = Service::new(&script);
        let credential = service.login(Duration::MAX).await.unwrap();
        assert_eq!(credential.refresh_token.unwrap().expose_secret(), "d.e.f");
        assert_eq!(service.paths(), ["/auth/poll"; 6]);
        assert!(service.asked.lock().iter().all(|[line, bearer, body]| {
            line.contains("&verifier=") && bearer.is_empty() && body.is_empty()
        }));

        let service = Service::new(&[fault; 3]);
        let error = service.login(Duration::MAX).await.unwrap_err();
        assert!(matches!(error, PollError::GaveUp(_)), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn login_poll_times_out_after_twenty_seconds() {
    let service = Service::new(&[Hangs; 3]);
    let started = Instant::now();
    let error = service.login(Duration::MAX).await.unwrap_err();
    assert_eq!(
        error,
        PollError::GaveUp("127.0.0.1:1 cannot be reached: no answer in time".to_owned())
    );
    // Waits of 1, 1.2 and 1.44 seconds, and three times twenty.
    assert_eq!(started.elapsed().as_millis(), 63_640);
}

#[tokio::test(start_paused = true)]
async fn login_poll_obeys_retry_after_within_its_limit() {
    let service = Service::new(&[With(429, "retry-after: 33", ""), Says(200, TOKENS)]);
    let started = Instant::now();
    service.login(Duration::MAX).await.unwrap();
    assert_eq!(started.elapsed().as_millis(), 34_000);

    let service = Service::new(&[With(429, "retry-after: 3600", "")]);
    let started = Instant::now();
    let error = service.login(Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error, PollError::TimedOut);
    assert_eq!(started.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn policy_refusal_keeps_its_text() {
    let service = Service::new(&[Says(403, r#"{"error":"Your team requires SSO"}"#)]);
    let error = service.login(Duration::MAX).await.unwrap_err();
    assert_eq!(error, PollError::Refused("Your team requires SSO".to_owned()));
    assert_eq!(service.paths().len(), 1);
}

const FORMS: [&str; 3] = ["/auth/exchange_user_api_key", "/auth/refresh", "/oauth/token"];

#[tokio::test(start_paused = true)]
async fn refresh_tries_the_endpoints_in_order() {
    let oauth = r#"{"access_token":"new","id_token":"x","shouldLogout":false}"#;
    let service = Service::new(&[Says(401, ""), Says(500, ""), Says(200, oauth)]);
    let started = Instant::now();
    let (access, refresh) = service.refresh(&mut Skew::default()).await.unwrap();
    assert_eq!((access.as_str(), refresh), ("new", None));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(service.paths(), FORMS);
    let asked = service.asked.lock();
    assert!(asked.iter().all(|[line, ..]| line.starts_with("POST ")));
    assert_eq!(asked.iter().map(|[_, bearer, _]| bearer).collect::<Vec<_>>(), ["old", "old", ""]);
    assert_eq!((asked[0][2].as_str(), asked[1][2].as_str()), ("{}", "{}"));
    assert!(asked[2][2].contains(r#""refresh_token":"old""#), "{}", asked[2][2]);
}

#[tokio::test(start_paused = true)]
async fn dead_refresh_token_differs_from_a_service_failure() {
    let dead = r#"{"access_token":"","id_token":"","shouldLogout":true}"#;
    for script in [
        vec![Says(401, ""), Says(401, ""), Says(200, dead)],
        vec![Says(400, ""), Says(403, ""), Says(401, "")],
        vec![Says(403, r#"{"shouldLogout":true}"#)],
        vec![Says(200, r#"{"shouldLogout":true}"#)],
    ] {
        let service = Service::new(&script);
        let error = service.refresh(&mut Skew::default()).await.unwrap_err();
        assert_eq!(error, RefreshError::SignedOut(None));
        assert_eq!(service.paths(), FORMS[..script.len()]);
    }
    // Four rounds, each through all forms, or with one request if the service is unreachable;
    // two rounds if each takes long.
    for (fault, asked) in [
        (Says(500, ""), 12),
        (Says(200, "<html>"), 12),
        (Says(200, r#"{"accessToken":7}"#), 12),
        (Says(429, ""), 4),
        (Cut, 4),
        (Half, 4),
        (Hangs, 2),
    ] {
        let service = Service::new(&vec![fault; asked]);
        let error = service.refresh(&mut Skew::default()).await.unwrap_err();
        assert!(matches!(error, RefreshError::Unavailable(_)), "{error:?}");
        assert_eq!(service.paths().len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn refresh_is_retried_after_a_twenty_second_timeout() {
    let service = Service::new(&[Hangs, Says(200, TOKENS)]);
    let started = Instant::now();
    let (access, refresh) = service.refresh(&mut Skew::default()).await.unwrap();
    assert_eq!((access.as_str(), refresh.as_deref()), ("a.b.c", Some("d.e.f")));
    // A wait of half a second to a whole one, by chance.
    let took = started.elapsed().as_millis();
    assert!((20_500..=21_000).contains(&took), "{took}");
    assert_eq!(service.paths(), [FORMS[0]; 2]);
}

#[tokio::test(start_paused = true)]
async fn refresh_obeys_retry_after_within_its_limit() {
    let service = Service::new(&[With(429, "retry-after: 9", ""), Says(200, TOKENS)]);
    let started = Instant::now();
    service.refresh(&mut Skew::default()).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 9);

    let service = Service::new(&[With(429, "retry-after: 3600", "")]);
    let error = service.refresh(&mut Skew::default()).await.unwrap_err();
    assert!(matches!(error, RefreshError::Unavailable(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn date_header_corrects_the_clock() {
    // EPOCH is 2027-01-15 08:00:00.
    for (date, want) in [
        ("date: Fri, 15 Jan 2027 06:00:00 GMT", EPOCH - 7_200),
        ("date: Fri, 15 Jan 2027 08:00:02 GMT", EPOCH),
        ("date: yesterday", EPOCH),
    ] {
        let mut skew = Skew::default();
        let service = Service::new(&[With(200, date, TOKENS)]);
        service.refresh(&mut skew).await.unwrap();
        assert_eq!(skew.server_time(EPOCH), want, "{date}");
    }
}
