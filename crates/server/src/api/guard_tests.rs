use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use http::{Request, Response};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use super::*;
use crate::{
    api::tests::{Fake, app, call, chat_body, code_of, get, hello, is, post, whole},
    config::Config,
    keys::{Caller, KeyFile},
};

fn with(settings: ApiSettings) -> Fake {
    Fake { settings, steps: hello(), ..Fake::default() }
}

fn header<B>(mut request: Request<B>, name: &'static str, value: &str) -> Request<B> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

fn host(settings: &ApiSettings, host: &str) -> bool {
    AccessRules::new(settings).host(host)
}

#[test]
fn hosts() {
    let plain = ApiSettings::default();
    for good in [
        "localhost",
        "localhost:18741",
        "LOCALHOST:1",
        "localhost.",
        "app.localhost",
        "127.0.0.1",
        "127.0.0.1:18741",
        "127.9.9.9:80",
        "[::1]",
        "[::1]:18741",
    ] {
        assert!(host(&plain, good), "{good}");
    }
    for bad in [
        "",
        "evil.example",
        "evil.example:18741",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.1.5",
        "0.0.0.0:18741",
        "[::]:1",
        "notlocalhost",
        "?",
        "::1:18741:x",
        "localhost@evil.example",
        "evil.example@localhost",
        "[::1].evil.example",
    ] {
        assert!(!host(&plain, bad), "{bad}");
    }
    let named = ApiSettings { allowed_hosts: vec!["Box.Lan".to_owned()], ..ApiSettings::default() };
    assert!(host(&named, "box.lan:18741") && !host(&named, "other.lan"));
    let open =
        ApiSettings { bind: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), ..ApiSettings::default() };
    assert!(host(&open, "192.168.1.5:18741") && host(&open, "[fe80::1]:18741"));
    assert!(!host(&open, "evil.example"));
}

#[tokio::test]
async fn rebound_names_are_refused() {
    for request in [get("/health"), get("/v1/models"), post(chat_body(false))] {
        let request = header(request, "host", "evil.example:18741");
        let response = call(Fake { steps: hello(), ..Fake::default() }, request).await;
        is(&response, 403);
        assert!(response.headers().contains_key("x-request-id"));
        assert_eq!(code_of(&whole(response).await), "forbidden_origin");
    }
    // HTTP/2 has the name in its URI.
    let request = Request::get("http://evil.example/health")
        .version(Version::HTTP_2)
        .body(axum::body::Body::empty());
    is(&call(Fake::default(), request.unwrap()).await, 403);
}

#[tokio::test]
async fn http_1_1_needs_exactly_one_host() {
    let nameless = |version| {
        let request = Request::get("/v1/models").version(version);
        request.body(axum::body::Body::empty()).unwrap()
    };
    let response = call(Fake::default(), nameless(Version::HTTP_11)).await;
    is(&response, 400);
    let body = whole(response).await;
    assert_eq!(code_of(&body), "invalid_value");
    assert!(body.contains("`Host`"), "{body}");
    is(&call(Fake::default(), nameless(Version::HTTP_10)).await, 200);
    let mut twice = get("/v1/models");
    twice.headers_mut().append("host", "localhost".parse().unwrap());
    is(&call(Fake::default(), twice).await, 400);
}

/// A target may name a host as well, and then both have to be ours.
#[tokio::test]
async fn host_and_target_must_both_be_allowed() {
    let ask = |version, target: &str, host: Option<&str>| {
        let request = Request::get(target).version(version);
        let request = match host {
            Some(host) => request.header("host", host),
            None => request,
        };
        request.body(axum::body::Body::empty()).unwrap()
    };
    let ours = Some("localhost:18741");
    for (version, target, host, status) in [
        (Version::HTTP_11, "http://localhost:18741/health", ours, 200),
        (Version::HTTP_11, "http://evil.example/health", ours, 403),
        (Version::HTTP_11, "http://localhost/health", Some("evil.example"), 403),
        (Version::HTTP_11, "http://localhost/health", None, 400),
        (Version::HTTP_10, "http://evil.example/health", None, 403),
        (Version::HTTP_2, "http://localhost/health", None, 200),
        (Version::HTTP_2, "http://localhost/health", ours, 200),
        (Version::HTTP_2, "http://evil.example/health", ours, 403),
        (Version::HTTP_2, "http://localhost/health", Some("evil.example"), 403),
        (Version::HTTP_2, "/health", None, 400),
    ] {
        let response = call(Fake::default(), ask(version, target, host)).await;
        assert_eq!(response.status().as_u16(), status, "{version:?} {target} {host:?}");
    }
}

