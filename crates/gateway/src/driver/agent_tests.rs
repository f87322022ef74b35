use std::sync::atomic::Ordering as Atomic;

use h2::Reason;
use ibeam_core::codec::connect::{self, Code, ConnectError};
use ibeam_core::error::ErrorCode;
use ibeam_proto::aiserver::{AvailableModel, BidiRequestId};

use super::*;
use crate::{
    driver::{LinkReceiver, testing::Backend},
    net::{
        pool::PoolStats,
        testing::{Mode, Peer, answer, host, tls_pair},
    },
};

const RUN: &str = "/agent.v1.AgentService/Run";
const RUN_SSE: &str = "/agent.v1.AgentService/RunSSE";
const APPEND: &str = "/aiserver.v1.BidiService/BidiAppend";

fn driver(connector: &Connector, transport: Transport) -> (AgentDriver, TaskTracker) {
    let tasks = TaskTracker::new();
    let config = AgentConfig { transport, ..AgentConfig::new(host()) };
    (AgentDriver::new(config, connector, &tasks), tasks)
}

fn spec() -> Open {
    Open {
        token: "tok".to_owned().into(),
        request_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        original_request_id: "22222222-2222-4222-8222-222222222222".to_owned(),
        prefer_h1: false,
    }
}

fn framed(text: &str) -> Bytes {
    connect::frame(0, text.as_bytes())
}

