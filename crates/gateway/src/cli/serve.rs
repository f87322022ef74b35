//! `ibeam serve`: the gateway for scripts and services. Prints its URL on stdout
//! once it listens, then only logs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anstream::println;
use clap::Args;

use super::{Global, Listening, Upstream, block_on, require_account};
use crate::{app::App, config::Config, server::Server, shutdown::Shutdown, tasks::Tasks};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam serve
  ibeam serve --port 0                          print the URL with the port it got
  IBEAM_API_KEY=… ibeam serve --host 0.0.0.0    for your network; clients need the key")]
pub(super) struct Serve {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: Upstream,
}

impl Serve {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<()> {
        let config = global.load(self.listening.raw(), &self.upstream)?;
        require_account(&config)?;
        block_on(serve(config, |url, _, _| println!("{url}")))
    }
}

/// Serves until a signal comes. `ready` is called once the port is bound.
pub(super) async fn serve(
    config: Config,
    ready: impl FnOnce(&str, &Arc<App>, &Tasks),
) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    let shutdown = Shutdown::on_signals(&tasks)?;
    let server = Server::bind(config, &tasks).await?;
    let url = url(server.address()?);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        backend = server.app().backend(),
        "listening on {url}"
    );
    ready(&url, server.app(), &tasks);
    server.run(shutdown.clone()).await;
    // The server aborts the shutdown when it is done, so every task ends.
    tasks.join().await;
    tracing::info!("stopped");
    Ok(())
}

/// The address as a client on this machine writes it.
pub(super) fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}
