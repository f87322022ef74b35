//! `ibeam serve`: the gateway for scripts and services. Prints its URL on stdout
//! once it listens, then only logs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anstream::println;
use clap::Args;

use super::{Global, Listening, Upstream, block_on, require_account};
use crate::{
    app::App,
    config::Config,
    server::Server,
    shutdown::{Shutdown, Signals},
    tasks::Tasks,
};

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
        block_on(serve(config, |ready| println!("{}", ready.url)))
    }
}

/// How long the last tasks may take once the server is done. Connections that say
/// goodbye take two seconds.
const LAST_TASKS: Duration = Duration::from_secs(3);

/// A server that is bound.
pub(super) struct Ready<'a> {
    pub(super) url: &'a str,
    pub(super) app: &'a Arc<App>,
    pub(super) tasks: &'a Tasks,
    pub(super) shutdown: &'a Shutdown,
}

/// Serves until a signal comes. `ready` is called once the port is bound.
pub(super) async fn serve(config: Config, ready: impl FnOnce(Ready<'_>)) -> anyhow::Result<()> {
    let (tasks, shutdown) = (Tasks::new(), Shutdown::new());
    let signals = Signals::new()?;
    let serving = async {
        let server = Server::bind(config, &tasks).await?;
        let url = url(server.address()?);
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            backend = server.app().backend(),
            "listening on {url}"
        );
        ready(Ready { url: &url, app: server.app(), tasks: &tasks, shutdown: &shutdown });
        server.run(shutdown.clone()).await;
        match tasks.join_within(LAST_TASKS).await {
            0 => tracing::info!("stopped"),
            left => tracing::warn!(left, "stopped, though not every task has ended"),
        }
        Ok(())
    };
    tokio::select! {
        served = serving => served,
        // To the very end: nothing may keep the program from stopping when told.
        () = signals.relay(&shutdown) => {
            tracing::info!("stopped at once");
            Ok(())
        }
    }
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
