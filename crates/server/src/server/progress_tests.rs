use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures_util::stream;
use http::Request;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::*;
use crate::{
    api::ConnectionHandle,
    config::Config,
    server::{
        client::{ClientHost, ClientLimits, client},
        connections::Connections,
    },
    shutdown::Shutdown,
    tasks::Tasks,
};

const STALL: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const PAGE: Bytes = Bytes::from_static(&[b'x'; 1 << 20]);

/// A connection that is served, and the other end of it.
struct Served {
    io: DuplexStream,
    crowd: Arc<Connections>,
    ended: JoinHandle<()>,
}

/// `/page` has a megabyte, `/quiet` a comment every ten seconds.
fn router() -> Router {
    let comment = |()| async {
        sleep(Duration::from_secs(10)).await;
        Some((Ok::<_, io::Error>(": keep-alive\n\n"), ()))
    };
    Router::new()
        .route("/page", get(async || PAGE))
        .route("/quiet", get(async move || Body::from_stream(stream::unfold((), comment))))
}

async fn serve(router: Router, room: usize) -> Served {
    let config = Config::default();
    assert_eq!(config.clocks.client_stall, STALL);
    let host = ClientHost {
        router,
        tls: None,
        limits: ClientLimits::of(&config),
        shutdown: Shutdown::new(),
        executor: Tasks::new().executor("client stream"),
    };
    let crowd = Connections::new(1);
    let member = crowd.enter().await.unwrap();
    let (io, server) = duplex(room);
    let ended = Tasks::new().spawn("test", client(Box::new(server), host, member));
    Served { io, crowd, ended }
}

fn request(path: &str) -> Request<()> {
    Request::get(format!("http://localhost{path}")).body(()).unwrap()
}

/// How long it took until the connection was closed.
async fn closed(served: Served) -> Duration {
    let began = Instant::now();
    timeout(HOUR, served.ended).await.expect("it is still connected").unwrap();
    let took = began.elapsed();
    // What was answered on it is dropped by tasks of their own.
    sleep(Duration::from_secs(1)).await;
    assert_eq!((served.crowd.len(), served.crowd.traffic().0), (0, false), "its place is free");
    took
}

/// Not before its time, and at most one look later.
#[track_caller]
fn assert_stalled(took: Duration) {
    assert!((STALL..=STALL + STALL / LOOKS).contains(&took), "{took:?}");
}

