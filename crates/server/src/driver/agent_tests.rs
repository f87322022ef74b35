use h2::Reason;
use ibeam_core::{
    codec::connect::{self, Code, ConnectError},
    error::ErrorCode,
};
use ibeam_proto::{agent::AgentUrlConfig, aiserver::AvailableModel};
use prost::Message as _;

use super::*;
use crate::{
    driver::testing::{Backend, Canned, RUN, RUN_SSE, driver, framed, read, settle, spec},
    net::testing::{Peer, tls_pair},
};

// === choosing between them ===

#[tokio::test(start_paused = true)]
async fn a_wrong_protocol_status_is_remembered_and_forgotten_in_time() {
    for status in [464, 421] {
        let backend = Backend::default();
        backend.can(RUN, status, "");
        let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
        let mut link = driver.open(spec()).await.unwrap();
        assert!(matches!(link.rx.next().await, Some(Err(LinkError::Refused(_)))));
        assert!(driver.stats().fallen_back);
        let mut again = driver.open(spec()).await.unwrap();
        again.tx.send(framed("x")).await.unwrap();
        read(&mut again.rx, 1).await;
        assert_eq!(backend.paths(), ["GetServerConfig", "Run", "RunSSE", "BidiAppend"]);
        tokio::time::sleep(Duration::from_secs(601)).await;
        assert!(!driver.stats().fallen_back);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chosen_transport_is_not_left() {
    for (transport, path) in [(Transport::H2, RUN), (Transport::H1, RUN_SSE)] {
        let backend = Backend::default();
        backend.can(path, 464, "");
        let (driver, _tasks) = driver(&backend.connector(), transport);
        let mut link = driver.open(spec()).await.unwrap();
        let error = link.rx.next().await.unwrap().unwrap_err();
        assert!(matches!(error, LinkError::Status { status: 464, .. }), "{error:?}");
        assert!(!driver.stats().fallen_back);
    }
}

#[tokio::test(start_paused = true)]
async fn http_1_1_required_is_remembered() {
    let peer = Peer::new(100, |_, _, mut respond| {
        Box::pin(async move { respond.send_reset(Reason::HTTP_1_1_REQUIRED) })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::Auto);
    // This peer has no HTTP/1.1, so the question about settings fails: HTTP/2 it is.
    let mut link = driver.open(spec()).await.unwrap();
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Refused(_)))));
    assert!(driver.stats().fallen_back);
}

#[tokio::test(start_paused = true)]
async fn a_host_without_http2_gets_http1_at_once() {
    let backend = Backend::default();
    let served = backend.clone();
    let connector = Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let backend = served.clone();
        served.tasks.spawn(async move { backend.serve_http1(far).await });
        near
    }));
    let (driver, _tasks) = driver(&connector, Transport::Auto);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 1).await;
    assert!(driver.stats().fallen_back);
    assert_eq!(backend.paths(), ["GetServerConfig", "RunSSE", "BidiAppend"]);
}

#[tokio::test(start_paused = true)]
async fn the_servers_wish_counts_and_is_renewed() {
    let backend = Backend::default();
    let wish = |value: Http2Config| {
        let config = GetServerConfigResponse { http2_config: value.into(), ..Default::default() };
        backend.can(SERVER_CONFIG, 200, config.encode_to_vec());
    };
    wish(Http2Config::ForceBidiDisabled);
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    let _first = driver.open(spec()).await.unwrap();
    let _second = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(backend.paths(), ["GetServerConfig", "RunSSE", "RunSSE"]);
    wish(Http2Config::ForceAllEnabled);
    tokio::time::sleep(Duration::from_secs(31)).await;
    // Takes the old answer and asks anew behind its back.
    let _third = driver.open(spec()).await.unwrap();
    settle().await;
    let _fourth = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(backend.paths()[3..], ["GetServerConfig", "RunSSE", "Run"]);
}

#[tokio::test(start_paused = true)]
async fn the_servers_wish_outlives_a_failed_question() {
    let backend = Backend::default();
    let forbids = Http2Config::ForceBidiDisabled.into();
    let config = GetServerConfigResponse { http2_config: forbids, ..Default::default() };
    backend.can(SERVER_CONFIG, 200, config.encode_to_vec());
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    let _first = driver.open(spec()).await.unwrap();
    backend.can(SERVER_CONFIG, 503, "");
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(31)).await;
        let _link = driver.open(spec()).await.unwrap();
        settle().await;
    }
    let paths = backend.paths();
    assert_eq!(paths.iter().filter(|path| *path == "GetServerConfig").count(), 3);
    assert!(!paths.contains(&"Run".to_owned()), "{paths:?}");
}

