//! A gateway inside another program, as it would be used there.

use std::{net::SocketAddr, time::Duration};

use ibeam_server::{Gateway, GatewayBuilder, Running};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::watch;

const PATIENCE: Duration = Duration::from_secs(20);

async fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = serde_json::json!({
        "model": "auto",
        "stream": true,
        "messages": [{ "role": "user", "content": text }],
    });
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    watch::heard(&answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    read.unwrap_or_else(|error| panic!("{error} after {answer}"));
    answer
}

fn address(gateway: &Running) -> SocketAddr {
    gateway.address().unwrap()
}

/// The port is closed.
async fn closes(address: SocketAddr) {
    let began = Instant::now();
    while TcpStream::connect(address).await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "{address} is still open");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn failure(builder: GatewayBuilder) -> String {
    match builder.start().await {
        Ok(gateway) => panic!("it serves at {}", gateway.url()),
        Err(error) => format!("{error} ({})", error.hint().unwrap_or_default()),
    }
}

#[tokio::test]
async fn two_servers_in_one_process_are_independent() {
    let one = Gateway::builder().simulator().start().await.unwrap();
    let two = Gateway::builder().simulator().api_key("the-key-of-two").start().await.unwrap();
    assert_ne!(one.url(), two.url());
    assert_eq!(one.base_url(), format!("http://{}/v1", address(&one)));
    assert!(one.is_signed_in() && address(&one).ip().is_loopback());
    assert!(rest(send(address(&one), "Hello").await).await.contains("data: [DONE]"));
    // A key of the second is none of the first.
    assert!(rest(send(address(&two), "Hello").await).await.starts_with("HTTP/1.0 401"));
    let gone = address(&one);
    one.stop().await;
    assert!(TcpStream::connect(gone).await.is_err(), "the port is closed when it has stopped");
    assert!(rest(send(address(&two), "Hello").await).await.starts_with("HTTP/1.0 401"));
    two.stop().await;
}

#[tokio::test]
async fn stop_finishes_a_running_answer() {
    let folder = watch::folder();
    let file = folder.path().join("slow.toml");
    let scenario = r#"
[[rule]]
steps = [{ text = { text = "slow but sure, to the last", chunk = 3, pace_ms = 60 } }]
"#;
    std::fs::write(&file, scenario).unwrap();
    let gateway = Gateway::builder().scenario(&file).start().await.unwrap();
    let mut stream = send(address(&gateway), "Hello").await;
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    let (answer, ()) = tokio::join!(rest(stream), gateway.stop());
    assert!(answer.contains("st\"}") && answer.contains("data: [DONE]"), "{answer}");
}

/// On a runtime with one thread nothing else can run while it is dropped.
#[tokio::test]
async fn dropping_a_server_ends_it_at_once() {
    let gateway = Gateway::builder().simulator().start().await.unwrap();
    let address = address(&gateway);
    let mut idle = TcpStream::connect(address).await.unwrap();
    drop(gateway);
    closes(address).await;
    // Hung up, one way or the other.
    let read = timeout(PATIENCE, idle.read(&mut [0; 1])).await.unwrap();
    assert!(!matches!(read, Ok(1)), "{read:?}");
}

#[tokio::test]
async fn start_errors_are_reported() {
    let builder = || Gateway::builder().simulator();
    let said = failure(builder().set("clocks.turn", "soon").set("nonsense", "1")).await;
    assert!(
        said.contains("`clocks.turn` is not a duration") && said.contains("nonsense"),
        "{said}"
    );
    let said = failure(builder().host([0, 0, 0, 0].into())).await;
    assert!(said.contains("without an API key"), "{said}");
    let said = failure(builder().backend("cli")).await;
    assert!(said.contains("only the program"), "{said}");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = failure(builder().port(port)).await;
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
    assert!(said.contains("another program has that port"), "{said}");
}