/// It answers pings, so that only its answer shows that it does not read.
#[tokio::test(start_paused = true)]
async fn http2_client_without_a_window_is_disconnected() {
    let mut served = serve(router(), 1 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(0).handshake::<_, Bytes>(io);
    let (mut sender, connection) = handshake.await.unwrap();
    let driver = Tasks::new().spawn("test", connection);
    let (response, _) = sender.send_request(request("/page"), true).unwrap();
    let _body = response.await.unwrap().into_body();
    assert!(served.crowd.traffic().0, "the answer waits");
    assert_stalled(closed(served).await);
    let _ = driver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn http2_client_that_reads_too_slowly_is_disconnected() {
    let mut served = serve(router(), 1 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(100).handshake::<_, Bytes>(io);
    let (mut sender, connection) = handshake.await.unwrap();
    Tasks::new().spawn("test", connection);
    let (response, _) = sender.send_request(request("/page"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    Tasks::new().spawn("test", async move {
        while let Some(Ok(data)) = body.data().await {
            sleep(Duration::from_secs(10)).await;
            let _ = body.flow_control().release_capacity(data.len());
        }
    });
    assert_stalled(closed(served).await);
}

#[tokio::test(start_paused = true)]
async fn http1_client_that_does_not_read_is_disconnected() {
    let mut served = serve(router(), 1024).await;
    served.io.write_all(b"GET /page HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_stalled(closed(served).await);
}

#[tokio::test(start_paused = true)]
async fn slow_client_above_the_minimum_rate_gets_everything() {
    let mut served = serve(router(), 1024).await;
    served.io.write_all(b"GET /page HTTP/1.0\r\nhost: localhost\r\n\r\n").await.unwrap();
    let (mut piece, mut got) = ([0; 1024], 0);
    loop {
        match served.io.read(&mut piece).await.unwrap() {
            0 => break,
            read => got += read,
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!(got > PAGE.len(), "{got}");
}

/// While a model thinks for hours, its stream has only comments.
#[tokio::test(start_paused = true)]
async fn silent_stream_stays_open_while_it_is_read() {
    let mut served = serve(router(), 1 << 20).await;
    served.io.write_all(b"GET /quiet HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let reader = async {
        let (began, mut got) = (Instant::now(), 0);
        while began.elapsed() < 3 * HOUR {
            got += served.io.read(&mut [0; 1024]).await.unwrap();
        }
        got
    };
    assert!(reader.await > 3 * 360 * ": keep-alive\n\n".len());
    assert!(!served.ended.is_finished());

    let mut served = serve(router(), 1 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let (mut sender, connection) = h2::client::handshake(io).await.unwrap();
    Tasks::new().spawn("test", connection);
    let (response, _) = sender.send_request(request("/quiet"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let began = Instant::now();
    while began.elapsed() < 3 * HOUR {
        let data = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    assert!(!served.ended.is_finished());
}

/// `/docs` as the guard answers it to clients without a key.
fn keyless_router() -> Router {
    async fn page(ConnectionHandle(line): ConnectionHandle) -> Response {
        let permit = line.keyless().await.unwrap();
        let mut response = PAGE.into_response();
        response.extensions_mut().insert(permit);
        response
    }
    let keyless = get(async |request: Request<Body>| {
        page(request.extensions().get::<ConnectionHandle>().unwrap().clone()).await
    });
    router().route("/docs", keyless)
}

/// Sends so many requests for `/docs`, each with a head of so many bytes. `answered` counts the
/// answers, which are read if `reads`.
fn ask_for_docs(
    sender: &mut h2::client::SendRequest<Bytes>,
    (count, head): (usize, usize),
    reads: bool,
) -> Arc<Mutex<usize>> {
    let answered = Arc::new(Mutex::new(0));
    for _ in 0..count {
        let mut request = request("/docs");
        request.headers_mut().insert("x-long", "x".repeat(head).parse().unwrap());
        let (response, _) = sender.send_request(request, true).unwrap();
        let answered = Arc::clone(&answered);
        Tasks::new().spawn("test", async move {
            let Ok(response) = response.await else { return };
            *answered.lock() += 1;
            let mut body = response.into_body();
            while reads && let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
            }
            std::future::pending::<()>().await;
        });
    }
    answered
}

/// As `/docs` to clients that open many streams and no window.
#[tokio::test(start_paused = true)]
async fn concurrent_streams_without_a_key_are_limited() {
    let mut served = serve(keyless_router(), 1 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(0).handshake::<_, Bytes>(io);
    let (mut sender, connection) = handshake.await.unwrap();
    Tasks::new().spawn("test", connection);
    let answered = ask_for_docs(&mut sender, (16, 0), false);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(*answered.lock(), 8);
    // Those with a key do not wait for them.
    let (response, _) = sender.send_request(request("/page"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    assert_stalled(closed(served).await + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn connection_with_many_waiting_requests_and_no_key_is_closed() {
    let mut served = serve(keyless_router(), 8 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(0).handshake::<_, Bytes>(io);
    let (mut sender, connection) = handshake.await.unwrap();
    Tasks::new().spawn("test", connection);
    let answered = ask_for_docs(&mut sender, (100, 60 << 10), false);
    let took = closed(served).await;
    assert!((2..4).contains(&took.as_secs()), "{took:?}");
    assert_eq!(*answered.lock(), 8);
}

/// A client with a wrong key may have many requests at once.
#[tokio::test(start_paused = true)]
async fn client_that_reads_gets_all_answers_without_a_key() {
    let mut served = serve(keyless_router(), 8 << 20).await;
    let (io, _) = duplex(1);
    let io = std::mem::replace(&mut served.io, io);
    let (mut sender, connection) = h2::client::handshake(io).await.unwrap();
    Tasks::new().spawn("test", connection);
    let answered = ask_for_docs(&mut sender, (60, 0), true);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(*answered.lock(), 60);
    assert!(!served.ended.is_finished());
}