#[tokio::test(start_paused = true)]
async fn prefer_h1_is_heeded_unless_http2_is_forced() {
    let backend = Backend::default();
    let open = Open { peer: AgentOpen { prefer_h1: true, ..AgentOpen::default() }, ..spec() };
    let (auto, _tasks) = driver(&backend.connector(), Transport::Auto);
    let _link = auto.open(open.clone()).await.unwrap();
    let (forced, _tasks) = driver(&backend.connector(), Transport::H2);
    let _other = forced.open(open).await.unwrap();
    settle().await;
    assert_eq!(backend.paths(), ["RunSSE", "Run"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_refuses_http1_too_is_not_stuck_on_it() {
    let backend = Backend::default();
    backend.can(RUN_SSE, 464, "");
    backend.can(RUN, 464, "");
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    for fallen_back in [true, false] {
        let mut link = driver.open(spec()).await.unwrap();
        assert!(matches!(link.rx.next().await, Some(Err(LinkError::Refused(_)))));
        assert_eq!(driver.stats().fallen_back, fallen_back);
    }
}

// === choosing the host ===

const AGENT: &str = "agent.global.api5.cursor.sh";
const AGENTN: &str = "agentn.global.api5.cursor.sh";

/// A driver whose service names these hosts.
fn following(
    backend: &Backend,
    connector: &Connector,
    transport: Transport,
) -> (AgentDriver, Tasks) {
    let [agent_url, agentn_url] = [AGENT, AGENTN].map(|name| format!("https://{name}"));
    let urls = AgentUrlConfig { agent_url, agentn_url };
    let settings = GetServerConfigResponse { agent_url_config: Some(urls), ..Default::default() };
    backend.can(SERVER_CONFIG, 200, settings.encode_to_vec());
    let (tasks, host) = (Tasks::new(), crate::net::hosts::API.host());
    let config = AgentConfig { transport, follows_service: true, ..AgentConfig::new(host) };
    (AgentDriver::new(config, connector, &tasks), tasks)
}

/// The paths and hosts of what was asked so far.
fn seen(backend: &Backend) -> Vec<(String, String)> {
    let seen = backend.seen.lock();
    seen.iter()
        .map(|(path, head, _)| {
            let header = head.headers.get("host").and_then(|value| value.to_str().ok());
            let host = head.uri.host().or(header).unwrap().to_owned();
            (path.rsplit('/').next().unwrap().to_owned(), host)
        })
        .collect()
}

fn on(path: &str, host: &str) -> (String, String) {
    (path.to_owned(), host.to_owned())
}

#[tokio::test(start_paused = true)]
async fn section_5_runs_go_to_the_host_that_the_service_names() {
    for transport in [Transport::Auto, Transport::H2] {
        let backend = Backend::default();
        let (driver, _tasks) = following(&backend, &backend.connector(), transport);
        for _ in 0..2 {
            let _link = driver.open(spec()).await.unwrap();
            settle().await;
        }
        let want = [on("GetServerConfig", "api2.cursor.sh"), on("Run", AGENT), on("Run", AGENT)];
        assert_eq!(seen(&backend), want, "{transport:?}");
    }
    // HTTP/1.1 is spoken by the API's own host only.
    let backend = Backend::default();
    let (driver, _tasks) = following(&backend, &backend.connector(), Transport::H1);
    let _link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(seen(&backend), [on("RunSSE", "api2.cursor.sh")]);
}

#[tokio::test(start_paused = true)]
async fn section_5_another_host_is_taken_once_for_all_runs_that_ask_for_it() {
    let backend = Backend::default();
    let (driver, _tasks) = following(&backend, &backend.connector(), Transport::Auto);
    let _first = driver.open(spec()).await.unwrap();
    settle().await;
    let other = Open { peer: AgentOpen { other_host: Some(0), ..AgentOpen::default() }, ..spec() };
    // Two turns that began before the change.
    for _ in 0..2 {
        let _link = driver.open(other.clone()).await.unwrap();
        settle().await;
    }
    let _later = driver.open(spec()).await.unwrap();
    settle().await;
    let runs: Vec<_> = seen(&backend).into_iter().filter(|(path, _)| path == "Run").collect();
    let hosts: Vec<&str> = runs.iter().map(|(_, host)| host.as_str()).collect();
    assert_eq!(hosts, [AGENT, AGENTN, AGENTN, AGENTN]);
    let asked = backend.paths().iter().filter(|path| *path == "GetServerConfig").count();
    assert_eq!(asked, 3, "the settings are asked for again");
}

/// A connector whose connections with these numbers are never served.
fn silent_at(backend: &Backend, silent: &'static [usize]) -> Connector {
    let (backend, kept) = (backend.clone(), Mutex::new(Vec::new()));
    let made = AtomicUsize::new(0);
    Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        if silent.contains(&made.fetch_add(1, Ordering::Relaxed)) {
            kept.lock().push(far);
        } else {
            backend.tasks.spawn(backend.clone().serve(far));
        }
        near
    }))
}