/// What a page loads without asking, as an image or a script, has no `PageOrigin`.
#[tokio::test]
async fn requests_embedded_in_foreign_pages_are_refused() {
    let fetch = |path: &str, site: &str, mode: &str| {
        header(header(get(path), "sec-fetch-site", site), "sec-fetch-mode", mode)
    };
    for (path, site, mode, status) in [
        ("/v1/models", "cross-site", "no-cors", 403),
        ("/v1/models", "same-site", "no-cors", 403),
        ("/v1/models", "cross-site", "navigate", 403),
        ("/health", "cross-site", "no-cors", 403),
        ("/health", "cross-site", "navigate", 200),
        ("/v1/models", "same-origin", "cors", 200),
        ("/v1/models", "none", "navigate", 200),
    ] {
        let response = call(Fake::default(), fetch(path, site, mode)).await;
        assert_eq!(response.status().as_u16(), status, "{path} {site} {mode}");
    }
    let any = ApiSettings { cors_origins: vec!["*".to_owned()], ..ApiSettings::default() };
    is(&call(with(any), fetch("/v1/models", "cross-site", "no-cors")).await, 200);
    // Browsers send both with a request that a page was allowed to make.
    let listed = header(get("/v1/models"), "origin", "https://app.example");
    let listed = header(header(listed, "sec-fetch-site", "cross-site"), "x-api-key", "the-key");
    is(&call(with(cors()), listed).await, 200);
}

#[tokio::test]
async fn foreign_pages_are_refused_and_get_no_cors() {
    for origin in ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1"] {
        let request = header(post(chat_body(false)), "origin", origin);
        let (router, fake) = app(with(ApiSettings::default()));
        let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
        is(&response, 403);
        assert!(!response.headers().contains_key("access-control-allow-origin"));
        assert!(fake.seen.lock().is_empty());
    }
    let own = header(post(chat_body(false)), "origin", "http://127.0.0.1:18741");
    let response = call(with(ApiSettings::default()), own).await;
    is(&response, 200);
    assert!(!response.headers().contains_key("access-control-allow-origin"));
}

fn cors() -> ApiSettings {
    let cors_origins = vec!["https://app.example/".to_owned()];
    ApiSettings {
        cors_origins,
        keys: Arc::new(Keys::single(Some(&"the-key".into()))),
        ..ApiSettings::default()
    }
}

