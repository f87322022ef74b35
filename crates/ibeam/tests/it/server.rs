//! The listener on a real socket: it serves, drains, and stops.

use std::{net::SocketAddr, time::Duration};

use ibeam_server::{
    config::{Backend, Config},
    server::Server,
    shutdown::Shutdown,
    tasks::Tasks,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::lab::chat;

const SLOW: &str = "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 40, pace_ms = 20 } }]";

struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
    server: JoinSet<()>,
    _scenario: tempfile::NamedTempFile,
}

async fn start(scenario: &str, change: impl FnOnce(&mut Config)) -> Running {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), scenario).unwrap();
    let mut config = listening_on(SocketAddr::from(([127, 0, 0, 1], 0)));
    config.backend = Backend::Sim { scenario: Some(file.path().to_path_buf()) };
    change(&mut config);
    crate::watch::logs();
    let server = Server::bind(config, &Tasks::new()).await.unwrap();
    let (address, shutdown) = (server.address().unwrap(), Shutdown::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(shutdown.clone()));
    Running { address, shutdown, server: tasks, _scenario: file }
}

fn listening_on(address: SocketAddr) -> Config {
    let mut config = Config::default();
    config.server.listen = address.into();
    config
}

impl Running {
    async fn connect(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let body = chat("hi", true).to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream
    }

    async fn stopped(&mut self) {
        let ended = timeout(Duration::from_secs(10), self.server.join_next()).await;
        assert!(matches!(ended, Ok(Some(Ok(())))), "the server does not stop");
    }
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 64 * 1024];
    let n = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut text)).await.unwrap().unwrap();
    crate::watch::heard(&text);
    text
}

#[tokio::test]
async fn shutdown_finishes_turns_and_refuses_new_ones() {
    let mut running = start(SLOW, |_| {}).await;
    let mut stream = running.connect().await;
    let head = read_some(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    running.shutdown.drain();
    let rest = read_all(&mut stream).await;
    assert!(rest.contains("data: [DONE]"), "{rest}");
    assert!(TcpStream::connect(running.address).await.is_err());
    running.stopped().await;
}

#[tokio::test]
async fn second_signal_ends_turns_with_a_readable_error() {
    let mut running = start(&SLOW.replace("repeat = 40", "repeat = 100000"), |_| {}).await;
    let mut stream = running.connect().await;
    read_some(&mut stream).await;
    running.shutdown.drain();
    running.shutdown.abort();
    let rest = read_all(&mut stream).await;
    assert!(rest.contains("\"code\":\"unavailable\""), "{rest}");
    assert!(!rest.contains("[DONE]"), "{rest}");
    running.stopped().await;
}

#[tokio::test]
async fn the_drain_limit_holds() {
    let endless = SLOW.replace("repeat = 40", "repeat = 100000");
    let mut running =
        start(&endless, |config| config.clocks.drain = Duration::from_millis(300)).await;
    let mut stream = running.connect().await;
    read_some(&mut stream).await;
    running.shutdown.drain();
    assert!(read_all(&mut stream).await.contains("unavailable"));
    running.stopped().await;
}

#[tokio::test]
async fn taken_port_is_named_and_network_listener_needs_a_key() {
    let running = start(SLOW, |_| {}).await;
    let taken = listening_on(running.address);
    let error = Server::bind(taken, &Tasks::new()).await.unwrap_err();
    assert!(error.hint().unwrap().contains("--port"), "{error}");
    assert_eq!(error.to_string(), format!("cannot listen on {}", running.address));
    let open = listening_on(SocketAddr::from(([0, 0, 0, 0], 0)));
    let error = Server::bind(open, &Tasks::new()).await.unwrap_err();
    assert!(error.hint().unwrap().contains("IBEAM_API_KEY"), "{error}");
}

#[tokio::test]
async fn unusual_requests_are_answered() {
    let running = start(SLOW, |_| {}).await;
    for (request, status) in [
        ("GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("GET /v1/models HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
        ("OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "HTTP/1.1 204"),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let reply = read_all(&mut stream).await;
        assert!(reply.starts_with(status), "{request}: {reply}");
    }
}

#[tokio::test]
async fn foreign_host_name_is_refused() {
    let running = start(SLOW, |_| {}).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let request = "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let reply = read_all(&mut stream).await;
    assert!(reply.starts_with("HTTP/1.1 403"), "{reply}");
}

/// The turn is over at once; its answer is more than the sockets hold, and is not
/// read for longer than a connection has for its goodbye.
#[tokio::test]
async fn slow_client_gets_the_whole_answer_at_shutdown() {
    let text = "x".repeat(12 << 20);
    let scenario = format!("[[rule]]\nsteps = [{{ text = \"{text}\" }}]");
    let mut running = start(&scenario, |_| {}).await;
    let mut stream = running.connect().await;
    let mut reply = read_some(&mut stream).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.shutdown.drain();
    tokio::time::sleep(Duration::from_secs(3)).await;
    reply.push_str(&read_all(&mut stream).await);
    assert!(reply.len() > text.len());
    let tail = reply.get(reply.len() - 300..).unwrap_or_default();
    assert!(tail.contains("data: [DONE]"), "{tail}");
    running.stopped().await;
}

#[tokio::test]
async fn silent_socket_does_not_delay_shutdown() {
    let mut running = start(SLOW, |_| {}).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut hesitant = TcpStream::connect(running.address).await.unwrap();
    hesitant.write_all(b"PRI * HT").await.unwrap();
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(read_some(&mut idle).await.starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.shutdown.drain();
    let ended = timeout(Duration::from_secs(1), running.server.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))), "the server waits for nothing");
    for stream in [&mut silent, &mut hesitant, &mut idle] {
        let mut byte = [0];
        assert!(matches!(stream.read(&mut byte).await, Ok(0) | Err(_)));
    }
}

/// Real sockets do not go with paused time, so the clock is only moved on here.
#[tokio::test]
async fn idle_socket_is_closed() {
    let running = start(SLOW, |config| config.limits.connections = 2).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut hesitant = TcpStream::connect(running.address).await.unwrap();
    hesitant.write_all(b"P").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    for stream in [&mut silent, &mut hesitant] {
        let mut byte = [0];
        let read = timeout(Duration::from_secs(5), stream.read(&mut byte)).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    // Their places are free again.
    let mut stream = running.connect().await;
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn http2_is_served_too_and_drained() {
    let mut running = start(SLOW, |_| {}).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let request = http::Request::post(format!("http://{}/v1/chat/completions", running.address))
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (response, mut body) = send.send_request(request, false).unwrap();
    body.send_data(chat("hi", true).to_string().into(), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    running.shutdown.drain();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        text.extend_from_slice(&data);
    }
    assert!(String::from_utf8_lossy(&text).contains("data: [DONE]"));
    drop(send);
    running.stopped().await;
}

/// However short the grace for the first event is: a full queue is a status.
#[tokio::test]
async fn stream_that_waited_too_long_gets_429() {
    let endless = SLOW.replace("repeat = 40", "repeat = 100000");
    let running = start(&endless, |config| {
        config.limits.turns = 1;
        config.clocks.header_grace = Duration::from_millis(50);
        config.clocks.queue = Duration::from_millis(400);
    })
    .await;
    let mut first = running.connect().await;
    assert!(read_some(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut second = running.connect().await;
    let reply = read_all(&mut second).await;
    assert!(reply.starts_with("HTTP/1.1 429"), "{reply}");
    assert!(reply.contains("retry-after: 5"), "{reply}");
}