#[tokio::test(start_paused = true)]
async fn section_5_when_http2_does_not_open_in_time_http1_on_the_api_host_is_used_and_kept() {
    let backend = Backend::default();
    let connector = silent_at(&backend, &[1]);
    let (driver, _tasks) = following(&backend, &connector, Transport::Auto);
    for _ in 0..2 {
        let _link = driver.open(spec()).await.unwrap();
        settle().await;
    }
    let api = "api2.cursor.sh";
    let want = [on("GetServerConfig", api), on("RunSSE", api), on("RunSSE", api)];
    assert_eq!(seen(&backend), want);
    assert!(driver.stats().fallen_back);
    // A transport that the user chose is not left, but the host is.
    let backend = Backend::default();
    let connector = silent_at(&backend, &[1]);
    let (driver, _tasks) = following(&backend, &connector, Transport::H2);
    let _link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(seen(&backend), [on("GetServerConfig", api), on("Run", api)]);
}

// === lists ===

#[tokio::test(start_paused = true)]
async fn section_6_a_list_whose_path_is_unknown_is_asked_of_the_other_service() {
    for (status, body) in [(404, ""), (501, r#"{"code":"unimplemented","message":"no"}"#)] {
        let backend = Backend::default();
        backend.can(USABLE_MODELS, status, body);
        backend.can(USABLE_MODELS_TOO, 200, usable().encode_to_vec());
        let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
        assert_eq!(driver.models("tok".to_owned().into()).await.unwrap().len(), 2, "{status}");
    }
    // A refusal is an answer.
    let backend = Backend::default();
    backend.can(USABLE_MODELS, 403, "");
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    assert!(driver.models("tok".to_owned().into()).await.is_err());
    let asked = backend.paths().iter().filter(|path| *path == "GetUsableModels").count();
    assert_eq!(asked, 1);
}

#[tokio::test(start_paused = true)]
async fn section_7_the_head_of_a_silent_answer_names_its_error() {
    let name = ibeam_core::codec::connect::ERROR_TYPE;
    for (path, transport) in [(RUN, Transport::H2), (RUN_SSE, Transport::H1)] {
        for (value, want) in
            [("ERROR_PRO_USER_USAGE_LIMIT", Some(ErrorCode::InsufficientQuota)), ("WHAT", None)]
        {
            let backend = Backend::default();
            let headers = vec![(name, value)];
            backend.canned.lock().insert(path, Canned { status: 200, headers, body: Bytes::new() });
            let (driver, _tasks) = driver(&backend.connector(), transport);
            let mut link = driver.open(spec()).await.unwrap();
            let said = link.rx.next().await;
            let code = said.map(|said| said.unwrap_err().to_turn_error().code);
            assert_eq!(code, want, "{path} {value}");
        }
    }
}

fn usable() -> GetUsableModelsResponse {
    let model = |id: &str| ModelDetails { model_id: id.to_owned(), ..Default::default() };
    GetUsableModelsResponse { models: vec![model("default"), model("gpt-5.4-high")] }
}

#[tokio::test(start_paused = true)]
async fn models_are_merged_from_both_lists() {
    let backend = Backend::default();
    backend.can(USABLE_MODELS, 200, usable().encode_to_vec());
    let rich = AvailableModel { name: "gpt-5.4".to_owned(), ..Default::default() };
    let available = AvailableModelsResponse { models: vec![rich], ..Default::default() };
    backend.can(AVAILABLE_MODELS, 200, connect::encode(&available));
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    let models = driver.models("tok".to_owned().into()).await.unwrap();
    let mut ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["default", "gpt-5.4", "gpt-5.4-high"]);
    let asked = backend.seen.lock().iter().any(|(path, _, body)| {
        path == AVAILABLE_MODELS
            && AvailableModelsRequest::decode(body.clone())
                .is_ok_and(|asked| asked.use_model_parameters && asked.do_not_use_markdown)
    });
    assert!(asked);
}

