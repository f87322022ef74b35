//! `ibeam serve`: the gateway for scripts and services. Prints its URL on stdout
//! once it listens, then only logs.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Args;

use super::{Global, INTERRUPTED, Listening, Upstream, block_on, print, require_account};
use crate::{
    app::App,
    config::{Config, Listen},
    server::{Server, reachable},
    shutdown::{Shutdown, Signals},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam serve
  ibeam serve --port 0                          print the URL with the port it got
  ibeam serve --listen unix:$HOME/ibeam.sock    a socket that only you can open
  ibeam serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
                                                for your network; clients need a key,
                                                see `ibeam help keys`")]
pub(super) struct Serve {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: Upstream,
}

impl Serve {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let mut config = global.load(self.listening.raw(), &self.upstream)?.config;
        require_account(&mut config)?;
        block_on(serve(config, |ready| {
            print(ready.url)?;
            ready.also.iter().try_for_each(|url| print(url))
        }))
    }
}

/// How long the last tasks may take once the server is done. Connections that say
/// goodbye take two seconds.
const LAST_TASKS: Duration = Duration::from_secs(3);

/// A server that is bound.
pub(super) struct Ready<'a> {
    pub(super) url: &'a str,
    pub(super) place: &'a Listen,
    /// The URLs of further places.
    pub(super) also: &'a [String],
    pub(super) app: &'a Arc<App>,
    pub(super) tasks: &'a Tasks,
    pub(super) shutdown: &'a Shutdown,
}

/// Serves until a signal comes. `ready` is called once the port is bound.
pub(super) async fn serve(
    config: Config,
    ready: impl FnOnce(Ready<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let (tasks, shutdown) = (Tasks::new(), Shutdown::new());
    let signals = Signals::new()?;
    let serving = async {
        let server = Server::bind(config, &tasks).await?;
        let (bound, tls) = (server.places()?, server.is_tls());
        for bound in &bound {
            tracing::info!(
                version = env!("CARGO_PKG_VERSION"),
                backend = server.app().backend(),
                "listening on {}",
                place(bound, tls)
            );
        }
        if bound.iter().any(|bound| bound.ip().is_some_and(|ip| ip.is_unspecified())) {
            tracing::info!("names that other machines call it by go into the setting `hosts`");
        }
        if bound.iter().any(|bound| !bound.is_local()) && !tls {
            tracing::warn!("keys and conversations cross the network in the clear; see --tls-cert");
        }
        if let Some((first, others)) = bound.split_first() {
            let also: Vec<String> = others.iter().map(|place| url(place, tls)).collect();
            ready(Ready {
                url: &url(first, tls),
                place: first,
                also: &also,
                app: server.app(),
                tasks: &tasks,
                shutdown: &shutdown,
            })?;
        }
        server.run(shutdown.clone()).await;
        match tasks.join_within(LAST_TASKS).await {
            0 => tracing::info!("stopped"),
            left => tracing::warn!(left, "stopped, though not every task has ended"),
        }
        anyhow::Ok(())
    };
    tokio::select! {
        served = serving => served?,
        // To the very end: nothing may keep the program from stopping when told.
        () = signals.relay(&shutdown) => {
            tracing::info!("stopped at once");
        }
    }
    Ok(if shutdown.was_forced() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The place as it was bound.
pub(super) fn place(bound: &Listen, tls: bool) -> String {
    match bound {
        Listen::Tcp(address) if address.ip().is_unspecified() => {
            format!("{address} (all interfaces)")
        }
        Listen::Tcp(address) => format!("{}://{address}", scheme(tls)),
        Listen::Unix(_) => bound.to_string(),
    }
}

/// The place as a client on this machine writes it.
pub(super) fn url(bound: &Listen, tls: bool) -> String {
    let Listen::Tcp(address) = bound else { return bound.to_string() };
    format!("{}://{}", scheme(tls), reachable(*address))
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}
