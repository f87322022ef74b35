//! Asks a gateway how it is.

use std::time::Duration;

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use ibeam_server::net::near;

/// It is on this machine.
const TIME: Duration = Duration::from_secs(3);

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
        Err("it serves TLS with a certificate that this machine does not trust".to_owned())
    });
    asked.await.unwrap_or_else(|_elapsed| Err(format!("no answer within {} s", TIME.as_secs())))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
) -> Result<Answer, String> {
    let body = near::exchange(stream, host, "/health").await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|_| "another program answers there".to_owned())
}
