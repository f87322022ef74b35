//! Asks a gateway on this machine for one of its open pages. Nothing here leaves the machine,
//! and nothing secret goes along.

use std::{io, net::SocketAddr, time::Duration};

use ibeam_core::{
    challenge::{CHALLENGE, PROOF, is_proof},
    model::ids,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::random;

/// Its pages are far shorter.
const LONGEST: u64 = 64 << 10;

/// What a page says. None: no answer in that time, or not one of a gateway.
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

/// Why a gateway cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// It does not answer in time.
    Silent,
    /// Something answers that does not have the gateway's key.
    Stranger,
}

/// What a page of the gateway that has this key says. The key is not sent: see
/// [`ibeam_core::challenge`].
///
/// # Errors
/// It does not answer, or the answer is that of another program.
pub async fn get_proven<T: DeserializeOwned>(
    address: SocketAddr,
    path: &str,
    key: &SecretString,
    patience: Duration,
) -> Result<T, Unproven> {
    let challenge = ids::hex(&random::bytes::<32>());
    let authority = address.to_string();
    let asking = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let header = format!("{CHALLENGE}: {challenge}\r\n");
        ask(stream, &authority, path, &header).await.ok()
    };
    let answer = timeout(patience, asking).await.ok().flatten();
    let (head, body) = answer.filter(|(head, _)| !head.is_empty()).ok_or(Unproven::Silent)?;
    let hash: [u8; 32] = Sha256::digest(key.expose_secret()).into();
    let proof = header(&head, PROOF).ok_or(Unproven::Stranger)?;
    if !is_proof(proof, &hash, &authority, &challenge) {
        return Err(Unproven::Stranger);
    }
    serde_json::from_slice(&body).map_err(|_| Unproven::Silent)
}

/// The value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The version of the gateway at this address. None: it is not ibeam, or what it says is not
/// a version as ours would be.
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
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
) -> io::Result<Vec<u8>> {
    ask(stream, host, path, "").await.map(|(_, body)| body)
}

/// The same with further headers, and the head of the answer.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    headers: &str,
) -> io::Result<(String, Vec<u8>)> {
    // The old version of HTTP: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = head.map(|head| head + 4).unwrap_or(answer.len());
    let body = answer.split_off(body);
    Ok((String::from_utf8_lossy(&answer).into_owned(), body))
}
