use std::time::Duration;

use h2::RecvStream;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::{connection::STREAM_WINDOW, *};
use crate::net::testing::{Mode, Peer, answer, host};

fn pool(peer: &Peer, config: PoolConfig) -> (Pool, Tasks) {
    let tasks = Tasks::new();
    (Pool::new(host(), peer.connector(), config, tasks.clone()), tasks)
}

fn streams(max_streams: usize) -> PoolConfig {
    PoolConfig { max_streams, ..PoolConfig::default() }
}

fn request() -> Request<()> {
    Request::post("http://127.0.0.1:1/run").body(()).unwrap()
}

async fn body(stream: &mut PooledStream) -> RecvStream {
    let response = (&mut stream.response).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

async fn ping(stream: &mut PooledStream, body: &mut RecvStream) {
    stream.send.send_data(Bytes::from_static(b"ping"), false).unwrap();
    let got = body.data().await.unwrap().unwrap();
    body.flow_control().release_capacity(got.len()).unwrap();
    assert_eq!(got, "ping");
}

/// Lets everything run that can run now.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn opens_another_connection_when_full() {
    let peer = Peer::echo(100);
    let (pool, _tasks) = pool(&peer, streams(4));
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(pool.open(&request()).await.unwrap());
    }
    assert_eq!(pool.stats(), PoolStats { connections: 2, streams: 5 });
    for stream in &mut open {
        let mut answer = body(stream).await;
        ping(stream, &mut answer).await;
    }
    drop(open);
    assert_eq!(pool.stats(), PoolStats { connections: 2, streams: 0 });
    // The places are free again, and the emptier connection is used.
    let _again = pool.open(&request()).await.unwrap();
    assert_eq!(peer.dialled(), 2);
}

#[tokio::test(start_paused = true)]
async fn request_201_does_not_hang_at_a_peer_limit_of_200() {
    let peer = Peer::echo(200);
    let (pool, _tasks) = pool(&peer, streams(10_000));
    let mut open = Vec::new();
    for _ in 0..201 {
        open.push(pool.open(&request()).await.unwrap());
    }
    let last = open.last_mut().unwrap();
    let mut answer = body(last).await;
    ping(last, &mut answer).await;
    assert_eq!(pool.stats(), PoolStats { connections: 2, streams: 201 });
}

#[tokio::test(start_paused = true)]
async fn burst_dials_only_as_many_connections_as_needed() {
    let peer = Peer::echo(100);
    let (pool, tasks) = pool(&peer, streams(32));
    let burst: Vec<_> = (0..70)
        .map(|_| {
            let pool = pool.clone();
            tasks.spawn("test", async move { pool.open(&request()).await.unwrap() })
        })
        .collect();
    let mut open = Vec::new();
    for one in burst {
        open.push(one.await.unwrap());
    }
    assert_eq!((peer.dialled(), pool.stats().streams), (3, 70));
}

