//! Asks a gateway on this machine for one of its open pages. Nothing here leaves the machine,
//! and nothing secret goes along.

use std::{io, net::SocketAddr, time::Duration};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Its pages are far shorter.
const LONGEST: u64 = 64 << 10;

/// What a page says. None: nobody answers in that time, or somebody else.
pub async fn get<T: DeserializeOwned>(
    address: SocketAddr,
    path: &str,
    patience: Duration,
) -> Option<T> {
    let asking = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let body = exchange(stream, &address.to_string(), path).await.ok()?;
        serde_json::from_slice(&body).ok()
    };
    timeout(patience, asking).await.ok().flatten()
}

/// The version of the ibeam that is there, if it is one that says so. What others say is
/// shown only if it is what ours would say.
pub async fn version(address: SocketAddr, patience: Duration) -> Option<String> {
    let said: serde_json::Value = get(address, "/", patience).await?;
    let version = said.get("version")?.as_str().filter(|version| is_version(version))?;
    (said.get("name")? == "ibeam").then(|| version.to_owned())
}

pub fn is_version(text: &str) -> bool {
    text.len() < 40 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// One question over a connection, and the body of its answer.
///
/// # Errors
/// The connection fails.
pub async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
) -> io::Result<Vec<u8>> {
    // The old version of HTTP: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = head.map(|head| head + 4).unwrap_or(answer.len());
    Ok(answer.split_off(body))
}