fn has(response: &Response<axum::body::Body>, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn listed_pages_get_cors() {
    let ask = Request::options("/v1/chat/completions")
        .header("host", "localhost:18741")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,x-thing")
        .header("access-control-request-private-network", "true")
        .body(axum::body::Body::empty())
        .unwrap();
    let response = call(with(cors()), ask).await;
    is(&response, 204);
    for (name, value) in [
        ("access-control-allow-origin", "https://app.example"),
        ("access-control-allow-methods", "GET, HEAD, POST, DELETE, OPTIONS"),
        ("access-control-allow-headers", "authorization,x-thing"),
        ("access-control-allow-private-network", "true"),
        ("vary", "Origin"),
    ] {
        assert_eq!(has(&response, name).as_deref(), Some(value));
    }
    let request = header(post(chat_body(false)), "origin", "https://app.example");
    let request = header(request, "authorization", "Bearer the-key");
    let response = call(with(cors()), request).await;
    is(&response, 200);
    assert_eq!(
        has(&response, "access-control-allow-origin").as_deref(),
        Some("https://app.example")
    );
    // An error is readable by the page as well.
    let response =
        call(with(cors()), header(get("/v1/models"), "origin", "https://app.example")).await;
    is(&response, 401);
    assert!(has(&response, "access-control-allow-origin").is_some());

    let any = ApiSettings { cors_origins: vec!["*".to_owned()], ..ApiSettings::default() };
    let request = header(get("/v1/models"), "origin", "https://who.example");
    let response = call(with(any), request).await;
    assert_eq!(
        has(&response, "access-control-allow-origin").as_deref(),
        Some("https://who.example")
    );
}

#[tokio::test]
async fn api_key_is_checked() {
    let cases = [
        ("authorization", "Bearer the-key", 200),
        ("authorization", "bearer the-key", 200),
        ("x-api-key", "the-key", 200),
        ("authorization", "Bearer the-kez", 401),
        ("authorization", "Bearer the-ke", 401),
        ("authorization", "Bearer the-key1", 401),
        ("authorization", "Basic the-key", 401),
        ("authorization", "the-key", 401),
        ("x-api-key", "", 401),
        ("x-other", "the-key", 401),
    ];
    for (name, value, status) in cases {
        for request in [post(chat_body(false)), get("/v1/models"), get("/models/auto")] {
            let response = call(with(cors()), header(request, name, value)).await;
            is(&response, status);
            if status == 401 {
                assert_eq!(has(&response, "www-authenticate").as_deref(), Some("Bearer"));
                let body = whole(response).await;
                assert_eq!(code_of(&body), "invalid_api_key");
                assert!(!body.contains("***"), "our own words have no secret: {body}");
            }
        }
    }
    for path in ["/", "/health", "/healthz", "/docs", "/openapi.json"] {
        is(&call(with(cors()), get(path)).await, 200);
    }
    // Without a configured key, whatever clients send is fine.
    let request = header(get("/v1/models"), "authorization", "Bearer anything");
    is(&call(with(ApiSettings::default()), request).await, 200);
}

/// A client that has the gateway's key can verify who answers without sending the key.
#[tokio::test]
async fn health_shows_that_the_gateway_has_its_key() {
    let settings = ApiSettings::default();
    let challenge = "0123456789abcdef".repeat(4);
    let ask = |settings: &ApiSettings| {
        let request = header(get("/health"), "x-ibeam-challenge", &challenge);
        call(with(settings.clone()), request)
    };
    assert_eq!(has(&ask(&settings).await, "x-ibeam-proof"), None, "it has none");
    settings.keys.admit(&"ibi_1".into(), "127.0.0.1:18741");
    let proof = has(&ask(&settings).await, "x-ibeam-proof").unwrap();
    let hash = Sha256::digest("ibi_1").into();
    assert!(ibeam_core::challenge::is_proof(&proof, &hash, "127.0.0.1:18741", &challenge));
    assert_eq!(has(&call(with(settings.clone()), get("/health")).await, "x-ibeam-proof"), None);
    let short = header(get("/health"), "x-ibeam-challenge", "00");
    assert_eq!(has(&call(with(settings.clone()), short).await, "x-ibeam-proof"), None);
    // Its port may be another program's by then, which could relay the challenge.
    let health = crate::api::Health { shutting_down: true, ..Default::default() };
    let leaving = Fake { health, ..with(settings) };
    let request = header(get("/health"), "x-ibeam-challenge", &challenge);
    assert_eq!(has(&call(leaving, request).await, "x-ibeam-proof"), None);
}

#[tokio::test]
async fn request_ids() {
    for (given, expect) in [
        ("abc-1.2:3_4", "abc-1.2:3_4"),
        ("with space", "req_abababababababababababababababab"),
        ("", "req_abababababababababababababababab"),
        (&"x".repeat(129), "req_abababababababababababababababab"),
    ] {
        let response = call(Fake::default(), header(get("/health"), "x-request-id", given)).await;
        assert_eq!(has(&response, "x-request-id").as_deref(), Some(expect));
    }
}

/// The name goes with the request and into the log; the key does neither.
#[tokio::test]
async fn named_key_is_logged_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let secret = KeyFile::at(&path).add("laptop", Some(3), 0).unwrap();
    let mut config = Config::default();
    config.access.keys_file = Some(path);
    let keys = Keys::new(&config);
    let settings = ApiSettings { keys: Arc::new(keys), ..ApiSettings::default() };
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt().with_writer(captured.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (router, fake) = app(with(settings));
    let request = header(post(chat_body(false)), "x-api-key", secret.expose_secret());
    let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
    is(&response, 200);
    whole(response).await;
    let caller = fake.seen.lock()[0].1.caller.clone();
    assert_eq!((caller.name.as_deref(), caller.limit), (Some("laptop"), Some(3)));
    let log = String::from_utf8(captured.0.lock().clone()).unwrap();
    assert!(log.contains("laptop") && !log.contains(secret.expose_secret()), "{log}");
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn one_log_line_per_request_and_no_secret_in_it() {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(captured.clone())
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .finish();
    let _scope = tracing::subscriber::set_default(subscriber);

    let mut request = post(chat_body(true));
    *request.uri_mut() = "/v1/chat/completions?key=the-key".parse().unwrap();
    let request = header(request, "authorization", "Bearer the-key");
    let request = header(request, "x-request-id", "first");
    whole(call(with(cors()), request).await).await;
    let wrong = header(get("/v1/models"), "authorization", "Bearer wrong-secret");
    whole(call(with(cors()), header(wrong, "x-request-id", "second")).await).await;

    let log = String::from_utf8(captured.0.lock().clone()).unwrap();
    assert!(!log.contains("the-key") && !log.contains("wrong-secret"), "{log}");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("request_id=")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for word in
        ["first", "POST", "/v1/chat/completions", "status=200", "model=\"auto\"", "complete"]
    {
        assert!(lines[0].contains(word), "{word} in {log}");
    }
    for word in ["WARN", "second", "status=401", "invalid_api_key"] {
        assert!(lines[1].contains(word), "{word} in {log}");
    }
}

/// A connection on which requests without a key wait.
#[derive(Default)]
struct FullConnection(tokio::sync::Notify);

impl crate::api::ClientConnection for FullConnection {
    fn begin(&self) -> Box<dyn Send> {
        Box::new(())
    }

    fn asked_to_leave(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    fn showed_key(&self, _caller: &Caller) {}

    fn keyless(
        &self,
    ) -> std::pin::Pin<Box<dyn Future<Output = Option<crate::api::KeylessPermit>> + Send>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// There may be a hundred of them on each connection, each with a head of 64 KiB.
#[tokio::test]
async fn request_without_a_key_holds_little_while_it_waits() {
    struct Sent(Arc<[u8]>);
    impl AsRef<[u8]> for Sent {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let app = app(with(ApiSettings::default())).0;
    for (path, host) in [("/health", "localhost"), ("/v1/models", "evil.example")] {
        let line = Arc::new(FullConnection::default());
        let sent: Arc<[u8]> = vec![b'x'; 60 << 10].into();
        let whole = bytes::Bytes::from_owner(Sent(Arc::clone(&sent)));
        // Two values in one piece, as a client sends them.
        let part = |piece| HeaderValue::from_maybe_shared::<bytes::Bytes>(piece).unwrap();
        let mut request = header(get(path), "host", host);
        request.headers_mut().insert("origin", part(whole.slice(..9)));
        request.headers_mut().insert("x-long", part(whole));
        request.extensions_mut().insert(ConnectionHandle(line.clone()));
        let answer = crate::tasks::Tasks::new().spawn("test", app.clone().oneshot(request));
        line.0.notified().await;
        assert_eq!(Arc::strong_count(&sent), 1, "{path}: the head is kept");
        answer.abort();
    }
}

#[test]
fn what_answers_depend_on_is_kept_while_a_request_waits() {
    let long = "x".repeat(LONGEST);
    let request = Request::options(format!("http://localhost:7/{long}?query"))
        .header("origin", "http://page.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", long)
        .header(CHALLENGE, "abc")
        .header("user-agent", "someone")
        .body(());
    let kept = lean(&request.unwrap().into_parts().0);
    assert_eq!(kept.method, Method::OPTIONS);
    assert_eq!(kept.uri.path().len(), LONGEST);
    let mut headers: Vec<_> =
        kept.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.sort_unstable();
    let expected = [
        ("access-control-request-method", "POST"),
        ("host", "localhost:7"),
        ("origin", "http://page.example"),
        (CHALLENGE, "abc"),
    ];
    assert_eq!(headers, expected);
}
