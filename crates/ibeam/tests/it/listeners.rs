//! Other listeners: TLS and a Unix socket, in this process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ibeam_server::{
    config::{Backend, Config, Listen, TlsFiles},
    server::Server,
    shutdown::Shutdown,
    tasks::Tasks,
};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::lab::chat;

struct Running {
    place: Listen,
    also: Vec<Listen>,
    shutdown: Shutdown,
    server: JoinSet<()>,
}

async fn start(config: Config) -> Running {
    let config = Config { backend: Backend::Sim { scenario: None }, ..config };
    crate::watch::logs();
    let server = Server::bind(config, &Tasks::new()).await.unwrap();
    let (mut also, shutdown) = (server.places().unwrap(), Shutdown::new());
    let place = also.remove(0);
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(shutdown.clone()));
    Running { place, also, shutdown, server: tasks }
}

impl Running {
    fn address(&self) -> SocketAddr {
        let Listen::Tcp(address) = self.place else { panic!("{}", self.place) };
        address
    }

    async fn stop(mut self) {
        self.shutdown.drain();
        let ended = timeout(Duration::from_secs(10), self.server.join_next()).await;
        assert!(matches!(ended, Ok(Some(Ok(())))), "the server does not stop");
    }
}

struct Certificate {
    folder: tempfile::TempDir,
    roots: RootCertStore,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = crate::watch::folder();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        Self { folder, roots }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { cert: self.path("cert.pem"), key: self.path("key.pem") }
    }

    fn config(&self) -> Config {
        let mut config = local();
        config.server.tls = Some(self.files());
        config
    }

    async fn connect(&self, address: SocketAddr, alpn: &[&str]) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, host: &str) -> String {
    let body = chat("Hello", true).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    let read = timeout(Duration::from_secs(20), stream.read_to_end(&mut reply)).await.unwrap();
    crate::watch::heard(&reply);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    read.unwrap_or_else(|error| panic!("{error} after {reply}"));
    reply
}

