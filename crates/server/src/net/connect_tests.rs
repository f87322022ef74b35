use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::task::TaskTracker;

use super::*;
use crate::net::testing::tls_pair;

fn tcp(tls: Tls, connect_timeout: Duration) -> Connector {
    let reach = Reach::anywhere();
    Connector::Tcp { tls: Arc::new(tls), proxy: Proxy::none(), connect_timeout, reach }
}

#[test]
fn only_origins_are_parsed() {
    for (url, name, port, tls, loopback) in [
        ("https://api2.cursor.sh", "api2.cursor.sh", 443, true, false),
        ("https://api2.cursor.sh/", "api2.cursor.sh", 443, true, false),
        ("http://127.0.0.1:18742", "127.0.0.1", 18742, false, true),
        ("http://[::1]:80", "::1", 80, false, true),
        ("http://localhost", "localhost", 80, false, true),
    ] {
        let host = Host::parse(url).unwrap();
        let got = (host.name(), host.port(), host.is_tls(), host.is_loopback());
        assert_eq!(got, (name, port, tls, loopback), "{url}");
    }
    for url in
        ["", "api2.cursor.sh", "ftp://x", "https://user:pw@x", "https://x/path", "https://x/?q=1"]
    {
        assert!(Host::parse(url).is_err(), "{url}");
    }
}

#[test]
fn uris_on_a_host() {
    let host = Host::parse("https://api2.cursor.sh").unwrap();
    assert_eq!(host.uri("/a.B/C").to_string(), "https://api2.cursor.sh/a.B/C");
    assert_eq!(host.uri_with_port().to_string(), "https://api2.cursor.sh:443/");
    assert_eq!(host.to_string(), "https://api2.cursor.sh");
}

#[tokio::test]
async fn alpn_is_what_the_peer_chose() {
    for (offers, wanted, chosen) in [
        (vec!["h2", "http/1.1"], Alpn::Http2, Alpn::Http2),
        (vec!["http/1.1"], Alpn::Http2, Alpn::Http1),
        (vec![], Alpn::Http2, Alpn::Http1),
        (vec!["h2", "http/1.1"], Alpn::Http1, Alpn::Http1),
    ] {
        let (client, server) = tls_pair(&offers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = TaskTracker::new();
        tasks.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(server);
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut word = [0; 2];
            stream.read_exact(&mut word).await.unwrap();
            stream.write_all(&word).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let host = Host::parse(&format!("https://localhost:{}", address.port())).unwrap();
        let connector = tcp(client, Duration::from_secs(10));
        let mut io = connector.connect(&host, wanted).await.unwrap();
        assert_eq!(io.protocol, chosen, "{offers:?}");
        io.write_all(b"hi").await.unwrap();
        io.flush().await.unwrap();
        let mut back = String::new();
        io.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "hi");
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let (_, server) = tls_pair(&["h2"]);
    let (other, _) = tls_pair(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tasks = TaskTracker::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = tokio_rustls::TlsAcceptor::from(server).accept(stream).await;
    });
    let host = Host::parse(&format!("https://localhost:{port}")).unwrap();
    let error = tcp(other, Duration::from_secs(10)).connect(&host, Alpn::Http2).await.unwrap_err();
    let untrusted = matches!(&error, DialError::Tls { fault: TlsFault::Untrusted, .. });
    assert!(untrusted && error.to_string().contains("certificate"), "{error:?}");
}

#[tokio::test]
async fn refused_and_silent_peers_are_distinguished() {
    // Bound, then closed: nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let host = Host::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let connector = tcp(Tls::new(None), Duration::from_millis(200));
    let error = connector.connect(&host, Alpn::Http2).await.unwrap_err();
    assert!(matches!(&error, DialError::Failed(why) if why.contains("refused")), "{error}");

    // Accepts, and then says nothing of TLS.
    let (client, _) = tls_pair(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = Host::parse(&format!("https://localhost:{port}")).unwrap();
    let connector = tcp(client, Duration::from_millis(200));
    let error = connector.connect(&host, Alpn::Http2).await.unwrap_err();
    assert_eq!(error, DialError::Timeout);
}

#[tokio::test]
async fn nagle_is_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut connector = tcp_connector(Duration::from_secs(1));
    let uri = Host::parse(&format!("http://127.0.0.1:{port}")).unwrap().uri("/");
    let io = connector.call(uri).await.unwrap();
    assert!(io.into_inner().nodelay().unwrap());
}

#[tokio::test]
async fn host_outside_the_table_is_not_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = |address: &dyn fmt::Display| Host::parse(&format!("http://{address}")).unwrap();
    let connector = |reach| Connector::Tcp {
        tls: Arc::new(Tls::new(None)),
        proxy: Proxy::none(),
        connect_timeout: Duration::from_secs(10),
        reach,
    };
    let elsewhere = connector(Reach::of(&host(&"127.0.0.1:1"), false));
    let error = elsewhere.connect(&host(&address), Alpn::Http1).await.unwrap_err().to_string();
    assert!(error.contains("not one of the hosts") && error.contains("ibeam audit"), "{error}");
    connector(Reach::of(&host(&address), false))
        .connect(&host(&address), Alpn::Http1)
        .await
        .unwrap();
}