#[tokio::test(start_paused = true)]
async fn goaway_retires_a_connection_but_keeps_its_streams() {
    let peer = Peer::echo(100);
    let (pool, _tasks) = pool(&peer, streams(32));
    let mut old = pool.open(&request()).await.unwrap();
    let mut old_body = body(&mut old).await;
    peer.set(Mode::GoAway);
    settle().await;
    let mut new = pool.open(&request()).await.unwrap();
    let mut new_body = body(&mut new).await;
    assert_eq!((peer.dialled(), pool.stats().connections), (2, 2));
    ping(&mut old, &mut old_body).await;
    ping(&mut new, &mut new_body).await;
    drop((old, old_body));
    // At the latest with the next ping the retired one is gone.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(pool.stats(), PoolStats { connections: 1, streams: 1 });
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed() {
    let peer = Peer::echo(100);
    let (pool, tasks) = pool(&peer, streams(32));
    let mut stream = pool.open(&request()).await.unwrap();
    let answer = body(&mut stream).await;
    // One that is merely quiet stays.
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(pool.stats(), PoolStats { connections: 1, streams: 1 });
    drop((stream, answer));
    tokio::time::sleep(Duration::from_secs(241)).await;
    assert_eq!(pool.stats(), PoolStats::default());
    tasks.join().await;
    peer.tasks.close();
    peer.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_pool_closes_only_unused_connections() {
    let peer = Peer::echo(100);
    let (pool, tasks) = pool(&peer, streams(1));
    let mut kept = pool.open(&request()).await.unwrap();
    let mut answer = body(&mut kept).await;
    drop(pool.open(&request()).await.unwrap());
    drop(pool);
    settle().await;
    ping(&mut kept, &mut answer).await;
    drop((kept, answer));
    assert_eq!(tasks.join_within(Duration::from_secs(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn dead_peer_is_detected_by_ping() {
    let peer = Peer::echo(100);
    let (pool, _tasks) = pool(&peer, streams(32));
    let mut stream = pool.open(&request()).await.unwrap();
    let mut answer = body(&mut stream).await;
    peer.set(Mode::BlackHole);
    settle().await;
    let began = tokio::time::Instant::now();
    let error = answer.data().await.unwrap().unwrap_err();
    assert!(error.is_io(), "{error}");
    assert!(began.elapsed() <= Duration::from_secs(30), "{:?}", began.elapsed());
    settle().await;
    assert_eq!(pool.stats().connections, 0);
}

#[tokio::test(start_paused = true)]
async fn silent_peer_is_a_connect_timeout_for_all_waiters() {
    let silent = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&silent);
    let connector = Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(1024);
        kept.lock().push(far);
        near
    }));
    let tasks = Tasks::new();
    let pool = Pool::new(host(), connector, PoolConfig::default(), tasks.clone());
    let began = tokio::time::Instant::now();
    let (a, b) = (request(), request());
    let (a, b) = tokio::join!(pool.open(&a), pool.open(&b));
    for result in [a, b] {
        assert_eq!(result.unwrap_err(), PoolError::Dial(DialError::Timeout));
    }
    assert_eq!((began.elapsed(), silent.lock().len()), (Duration::from_secs(10), 1));
}

#[tokio::test(start_paused = true)]
async fn http1_server_is_recognised() {
    let tasks = Tasks::new();
    let spawner = tasks.clone();
    let connector = Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(4096);
        spawner.spawn("test", async move {
            let service = service_fn(|_| async {
                Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::new(
                    Bytes::new(),
                )))
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(far), service)
                .await;
        });
        near
    }));
    let pool = Pool::new(host(), connector, PoolConfig::default(), tasks);
    let error = pool.open(&request()).await.unwrap_err();
    assert!(matches!(error, PoolError::Dial(DialError::NotH2(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn unread_streams_do_not_starve_the_others() {
    // Sends more than a stream's window to a client that requests `/flood`.
    let peer = Peer::new(100, |_, request, mut respond| {
        Box::pin(async move {
            let flood = request.uri().path() == "/flood";
            let mut send = respond.send_response(answer(200), false).unwrap();
            let size = if flood { 4 * STREAM_WINDOW } else { 4 };
            let data = Bytes::from(vec![b'x'; usize::try_from(size).unwrap()]);
            let _ = send.send_data(data, true);
        })
    });
    let (pool, _tasks) = pool(&peer, streams(32));
    let flood = Request::post("http://127.0.0.1:1/flood").body(()).unwrap();
    let mut unread = Vec::new();
    for _ in 0..31 {
        let mut stream = pool.open(&flood).await.unwrap();
        let body = body(&mut stream).await;
        unread.push((stream, body));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut last = pool.open(&request()).await.unwrap();
    let mut answer = body(&mut last).await;
    assert_eq!(answer.data().await.unwrap().unwrap(), "xxxx");
    assert_eq!((peer.dialled(), pool.stats().streams), (1, 32));
}

#[tokio::test(start_paused = true)]
async fn backlog_of_tiny_frames_does_not_end_the_connection() {
    const FRAME: usize = 14;
    let peer = Peer::new(100, |_, request, mut respond| {
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            let frames = match request.uri().path() {
                "/flood" => usize::try_from(STREAM_WINDOW).unwrap() / FRAME,
                _ => 1,
            };
            for _ in 0..frames {
                send.send_data(Bytes::from_static(&[0; FRAME]), false).unwrap();
            }
            let _ = std::future::poll_fn(|cx| send.poll_reset(cx)).await;
        })
    });
    let (pool, _tasks) = pool(&peer, streams(32));
    let flood = Request::post("http://127.0.0.1:1/flood").body(()).unwrap();
    let mut unread = Vec::new();
    for _ in 0..6 {
        let mut stream = pool.open(&flood).await.unwrap();
        let body = body(&mut stream).await;
        unread.push((stream, body));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut last = pool.open(&request()).await.unwrap();
    let mut answer = body(&mut last).await;
    assert_eq!(answer.data().await.unwrap().unwrap().len(), FRAME);
    assert_eq!((peer.dialled(), pool.stats().streams), (1, 7));
}

#[tokio::test(start_paused = true)]
async fn full_pool_times_out_with_an_error() {
    let peer = Peer::echo(100);
    let config = PoolConfig { max_connections: 1, ..streams(1) };
    let (pool, tasks) = pool(&peer, config);
    let first = pool.open(&request()).await.unwrap();
    let waiting = tasks.spawn("test", {
        let pool = pool.clone();
        async move { pool.open(&request()).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    drop(first);
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(pool.open(&request()).await.unwrap_err(), PoolError::Full(1));
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn cancelled_caller_does_not_cancel_the_dial() {
    let peer = Peer::echo(100);
    let (pool, _tasks) = pool(&peer, streams(32));
    let (a, b) = (request(), request());
    let mut given_up = Box::pin(pool.open(&a));
    let waker = Waker::noop();
    assert!(given_up.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    drop(given_up);
    let _stream = pool.open(&b).await.unwrap();
    assert_eq!(peer.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_request_is_an_error_and_not_retried() {
    let peer = Peer::echo(100);
    let (pool, _tasks) = pool(&peer, streams(32));
    let relative = Request::post("/run").version(http::Version::HTTP_2).body(()).unwrap();
    let error = pool.open(&relative).await.unwrap_err();
    assert!(matches!(error, PoolError::Request(_)), "{error:?}");
    assert_eq!(pool.stats().streams, 0);
}

/// Threads, real time, and callers that leave at every stage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_leaks_nothing_under_load() {
    let peer = Peer::echo(100);
    let config = PoolConfig { max_connections: 8, ..streams(8) };
    let (pool, tasks) = pool(&peer, config);
    let work: Vec<_> = (0..600_u64)
        .map(|n| {
            let pool = pool.clone();
            tasks.spawn("test", async move {
                let patience = Duration::from_micros((n * 37) % 900);
                let turn = async {
                    let mut stream = pool.open(&request()).await.unwrap();
                    let mut answer = body(&mut stream).await;
                    for _ in 0..n % 5 {
                        ping(&mut stream, &mut answer).await;
                    }
                };
                if n % 3 == 0 {
                    let _ = tokio::time::timeout(patience, turn).await;
                } else {
                    turn.await;
                }
            })
        })
        .collect();
    for one in work {
        one.await.unwrap();
    }
    assert_eq!(pool.stats().streams, 0);
    assert!(peer.dialled() <= 8, "{}", peer.dialled());
    drop(pool);
    assert_eq!(tasks.join_within(Duration::from_secs(10)).await, 0);
}