async fn read(rx: &mut LinkReceiver, want: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < want {
        out.extend_from_slice(&rx.next().await.unwrap().unwrap());
    }
    out
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Waits until nothing runs any more on either side.
async fn all_gone(tasks: &TaskTracker) {
    tasks.close();
    tokio::time::timeout(Duration::from_secs(1), tasks.wait()).await.unwrap();
}

// === HTTP/2 ===

#[tokio::test(start_paused = true)]
async fn a_stream_goes_both_ways() {
    let peer = Peer::echo(100);
    let (driver, tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    for text in ["one", "two"] {
        link.tx.send(framed(text)).await.unwrap();
        assert_eq!(read(&mut link.rx, 8).await, framed(text));
    }
    assert_eq!(driver.stats().http2, PoolStats { connections: 1, streams: 1 });
    drop(link);
    settle().await;
    assert_eq!(driver.stats().http2, PoolStats { connections: 1, streams: 0 });
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    drop(driver);
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_is_answered_with_a_clean_end() {
    let ended = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&ended);
    let peer = Peer::new(100, move |_, request, mut respond| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            send.send_data(connect::end_frame(None), true).unwrap();
            let mut body = request.into_body();
            let mut clean = true;
            while let Some(chunk) = body.data().await {
                clean &= chunk.is_ok();
            }
            *seen.lock() = Some(clean);
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    assert_eq!(read(&mut link.rx, 7).await, connect::end_frame(None));
    assert!(link.rx.next().await.is_none());
    assert!(link.rx.next().await.is_none());
    settle().await;
    assert_eq!(*ended.lock(), Some(true));
    assert!(matches!(link.tx.send(framed("late")).await, Err(LinkError::Reset(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_no_more_input_ends_cleanly() {
    // Dropping the request's body unread resets the stream with NO_ERROR.
    let peer = Peer::new(100, |_, request, mut respond| {
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            send.send_data(connect::end_frame(None), true).unwrap();
            drop((send, request));
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(read(&mut link.rx, 7).await, connect::end_frame(None));
    assert_eq!(link.rx.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn cancel_wakes_a_reader_that_waits() {
    for answered in [false, true] {
        let peer = if answered { Peer::echo(100) } else { deaf() };
        let (driver, tasks) = driver(&peer.connector(), Transport::Http2);
        let Link { tx, mut rx } = driver.open(spec()).await.unwrap();
        let waiting = tasks.spawn(async move { (rx.next().await, rx.next().await) });
        settle().await;
        assert!(!waiting.is_finished());
        tx.cancel();
        let (first, second) = waiting.await.unwrap();
        assert!(matches!(first, Some(Err(LinkError::Reset(_)))), "{first:?}");
        assert_eq!(second, None);
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_is_a_cancel_reset_at_the_peer() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 6).await;
    link.tx.cancel();
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Reset(_)))));
    assert!(link.rx.next().await.is_none());
    assert!(matches!(link.tx.send(framed("y")).await, Err(LinkError::Reset(_))));
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
}

/// Never answers and never reads; notes how the request ended.
fn deaf() -> Peer {
    Peer::new(100, |peer, request, respond| {
        Box::pin(async move {
            let mut body = request.into_body();
            let _respond = respond;
            // Takes what comes, and gives no window back.
            while let Some(chunk) = body.data().await {
                if let Err(error) = chunk {
                    peer.resets.lock().push(error.reason());
                    return;
                }
            }
        })
    })
    .window(64 * 1024)
}

#[tokio::test(start_paused = true)]
async fn cancel_works_before_an_answer_and_with_a_shut_window() {
    let peer = deaf();
    let (driver, tasks) = driver(&peer.connector(), Transport::Http2);
    let link = driver.open(spec()).await.unwrap();
    let big = Bytes::from(vec![0; 1024 * 1024]);
    link.tx.send(big.clone()).await.unwrap();
    let stuck = tokio::time::timeout(Duration::from_secs(60), link.tx.send(big)).await;
    assert!(stuck.is_err(), "the window is shut");
    link.tx.cancel();
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    drop((link, driver));
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn cancel_wakes_a_sender_that_waits() {
    let peer = deaf();
    let (driver, tasks) = driver(&peer.connector(), Transport::Http2);
    let link = Arc::new(driver.open(spec()).await.unwrap());
    link.tx.send(Bytes::from(vec![0; 256 * 1024])).await.unwrap();
    let waiting = tasks.spawn({
        let link = Arc::clone(&link);
        async move { link.tx.send(framed("x")).await }
    });
    settle().await;
    assert!(!waiting.is_finished());
    link.tx.cancel();
    assert!(matches!(waiting.await.unwrap(), Err(LinkError::Reset(_))));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_receiver_cancels() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let link = driver.open(spec()).await.unwrap();
    settle().await;
    drop(link.rx);
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    assert!(link.tx.send(framed("x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_passes_a_64_kib_window_with_back_pressure() {
    // Reads 16 KiB per second.
    let peer = Peer::new(100, |peer, request, mut respond| {
        Box::pin(async move {
            let mut body = request.into_body();
            let mut send = respond.send_response(answer(200), false).unwrap();
            let mut owed = 0;
            while let Some(Ok(chunk)) = body.data().await {
                owed += chunk.len();
                peer.received.fetch_add(chunk.len(), Atomic::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                body.flow_control().release_capacity(chunk.len()).unwrap();
                if owed >= 1024 * 1024 {
                    owed = 0;
                    send.send_data(Bytes::from_static(b"got it"), false).unwrap();
                }
            }
        })
    })
    .window(64 * 1024);
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    let megabyte = Bytes::from(vec![7; 1024 * 1024]);
    link.tx.send(megabyte.clone()).await.unwrap();
    let began = Instant::now();
    link.tx.send(megabyte).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(peer.received.load(Atomic::SeqCst) >= 512 * 1024);
    assert_eq!(read(&mut link.rx, 12).await, b"got itgot it");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_send_leaves_whole_messages() {
    let peer = Peer::echo(100).window(64 * 1024);
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    let big = connect::frame(0, &vec![1; 200 * 1024]);
    link.tx.send(big.clone()).await.unwrap();
    // Given up while the window is shut.
    let given_up =
        tokio::time::timeout(Duration::ZERO, link.tx.send(framed("never"))).await.is_err();
    link.tx.send(framed("after")).await.unwrap();
    let rest = if given_up {
        framed("after").to_vec()
    } else {
        [framed("never"), framed("after")].concat()
    };
    let got = read(&mut link.rx, big.len() + rest.len()).await;
    assert_eq!(&got[big.len()..], rest);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_as_the_first_item() {
    let backend = Backend::default();
    backend.can(RUN, 401, r#"{"code":"unauthenticated","message":"who are you?"}"#);
    let (driver, _tasks) = driver(&backend.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    let _ = link.tx.send(framed("x")).await;
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert_eq!(
        error,
        LinkError::Status {
            status: 401,
            error: Some(ConnectError::new(Code::Unauthenticated, "who are you?")),
            retry_after: None
        }
    );
    assert!(link.rx.next().await.is_none());
    drop(link);
    assert_eq!(driver.stats().http2.streams, 0);
}

#[tokio::test(start_paused = true)]
async fn resets_keep_their_reason() {
    for (reason, refused) in [(Reason::REFUSED_STREAM, true), (Reason::INTERNAL_ERROR, false)] {
        let peer = Peer::new(100, move |_, _, mut respond| {
            Box::pin(async move { respond.send_reset(reason) })
        });
        let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
        let mut link = driver.open(spec()).await.unwrap();
        match link.rx.next().await.unwrap().unwrap_err() {
            LinkError::Refused(_) => assert!(refused),
            LinkError::Reset(why) => assert!(!refused && why.contains("INTERNAL_ERROR"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_ends_a_parked_stream() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::Http2);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 6).await;
    peer.set(Mode::BlackHole);
    let began = Instant::now();
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Reset(_)))));
    assert!(began.elapsed() <= Duration::from_secs(31));
    drop(link);
    assert_eq!(driver.stats().http2.streams, 0);
}

// === HTTP/1.1 ===

#[tokio::test(start_paused = true)]
async fn http1_appends_in_order_and_reads_the_long_answer() {
    let backend = Backend::default();
    let (driver, tasks) = driver(&backend.connector(), Transport::Http1);
    let mut link = driver.open(spec()).await.unwrap();
    for text in ["a", "bc"] {
        link.tx.send(framed(text)).await.unwrap();
    }
    let id = "11111111-1111-4111-8111-111111111111";
    let want = format!(
        r#"{{"data":"61","requestId":{{"requestId":"{id}"}},"appendSeqno":"0"}}{{"data":"6263","requestId":{{"requestId":"{id}"}},"appendSeqno":"1"}}"#
    );
    let got = read(&mut link.rx, want.len()).await;
    assert_eq!(String::from_utf8(got).unwrap(), want);
    assert_eq!(backend.paths(), ["RunSSE", "BidiAppend", "BidiAppend"]);
    {
        let seen = backend.seen.lock();
        let (_, head, body) = &seen[0];
        assert_eq!(head.version, http::Version::HTTP_11);
        assert_eq!(head.headers["content-type"], "application/connect+proto");
        assert_eq!(head.headers["x-cursor-streaming"], "true");
        let stream = BidiRequestId { request_id: id.to_owned() };
        assert_eq!(*body, connect::encode(&stream));
        let ids: Vec<_> = seen.iter().map(|(_, head, _)| &head.headers["x-request-id"]).collect();
        assert!(ids[0] == id && ids[1] != ids[2], "{ids:?}");
        assert!(seen.iter().all(|(_, head, _)| {
            head.headers["x-original-request-id"] == spec().original_request_id.as_str()
        }));
    }
    // The server ends the answer.
    backend.answer.lock().take();
    assert!(link.rx.next().await.is_none());
    drop((link, driver));
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn http1_cancel_delivers_what_was_sent_and_closes() {
    let backend = Backend::default();
    let (driver, tasks) = driver(&backend.connector(), Transport::Http1);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("run")).await.unwrap();
    read(&mut link.rx, 10).await;
    link.tx.send(framed("cancel")).await.unwrap();
    link.tx.cancel();
    drop(link);
    settle().await;
    assert_eq!(backend.paths(), ["RunSSE", "BidiAppend", "BidiAppend"]);
    assert_eq!((*backend.closed.lock(), driver.stats().http1_streams), (1, 0));
    drop(driver);
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn http1_without_a_reader_stops() {
    let backend = Backend::default();
    let (driver, _tasks) = driver(&backend.connector(), Transport::Http1);
    let link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(driver.stats().http1_streams, 1);
    drop(link.rx);
    settle().await;
    assert_eq!(driver.stats().http1_streams, 0);
    assert!(link.tx.send(framed("x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refused_append_ends_the_stream_and_is_not_sent_again() {
    let backend = Backend::default();
    backend.can(APPEND, 429, r#"{"code":"resource_exhausted","message":"later"}"#);
    let (driver, _tasks) = driver(&backend.connector(), Transport::Http1);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Status { status: 429, error: Some(_), .. }), "{error:?}");
    assert!(link.rx.next().await.is_none());
    settle().await;
    let appends = backend.paths().iter().filter(|path| *path == "BidiAppend").count();
    assert_eq!(appends, 1);
}

#[tokio::test(start_paused = true)]
async fn an_append_without_an_answer_times_out() {
    // The stream's answer is never read, so the echoing append blocks for ever.
    let backend = Backend::default();
    let (driver, _tasks) = driver(&backend.connector(), Transport::Http1);
    let mut link = driver.open(spec()).await.unwrap();
    settle().await;
    let (full, _keep) = tokio::sync::mpsc::channel(1);
    full.try_send(Bytes::new()).unwrap();
    let old = backend.answer.lock().replace(full);
    link.tx.send(framed("x")).await.unwrap();
    let began = Instant::now();
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Reset(_)), "{error:?}");
    assert_eq!(began.elapsed().as_secs(), 30);
    drop(old);
}

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
    for (transport, path) in [(Transport::Http2, RUN), (Transport::Http1, RUN_SSE)] {
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
async fn prefer_h1_is_heeded_unless_http2_is_forced() {
    let backend = Backend::default();
    let open = Open { prefer_h1: true, ..spec() };
    let (auto, _tasks) = driver(&backend.connector(), Transport::Auto);
    let _link = auto.open(open.clone()).await.unwrap();
    let (forced, _tasks) = driver(&backend.connector(), Transport::Http2);
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

// === lists ===

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
            && AvailableModelsRequest::decode(body.clone()).unwrap().use_model_parameters
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
async fn the_default_model_is_asked_for() {
    let backend = Backend::default();
    let model = usable().models.pop();
    let body = GetDefaultModelForCliResponse { model }.encode_to_vec();
    backend.can(DEFAULT_MODEL, 200, body);
    let (driver, _tasks) = driver(&backend.connector(), Transport::Auto);
    let model = driver.default_model(&"tok".to_owned().into()).await.unwrap().unwrap();
    assert_eq!(model.id, "gpt-5.4-high");
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
    };
    (connector, Host::parse(&format!("https://localhost:{port}")).unwrap())
}

#[tokio::test]
async fn tls_with_h2_runs_over_h2() {
    let backend = Backend::default();
    backend.can(RUN, 200, connect::end_frame(None));
    let (connector, host) = tls_backend(&backend, &["h2", "http/1.1"]).await;
    let tasks = TaskTracker::new();
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
    let tasks = TaskTracker::new();
    let driver = AgentDriver::new(AgentConfig::new(host), &connector, &tasks);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 1).await;
    assert_eq!(backend.paths(), ["GetServerConfig", "RunSSE", "BidiAppend"]);
    assert!(driver.stats().fallen_back);
}
