//! `ibeam serve`: the gateway for scripts and services. Prints its URL on stdout
//! once it listens, then only logs.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;

use super::{
    Global, INTERRUPTED, Listening, Refusal, UpstreamOptions, block_on, print, require_account,
};
use crate::{
    instance::{self, Registration},
    memory, notify,
};
use ibeam_server::{
    app::App,
    config::{Config, Listen},
    net, recorder,
    server::{PassedSockets, Server, StartError, url},
    shutdown::{Shutdown, Signals},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam serve
  ibeam serve --port 0                          choose a free port and print the URL
  ibeam serve --listen unix:$HOME/ibeam.sock    a socket that only you can open
  ibeam serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
                                                for your network; clients need a key,
                                                see `ibeam help keys`")]
pub(super) struct Serve {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: UpstreamOptions,
    /// Start even when not signed in; clients then get an error with the command to sign in
    #[arg(long)]
    unattended: bool,
    /// Be the gateway that `ibeam start` puts in the background
    #[arg(long, hide = true)]
    shared: bool,
}

impl Serve {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        // Before anything starts a thread.
        let given = PassedSockets::take()?;
        let mut config = global.load(self.listening.raw(), &self.upstream)?.config;
        let logs_to_file = config.log.file.is_some();
        if self.shared {
            instance::share(&mut config);
        }
        let served = self.serve(&mut config, given);
        if let (Err(error), true) = (&served, logs_to_file) {
            // The log is where users look for the reason.
            tracing::error!("{}", net::chain(error.as_ref()));
        }
        served
    }

    fn serve(&self, config: &mut Config, given: PassedSockets) -> anyhow::Result<ExitCode> {
        match require_account(config) {
            // A service that is started again and again would not help.
            Err(refused) if self.unattended => {
                let hint = refused.downcast_ref::<Refusal>().and_then(|it| it.hints.first());
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                tracing::warn!("{refused}{hint}");
            }
            account => account?,
        }
        block_on(serve(config.clone(), given, |ready| {
            print(ready.url)?;
            ready.also.iter().try_for_each(|url| print(url))
        }))
    }
}

/// How long the last tasks may take once the server is done. Connections that say
/// goodbye take two seconds.
const LAST_TASKS: Duration = Duration::from_secs(3);

/// A server that is bound.
pub(super) struct ReadyBanner<'a> {
    pub(super) url: &'a str,
    pub(super) place: &'a Listen,
    /// The URLs of further places.
    pub(super) also: &'a [String],
    pub(super) app: &'a Arc<App>,
    pub(super) tasks: &'a Tasks,
    pub(super) shutdown: &'a Shutdown,
}

/// Says which program has the port, if it is a gateway of this user. Any other could only claim
/// to be one.
async fn explained(error: StartError) -> anyhow::Error {
    let StartError::Taken { address, .. } = &error else { return error.into() };
    let Some(running) = instance::proven_at(*address).await else { return error.into() };
    let hint = format!(
        "your ibeam {} is running there already, and clients can use it as it is; `ibeam stop` ends \
         one in the background; for a second one choose another port (`--port`), or 0 for a free one",
        running.version
    );
    Refusal { hints: vec![hint], ..Refusal::new(net::chain(&error)) }.into()
}

/// Serves until a signal comes, on the sockets that were handed over, if there are any.
/// `ready` is called once the port is bound.
pub(super) async fn serve(
    config: Config,
    given: PassedSockets,
    ready: impl FnOnce(ReadyBanner<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &config.record.dir {
        recorder::prepare(folder).context("turns cannot be recorded")?;
    }
    let (tasks, shutdown) = (Tasks::new(), Shutdown::new());
    let signals = Signals::new()?;
    let serving = async {
        let server = match Server::bind_given(config, given, &tasks).await {
            Ok(server) => server,
            Err(error) => return Err(explained(error).await),
        };
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
            tracing::info!(
                "add the names that other machines use for it to the setting `allowed_hosts`"
            );
        }
        if bound.iter().any(|bound| !bound.is_local()) && !tls {
            tracing::warn!("keys and conversations cross the network unencrypted; see --tls-cert");
        }
        let registration = register(&server, &bound)?;
        if let Some((first, others)) = bound.split_first() {
            let also: Vec<String> = others.iter().map(|place| url(place, tls)).collect();
            ready(ReadyBanner {
                url: &url(first, tls),
                place: first,
                also: &also,
                app: server.app(),
                tasks: &tasks,
                shutdown: &shutdown,
            })?;
            notify::ready(&url(first, tls));
            let draining = shutdown.draining();
            tasks.spawn("notify", async move {
                draining.await;
                notify::stopping();
            });
        }
        let known = registration.clone();
        let server = server.while_needed(move || known.as_ref().is_some_and(|me| me.is_in_use()));
        let leaving = async {
            shutdown.draining().await;
            registration.as_ref().inspect(|registration| registration.retire());
        };
        tokio::select! {
            _ = async { tokio::join!(server.run(shutdown.clone()), leaving) } => {}
            never = memory::return_free() => match never {},
        }
        match tasks.join_within(LAST_TASKS).await {
            0 => tracing::info!("stopped"),
            left => tracing::warn!(left, "stopped, but some tasks did not end"),
        }
        anyhow::Ok(())
    };
    tokio::select! {
        served = serving => served?,
        // To the very end: nothing may keep the program from stopping.
        () = signals.relay(&shutdown) => {
            tracing::info!("stopped immediately");
        }
    }
    Ok(if shutdown.was_forced() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Lets other programs of the user find the server. It serves also where that cannot be,
/// unless it is there for nothing else.
fn register(server: &Server, places: &[Listen]) -> anyhow::Result<Option<Arc<Registration>>> {
    let app = server.app();
    match instance::register(app, places, server.is_tls()) {
        Ok(registration) => Ok(registration.map(Arc::new)),
        Err(error) if app.config().server.shared => Err(error.into()),
        Err(error) => {
            tracing::warn!("other programs cannot find this gateway: {}", net::chain(&error));
            Ok(None)
        }
    }
}

/// The place as it was bound.
pub(super) fn place(bound: &Listen, tls: bool) -> String {
    match bound {
        Listen::Tcp(address) if address.ip().is_unspecified() => {
            format!("{address} (all interfaces)")
        }
        Listen::Tcp(address) => format!("{}://{address}", if tls { "https" } else { "http" }),
        Listen::Unix(_) => bound.to_string(),
    }
}