#[tokio::test]
async fn tls_serves_both_versions_of_http() {
    let certificate = Certificate::new();
    let running = start(certificate.config()).await;
    let stream = certificate.connect(running.address(), &["http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let reply = ask(stream, "localhost").await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("data: [DONE]"), "{reply}");

    let stream = certificate.connect(running.address(), &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let request = http::Request::get("https://localhost/health").body(()).unwrap();
    let (response, _) = send.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    // Names are checked here, too.
    let request = http::Request::get("https://evil.example/health").body(()).unwrap();
    let (response, _) = send.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 403);
    // No plain word gets an answer.
    let mut plain = TcpStream::connect(running.address()).await.unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply).await;
    assert!(!String::from_utf8_lossy(&reply).contains("HTTP"), "{reply:?}");
    drop(send);
    running.stop().await;
}

#[tokio::test]
async fn failed_tls_handshakes_do_not_block_others() {
    let certificate = Certificate::new();
    let mut config = certificate.config();
    config.clocks.handshake = Duration::from_millis(300);
    let running = start(config).await;
    let began = Instant::now();
    let mut silent = TcpStream::connect(running.address()).await.unwrap();
    let mut halting = TcpStream::connect(running.address()).await.unwrap();
    halting.write_all(&[22, 3, 1]).await.unwrap();
    let stream = certificate.connect(running.address(), &["http/1.1"]).await;
    assert!(ask(stream, "localhost").await.contains("data: [DONE]"));
    for stream in [&mut silent, &mut halting] {
        let read = timeout(Duration::from_secs(5), stream.read(&mut [0; 64])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert!(began.elapsed() >= Duration::from_millis(300));
    running.stop().await;
}

#[tokio::test]
async fn unusable_tls_files_are_reported_at_the_start() {
    let (certificate, other) = (Certificate::new(), Certificate::new());
    std::fs::write(certificate.path("none.pem"), "nothing\n").unwrap();
    let files = |cert: &Path, key: &Path| TlsFiles { cert: cert.into(), key: key.into() };
    let (cert, key) = (certificate.path("cert.pem"), certificate.path("key.pem"));
    for (files, word) in [
        (files(&certificate.path("none.pem"), &key), "none.pem"),
        (files(&cert, &certificate.path("none.pem")), "none.pem"),
        (files(&cert, &certificate.path("missing.pem")), "missing.pem"),
        (files(&cert, &other.path("key.pem")), "cannot serve TLS"),
    ] {
        let mut config = local();
        config.server.tls = Some(files);
        let error = Server::bind(config, &Tasks::new()).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.hint().unwrap().contains("tls_key"), "{error}");
    }
}

#[tokio::test]
async fn unix_socket_is_served_without_a_port() {
    let folder = crate::watch::folder();
    let path = folder.path().join("ibeam.sock");
    let running = start(listening_on(Listen::Unix(path.clone()))).await;
    let stream = UnixStream::connect(&path).await.unwrap();
    let reply = ask(stream, "localhost").await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("data: [DONE]"), "{reply}");
    let stream = UnixStream::connect(&path).await.unwrap();
    assert!(ask(stream, "evil.example").await.starts_with("HTTP/1.1 403"));
    let taken = listening_on(Listen::Unix(path.clone()));
    let error = Server::bind(taken, &Tasks::new()).await.unwrap_err();
    assert!(error.to_string().contains("ibeam.sock"), "{error}");
    running.stop().await;
    assert!(!path.exists(), "it goes with the server");
}

#[tokio::test]
async fn several_listeners_serve_the_same_gateway() {
    let folder = crate::watch::folder();
    let path = folder.path().join("ibeam.sock");
    let mut config = local();
    config.server.also = vec![config.server.listen.clone(), Listen::Unix(path.clone())];
    let running = start(config).await;
    let Some(Listen::Tcp(second)) = running.also.first() else { panic!("{:?}", running.also) };
    assert_ne!(running.address(), *second);
    for address in [running.address(), *second, running.address()] {
        let stream = TcpStream::connect(address).await.unwrap();
        let reply = ask(stream, "localhost").await;
        assert!(reply.contains("data: [DONE]"), "{address}: {reply}");
    }
    let stream = UnixStream::connect(&path).await.unwrap();
    assert!(ask(stream, "localhost").await.contains("data: [DONE]"));
    let mut taken = local();
    taken.server.also.clone_from(&running.also);
    assert!(Server::bind(taken, &Tasks::new()).await.is_err(), "one that is taken is told");
    running.stop().await;
    assert!(!path.exists());
}

/// All places are busy: the next one hears so at once, and those who are served notice
/// nothing.
#[tokio::test]
async fn connection_above_the_limit_is_refused_at_once() {
    let scenario = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let ticks = "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100, pace_ms = 10 } }]";
    std::fs::write(scenario.path(), ticks).unwrap();
    let mut config = local();
    config.backend = Backend::Sim { scenario: Some(scenario.path().to_path_buf()) };
    config.limits.connections = 2;
    let server = Server::bind(config, &Tasks::new()).await.unwrap();
    let (address, shutdown) = (server.address().unwrap(), Shutdown::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(shutdown.clone()));
    let mut busy = JoinSet::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(address).await.unwrap();
        busy.spawn(async move { ask(stream, "localhost").await });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut refused = TcpStream::connect(address).await.unwrap();
    let mut reply = String::new();
    refused.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{reply}");
    assert!(reply.contains("retry-after: 5") && reply.contains("limits.connections"), "{reply}");
    for reply in busy.join_all().await {
        assert!(reply.contains("data: [DONE]"), "{reply}");
    }
    let stream = TcpStream::connect(address).await.unwrap();
    assert!(ask(stream, "localhost").await.contains("data: [DONE]"));
    shutdown.drain();
    tasks.join_all().await;
}

type Sender = h2::client::SendRequest<bytes::Bytes>;

/// A connection of HTTP/2, and the task that ends with its error.
async fn http2(address: SocketAddr) -> (Sender, JoinSet<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    (send, tasks)
}

fn local() -> Config {
    listening_on(SocketAddr::from(([127, 0, 0, 1], 0)).into())
}

fn listening_on(listen: Listen) -> Config {
    let mut config = Config::default();
    config.server.listen = listen;
    config
}

fn get(address: SocketAddr) -> http::Request<()> {
    http::Request::get(format!("http://{address}/health")).body(()).unwrap()
}

/// Opening streams and resetting them costs a client nothing, so it is cut off for it.
#[tokio::test]
async fn rapid_resets_end_only_their_connection() {
    let running = start(local()).await;
    let (good, mut good_tasks) = http2(running.address()).await;
    let (evil, mut evil_tasks) = http2(running.address()).await;
    let mut sent = 0;
    let ended = loop {
        assert!(sent < 10_000, "it may go on for ever");
        let Ok(mut ready) = evil.clone().ready().await else { break evil_tasks.join_next().await };
        match ready.send_request(get(running.address()), false) {
            Ok((_, mut body)) => body.send_reset(h2::Reason::CANCEL),
            Err(_) => break evil_tasks.join_next().await,
        }
        sent += 1;
        if sent % 50 == 0 {
            tokio::task::yield_now().await;
        }
    };
    let error = ended.unwrap().unwrap().unwrap_err();
    // In the middle of sending it may find the connection closed before it reads why.
    let calm = error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM);
    assert!(calm || error.is_io(), "{error}");
    let (response, _) =
        good.ready().await.unwrap().send_request(get(running.address()), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    good_tasks.shutdown().await;
    running.stop().await;
}

#[tokio::test]
async fn http2_connection_has_limits() {
    let running = start(local()).await;
    let (send, mut tasks) = http2(running.address()).await;
    let mut send = send.ready().await.unwrap();
    let (response, _) = send.send_request(get(running.address()), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    assert_eq!(send.current_max_send_streams(), 100);
    let mut long = get(running.address());
    long.headers_mut().insert("x-long", "x".repeat(70 * 1024).parse().unwrap());
    let (response, _) = send.ready().await.unwrap().send_request(long, true).unwrap();
    // Refused as a request, or with all that came with it.
    let refused = response.await.map(|response| response.status().as_u16());
    assert!(matches!(refused, Ok(431) | Err(_)), "{refused:?}");
    tasks.shutdown().await;
    running.stop().await;
}

/// A client that has sent no request yet is not waited for.
#[tokio::test]
async fn incomplete_request_does_not_delay_shutdown() {
    let running = start(local()).await;
    let mut slow = TcpStream::connect(running.address()).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut idle = TcpStream::connect(running.address()).await.unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Answered in the order of their coming, so the half one has been seen.
    assert!(idle.read(&mut [0; 2048]).await.unwrap() > 0);
    let began = Instant::now();
    running.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(matches!(slow.read(&mut [0; 64]).await, Ok(0) | Err(_)));
}

/// What comes on one connection is judged one by one.
#[tokio::test]
async fn one_accepted_request_does_not_exempt_the_next() {
    let running = start(local()).await;
    let mut stream = TcpStream::connect(running.address()).await.unwrap();
    let request = |host: &str| format!("GET /health HTTP/1.1\r\nhost: {host}\r\n");
    let all = [
        request("localhost") + "\r\n",
        request("evil.example") + "\r\n",
        request("localhost") + "origin: https://evil.example\r\n\r\n",
        request("[::1]:18741") + "connection: close\r\n\r\n",
    ];
    stream.write_all(all.concat().as_bytes()).await.unwrap();
    let mut reply = String::new();
    timeout(Duration::from_secs(10), stream.read_to_string(&mut reply)).await.unwrap().unwrap();
    let statuses: Vec<&str> =
        reply.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_eq!(statuses, ["200", "403", "403", "200"], "{reply}");
    running.stop().await;
}

/// All bodies together have a limit. The largest gives way, with an answer that says so.
#[tokio::test]
async fn largest_of_too_many_bodies_is_refused() {
    let mut config = local();
    config.limits.body = 1 << 20;
    config.limits.bodies = 1 << 20;
    let running = start(config).await;
    let address = running.address();
    let begin = |length: usize| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let counted = |bytes: u64| async move {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let health = bodies(address).await;
            if health["bytes"] == bytes {
                return health;
            }
            assert!(Instant::now() < until, "{health}");
        }
    };
    let (mut large, mut small) = (begin(1 << 20).await, begin(400 << 10).await);
    large.write_all(&vec![b' '; 700 << 10]).await.unwrap();
    counted(700 << 10).await;
    small.write_all(&vec![b' '; 300 << 10]).await.unwrap();
    let health = counted(1000 << 10).await;
    assert_eq!((&health["reading"], &health["max_bytes"]), (&2.into(), &(1 << 20).into()));
    small.write_all(&vec![b' '; 100 << 10]).await.unwrap();
    let mut reply = String::new();
    timeout(Duration::from_secs(10), large.read_to_string(&mut reply)).await.unwrap().unwrap();
    assert!(reply.starts_with("HTTP/1.1 503"), "{reply}");
    assert!(reply.contains("retry-after: 5") && reply.contains("limits.body_memory"), "{reply}");
    // The small one was read to its end, and is not JSON.
    reply.clear();
    timeout(Duration::from_secs(10), small.read_to_string(&mut reply)).await.unwrap().unwrap();
    assert!(reply.starts_with("HTTP/1.1 400"), "{reply}");
    let health = counted(0).await;
    assert_eq!((&health["reading"], &health["refused"]), (&0.into(), &1.into()));
    running.stop().await;
}

async fn bodies(address: SocketAddr) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let body = reply.split("\r\n\r\n").nth(1).unwrap();
    serde_json::from_str::<serde_json::Value>(body).unwrap()["bodies"].take()
}