#[tokio::test(start_paused = true)]
async fn one_list_is_enough_and_none_is_an_error() {
    let backend = Backend::default();
    backend.can(USABLE_MODELS, 200, usable().encode_to_vec());
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    assert_eq!(driver.models("tok".to_owned().into()).await.unwrap().len(), 2);
    backend.can(USABLE_MODELS, 401, r#"{"code":"unauthenticated","message":"no"}"#);
    let error = driver.models("tok".to_owned().into()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotAuthenticated);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_come_in_time_is_a_time_out() {
    // Takes the request and stays silent.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let connector = Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        kept.lock().push(far);
        near
    }));
    let (driver, _tasks) = driver(&connector, Transport::Auto);
    let error = driver.models("tok".to_owned().into()).await.unwrap_err();
    assert_eq!((error.code, error.code.row().status), (ErrorCode::Timeout, 504));
    assert!(error.message.contains("15 seconds"), "{}", error.message);
}

#[test]
fn plain_answers_come_bare_or_enveloped() {
    let bare = usable().encode_to_vec();
    let decoded: GetUsableModelsResponse = decode(bare.into()).unwrap();
    assert_eq!(decoded, usable());
    let decoded: GetUsableModelsResponse = decode(connect::encode(&usable())).unwrap();
    assert_eq!(decoded, usable());
    let empty: GetUsableModelsResponse = decode(Bytes::new()).unwrap();
    assert!(empty.models.is_empty());
    let failed = connect::end_frame(Some(&ConnectError::new(Code::Internal, "oops")));
    assert!(matches!(
        decode::<GetUsableModelsResponse>(failed),
        Err(LinkError::Status { error: Some(_), .. })
    ));
    assert!(decode::<GetUsableModelsResponse>(Bytes::from_static(b"<html>")).is_err());
}

// === over TLS ===

/// Serves TLS connections on loopback until the test ends.
async fn tls_backend(backend: &Backend, offers: &[&str]) -> (Connector, Host) {
    let (client, server) = tls_pair(offers);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(server);
    let backend = backend.clone();
    backend.tasks.clone().spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, backend) = (acceptor.clone(), backend.clone());
            backend.tasks.clone().spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    backend.serve(stream).await;
                }
            });
        }
    });
    let connector = Connector::Tcp {
        tls: Arc::new(client),
        proxy: crate::net::proxy::Proxy::none(),
        connect_timeout: Duration::from_secs(10),
        reach: crate::net::hosts::Reach::anywhere(),
    };
    (connector, Host::parse(&format!("https://localhost:{port}")).unwrap())
}

#[tokio::test]
async fn tls_with_h2_runs_over_h2() {
    let backend = Backend::default();
    backend.can(RUN, 200, connect::end_frame(None));
    let (connector, host) = tls_backend(&backend, &["h2", "http/1.1"]).await;
    let tasks = Tasks::new();
    let driver = AgentDriver::new(AgentConfig::new(host), &connector, &tasks);
    let mut link = driver.open(spec()).await.unwrap();
    let _ = link.tx.send(framed("x")).await;
    assert_eq!(read(&mut link.rx, 7).await, connect::end_frame(None));
    let seen = backend.seen.lock();
    assert!(seen.iter().all(|(_, head, _)| head.version == http::Version::HTTP_2));
}

#[tokio::test]
async fn tls_without_h2_runs_over_http1() {
    let backend = Backend::default();
    let (connector, host) = tls_backend(&backend, &["http/1.1"]).await;
    let tasks = Tasks::new();
    let driver = AgentDriver::new(AgentConfig::new(host), &connector, &tasks);
    let mut link = driver.open(spec()).await.unwrap();
    // The two requests have a connection each, and the backend answers in one what comes in the
    // other.
    while backend.answer.lock().is_none() {
        settle().await;
    }
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 1).await;
    assert_eq!(backend.paths(), ["GetServerConfig", "RunSSE", "BidiAppend"]);
    assert!(driver.stats().fallen_back);
}
