//! Asks a gateway how it is.

use std::time::Duration;

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// It is on this machine.
const TIME: Duration = Duration::from_secs(3);

const ANSWER: u64 = 64 << 10;

/// What it says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) version: String,
    pub(crate) auth: String,
    pub(crate) backend: String,
}

/// # Errors
/// Nobody answers there, or somebody else.
pub(crate) async fn ask(url: &str) -> Result<Answer, String> {
    let asked = timeout(TIME, async {
        if let Some(address) = url.strip_prefix("http://") {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            return exchange(stream, address).await;
        }
        #[cfg(unix)]
        if let Some(path) = url.strip_prefix("unix:") {
            let stream = tokio::net::UnixStream::connect(path).await;
            return exchange(stream.map_err(|error| error.to_string())?, "localhost").await;
        }
        Err("it serves TLS, where only its clients know whom to trust".to_owned())
    });
    asked.await.unwrap_or_else(|_elapsed| Err(format!("no answer within {} s", TIME.as_secs())))
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
) -> Result<Answer, String> {
    // The old version of HTTP: the answer comes in one piece and ends with the connection.
    let request = format!("GET /health HTTP/1.0\r\nhost: {host}\r\n\r\n");
    let mut bytes = Vec::new();
    let exchanged = async {
        stream.write_all(request.as_bytes()).await?;
        stream.take(ANSWER).read_to_end(&mut bytes).await
    };
    exchanged.await.map_err(|error: std::io::Error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).map_err(|_| "somebody else answers there".to_owned())
}
