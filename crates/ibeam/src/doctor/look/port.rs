//! Whether we could listen, and who does instead.

#[cfg(target_os = "linux")]
mod owner;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use crate::{
    doctor::findings::{Port, PortState, RunningGateway},
    instance,
};
use ibeam_server::{
    config::{Config, Listen},
    net::probe::{self, GatewayHealth},
    server::reachable,
};
use serde_json::Value;

/// A gateway on this machine answers sooner.
const PATIENCE: Duration = Duration::from_secs(2);
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
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            match probe::version(reachable(address), PATIENCE).await {
                Some(version) => PortState::CallsItselfIbeam(version),
                None => PortState::Taken(owner(address)),
            }
        }
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

/// What a gateway says of its health, as it says it.
pub(in crate::doctor) async fn health(url: &str) -> Option<Value> {
    probe::get(url, "/health", PATIENCE).await.ok()
}

/// The gateways of this user that answer, and prove that they are these.
pub(in crate::doctor) async fn running() -> Vec<RunningGateway> {
    let mut found = Vec::new();
    for living in instance::all().into_iter().take(MOST) {
        if let Ok(health) = living.health().await {
            let GatewayHealth { version, drift, history, .. } = health;
            found.push(RunningGateway { url: living.url, version, drift, history });
        }
    }
    found
}
