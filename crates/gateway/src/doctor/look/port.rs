//! Whether we could listen, and who does instead.

#[cfg(target_os = "linux")]
mod owner;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    config::{Config, Listen},
    doctor::findings::{Port, PortState, Running},
    instance,
    server::reachable,
};

/// A gateway on this machine answers sooner.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: u64 = 64 << 10;
/// Gateways that are asked.
const MOST: usize = 16;

pub(super) async fn look(config: &Config) -> Vec<Port> {
    let mut ports = Vec::new();
    for place in config.places() {
        match place {
            // The system chooses a free one.
            Listen::Tcp(address) if address.port() == 0 => {}
            Listen::Tcp(address) => {
                ports.push(Port { address: *address, state: state(*address).await });
            }
            Listen::Unix(_) => {}
        }
    }
    ports
}

async fn state(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_free) => PortState::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match ibeam_at(address).await {
            Some(version) => PortState::Ours(version),
            None => PortState::Taken(owner(address)),
        },
        Err(error) => PortState::Unusable(error.to_string()),
    }
}

#[cfg(target_os = "linux")]
fn owner(address: SocketAddr) -> Option<String> {
    owner::of(address.port())
}

#[cfg(not(target_os = "linux"))]
fn owner(_: SocketAddr) -> Option<String> {
    None
}

/// The version of the ibeam that is there, if it is one.
async fn ibeam_at(address: SocketAddr) -> Option<String> {
    let said = ask(reachable(address), "/").await?;
    let version = said.get("version")?.as_str()?.to_owned();
    let sane = version.len() < 40 && version.bytes().all(|byte| byte.is_ascii_graphic());
    (sane && said.get("name")? == "ibeam").then_some(version)
}

/// What a gateway on this machine says on one of its open pages.
pub(in crate::doctor) async fn ask(address: SocketAddr, path: &str) -> Option<Value> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.take(LONGEST).read_to_string(&mut answer).await.ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    };
    timeout(PATIENCE, asking).await.ok().flatten()
}

/// The gateways of this user that answer.
pub(in crate::doctor) async fn running() -> Vec<Running> {
    let mut found = Vec::new();
    for living in instance::all().into_iter().take(MOST) {
        let address = living.url().strip_prefix("http://").and_then(|rest| rest.parse().ok());
        let Some(address) = address else { continue };
        let Some(version) = ibeam_at(address).await else { continue };
        let health = ask(address, "/health").await.unwrap_or_default();
        // Older versions do not tell.
        let drift = health.get("drift").cloned().unwrap_or_default();
        let drift = serde_json::from_value(drift).unwrap_or_default();
        found.push(Running { url: living.url().to_owned(), version, drift });
    }
    found
}
