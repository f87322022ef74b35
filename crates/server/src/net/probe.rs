//! Reads the health of a gateway on this machine. Nothing here leaves the machine, and nothing
//! secret is sent.

use std::{collections::BTreeMap, io, net::SocketAddr, time::Duration};

use ibeam_core::{
    challenge::{CHALLENGE, PROOF, is_proof},
    model::ids,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::random;

/// Answers are far shorter.
const MAX_BYTES: u64 = 64 << 10;

/// What `/health` says, as far as other programs need it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GatewayHealth {
    #[serde(default)]
    pub status: String,
    pub version: String,
    auth: String,
    #[serde(default)]
    pub backend: String,
    pub sessions: SessionCounts,
    pub uptime_seconds: u64,
    /// Protocol messages that the gateway did not know, and how often they came.
    #[serde(default)]
    pub drift: BTreeMap<String, u64>,
    /// The form in which histories are rebuilt, for models of which one was learned.
    #[serde(default)]
    pub history: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SessionCounts {
    pub active: u64,
    pub parked: u64,
}

impl GatewayHealth {
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.auth == "authenticated"
    }
}

/// Why a gateway could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("it serves TLS with a certificate that this machine does not trust")]
    Tls,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The program at that address is not a gateway, or not the one with that key.
    #[error("another program answers there")]
    Stranger,
    #[error("its answer cannot be read")]
    Unreadable,
}

/// How the gateway at this URL is: `http://127.0.0.1:18741` or `unix:/path`.
///
/// # Errors
/// It does not answer, or another program answers.
pub async fn health(url: &str, patience: Duration) -> Result<GatewayHealth, ProbeError> {
    get(url, "/health", patience).await.and_then(plausible)
}

/// The same of the gateway that has this key. The key is not sent: see [`ibeam_core::challenge`].
///
/// # Errors
/// It does not answer, or another program answers in its place.
pub async fn proven_health(
    url: &str,
    key: &SecretString,
    patience: Duration,
) -> Result<GatewayHealth, ProbeError> {
    let challenge = ids::hex(&random::bytes::<32>());
    let header = format!("{CHALLENGE}: {challenge}\r\n");
    let answer = ask(url, "/health", &header, patience).await?;
    let proof = answer.header(PROOF).ok_or(ProbeError::Stranger)?;
    let hash: [u8; 32] = Sha256::digest(key.expose_secret()).into();
    if !is_proof(proof, &hash, url.trim_start_matches(HTTP), &challenge) {
        return Err(ProbeError::Stranger);
    }
    serde_json::from_slice(&answer.body).map_err(|_| ProbeError::Unreadable)
}

/// The version of the gateway at this address. None: no gateway answers.
pub async fn version(address: SocketAddr, patience: Duration) -> Option<String> {
    let index: serde_json::Value = get(&format!("{HTTP}{address}"), "/", patience).await.ok()?;
    let version = index.get("version")?.as_str().filter(|version| is_version(version))?;
    (index.get("name")? == "ibeam").then(|| version.to_owned())
}

/// The JSON of one of a gateway's open pages.
///
/// # Errors
/// It does not answer, or something else does.
pub async fn get<T: DeserializeOwned>(
    url: &str,
    path: &str,
    patience: Duration,
) -> Result<T, ProbeError> {
    let answer = ask(url, path, "", patience).await?;
    serde_json::from_slice(&answer.body).map_err(|_| ProbeError::Stranger)
}

/// Any program can answer, and the version is shown to the user.
fn plausible(health: GatewayHealth) -> Result<GatewayHealth, ProbeError> {
    if is_version(&health.version) { Ok(health) } else { Err(ProbeError::Stranger) }
}

fn is_version(text: &str) -> bool {
    text.len() < 40 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

const HTTP: &str = "http://";

struct ProbeAnswer {
    head: String,
    body: Vec<u8>,
}

impl ProbeAnswer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

async fn ask(
    url: &str,
    path: &str,
    headers: &str,
    patience: Duration,
) -> Result<ProbeAnswer, ProbeError> {
    let asking = async {
        if let Some(authority) = url.strip_prefix(HTTP) {
            // Only addresses: a name could lead to another machine.
            let address: SocketAddr = authority.parse().map_err(|_| ProbeError::Stranger)?;
            let stream = TcpStream::connect(address).await?;
            return exchange(stream, authority, path, headers).await;
        }
        #[cfg(unix)]
        if let Some(socket) = url.strip_prefix("unix:") {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            return exchange(stream, "localhost", path, headers).await;
        }
        Err(ProbeError::Tls)
    };
    timeout(patience, asking).await.unwrap_or(Err(ProbeError::Silent(patience)))
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    headers: &str,
) -> Result<ProbeAnswer, ProbeError> {
    // The old version of HTTP: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = answer.split_off(head.map_or(answer.len(), |head| head + 4));
    Ok(ProbeAnswer { head: String::from_utf8_lossy(&answer).into_owned(), body })
}
