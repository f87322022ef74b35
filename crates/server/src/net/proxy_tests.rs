use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::task::TaskTracker;

use super::*;
use crate::net::{connect::Connector, testing::tls_pair};

fn host(url: &str) -> Host {
    Host::parse(url).unwrap()
}

#[test]
fn proxy_is_used_for_remote_hosts_only() {
    let proxy = Proxy::fixed("http://proxy.test:3128", "direct.test,10.0.0.0/8");
    assert!(proxy.route(&host("https://api2.cursor.sh")).is_some());
    for direct in
        ["https://direct.test", "https://x.direct.test", "https://10.1.2.3", "https://localhost"]
    {
        assert!(proxy.route(&host(direct)).is_none(), "{direct}");
    }
    assert!(proxy.route(&host("http://127.0.0.1:1")).is_none());
    assert!(Proxy::none().route(&host("https://api2.cursor.sh")).is_none());
}

#[test]
fn credentials_are_not_shown() {
    let proxy = Proxy::fixed("http://user:hunter2@proxy.test:3128", "");
    let shown = format!("{proxy:?} {:?}", proxy.route(&host("https://api2.cursor.sh")));
    assert!(!shown.contains("hunter2") && shown.contains("proxy.test"), "{shown}");
    let name = proxy.name(&host("https://api2.cursor.sh"));
    assert_eq!(name.as_deref(), Some("http://proxy.test:3128"));
    assert_eq!(proxy.name(&host("https://localhost")), None);
}

/// A CONNECT proxy that answers with `status`; gives back the request it got. On 200
/// it leads every name to `target`.
async fn connect_proxy(
    status: &'static str,
    target: std::net::SocketAddr,
    tasks: &TaskTracker,
) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = tasks.spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(client.read_u8().await.unwrap());
        }
        client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
        if status.starts_with("200") {
            let mut server = TcpStream::connect(target).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        String::from_utf8(request).unwrap()
    });
    (port, seen)
}

fn through(port: u16, tls: Tls) -> Connector {
    let proxy = Proxy::fixed(&format!("http://user:hunter2@127.0.0.1:{port}"), "");
    dialler(proxy, tls)
}

fn dialler(proxy: Proxy, tls: Tls) -> Connector {
    Connector::Tcp {
        tls: Arc::new(tls),
        proxy,
        connect_timeout: Duration::from_secs(10),
        reach: crate::net::hosts::Reach::anywhere(),
    }
}

#[tokio::test]
async fn tls_goes_through_a_connect_tunnel() {
    let tasks = TaskTracker::new();
    let (client, server) = tls_pair(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = tokio_rustls::TlsAcceptor::from(server).accept(stream).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let (port, seen) = connect_proxy("200 OK", target, &tasks).await;
    let connector = through(port, client);
    let mut io = connector.connect(&host("https://backend.test:8443"), Alpn::Http2).await.unwrap();
    assert_eq!(io.protocol, Alpn::Http2);
    let mut text = String::new();
    io.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
    drop(io);
    let request = seen.await.unwrap();
    assert!(request.starts_with("CONNECT backend.test:8443 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("Proxy-Authorization: Basic dXNlcjpodW50ZXIy\r\n"), "{request}");
}

#[tokio::test]
async fn proxy_refusal_names_the_proxy_without_its_password() {
    let tasks = TaskTracker::new();
    for status in ["407 Proxy Authentication Required", "502 Bad Gateway"] {
        let (client, _) = tls_pair(&["h2"]);
        let target = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let (port, _seen) = connect_proxy(status, target, &tasks).await;
        let error = through(port, client)
            .connect(&host("https://api2.cursor.sh"), Alpn::Http2)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("proxy 127.0.0.1:{port}")), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn unsupported_proxy_scheme_is_an_error() {
    let (tls, _) = tls_pair(&[]);
    let proxy = Proxy::fixed("socks4://127.0.0.1:1", "");
    let error = dialler(proxy, tls)
        .connect(&host("https://api2.cursor.sh"), Alpn::Http2)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("socks4"), "{error}");
}
