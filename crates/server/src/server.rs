//! The listener: accepts connections, serves the API on them, and lets running requests finish at
//! shutdown.

mod client;
mod connections;
mod error;
mod file_limit;
mod idle;
mod listener;
mod passed_sockets;
mod progress;
#[cfg(unix)]
mod unix;

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

pub use self::error::StartError;
pub use self::listener::{reachable, url};
pub use self::passed_sockets::PassedSockets;
use self::{
    client::{ClientHost, ClientLimits, client},
    connections::Connections,
    idle::Traffic,
    listener::Listeners,
};
use crate::{
    api,
    app::App,
    config::{Backend, Config, Listen, TlsFiles},
    keys::{self, KeyPolicy},
    mcp::bridge::Bridge,
    net::tls,
    shutdown::Shutdown,
    store::StoreError,
    tasks::Tasks,
};

/// After a failed accept (out of file handles, say), wait before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound server that does not serve yet.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    doors: Listeners,
    tls: Option<Arc<rustls::ServerConfig>>,
    tasks: Tasks,
    needed: InUse,
}

/// A condition besides requests under which the server is in use.
struct InUse(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InUse")
    }
}

impl Server {
    /// Builds the application and binds its port.
    ///
    /// # Errors
    /// The configuration is unsafe, a file cannot be used, or the port is taken.
    pub async fn bind(config: Config, tasks: &Tasks) -> Result<Self, StartError> {
        Self::bind_given(config, PassedSockets::none(), tasks).await
    }

    /// As [`Self::bind`], on the sockets that were handed over, if there are any, in place of
    /// the addresses in the settings.
    ///
    /// # Errors
    /// As [`Self::bind`]; or such a socket cannot be used.
    pub async fn bind_given(
        mut config: Config,
        given: PassedSockets,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        given.settle(&mut config);
        let policy = keys::policy(config.access.keys_file.as_deref())?;
        config.check_serving(policy == KeyPolicy::Keys)?;
        for weak in config.weak_points(config.access.api_key.is_some() || policy != KeyPolicy::Open)
        {
            warn!("{weak}");
        }
        let tls = config.server.tls.as_ref().map(secure).transpose()?;
        let doors = match given.is_empty() {
            true => Listeners::bind(config.places()).await?,
            false => Listeners::given(given)?,
        };
        let sim = match &config.backend {
            Backend::Cursor => None,
            Backend::Sim { scenario } => Some(config.simulator.start(scenario.as_deref())?),
        };
        let apart = tasks.clone();
        // The store may have to wait for another process.
        let app = tasks.spawn_blocking(move || App::new(config, sim.as_ref(), &apart));
        let app = app.await.unwrap_or(Err(StoreError::Stopped))?;
        let bridge = Bridge::new(app.config(), tasks);
        let app = Arc::new(app.with_bridge(bridge));
        Ok(Self { app, doors, tls, tasks: tasks.clone(), needed: InUse(Box::new(|| false)) })
    }

    /// While `needed` is true, the server does not exit for lack of requests.
    #[must_use]
    pub fn while_needed(self, needed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { needed: InUse(Box::new(needed)), ..self }
    }

    #[must_use]
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Where it listens; with port 0 the system has chosen one.
    ///
    /// # Errors
    /// The system does not say.
    pub fn places(&self) -> io::Result<Vec<Listen>> {
        self.doors.places()
    }

    /// The first of them that is a port.
    ///
    /// # Errors
    /// The system does not say, or the server is on Unix sockets only.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let port = self.places()?.iter().find_map(Listen::address);
        port.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `shutdown`, then drains: connections finish their requests for
    /// as long as the `drain` clock allows, after that every turn ends with an
    /// error its client can read.
    pub async fn run(self, shutdown: Shutdown) {
        let Self { app, mut doors, tls, tasks, needed } = self;
        app.driver().warm_up();
        let config = app.config();
        let limits = config.limits;
        let beside = limits.upstream_connections + file_limit::of_children(config);
        let crowd = Connections::new(file_limit::connections(limits.connections, beside));
        // Without a TLS handshake, clients cannot read a plain response.
        let full = if tls.is_none() { api::no_room() } else { Vec::new() };
        let host = ClientHost {
            router: api::router(Arc::clone(&app)),
            tls: tls.map(TlsAcceptor::from),
            limits: ClientLimits::of(config),
            shutdown: shutdown.clone(),
            executor: tasks.executor("client stream"),
        };
        let after = config.server.idle_exit.unwrap_or_default();
        let unused = idle::unused(after, || {
            let (running, last) = crowd.traffic();
            let turns = app.sessions();
            let busy = running || turns.active + turns.parked > 0;
            Traffic { busy: busy || (needed.0)(), last }
        });
        let draining = shutdown.draining();
        tokio::pin!(draining, unused);
        loop {
            tokio::select! {
                () = &mut draining => break,
                () = &mut unused => {
                    info!("no requests for {after:?}: stopping");
                    shutdown.drain();
                    break;
                }
                accepted = doors.accept() => match accepted {
                    Ok(stream) => match crowd.enter().await {
                        Some(member) => {
                            tasks.spawn("client", client(stream.open(), host.clone(), member));
                        }
                        None => stream.refuse(&full),
                    },
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // No new turns from here on. The port is released after that: `/health` proves nothing by
        // then.
        app.drain_turns();
        drop(doors);
        // A connection of HTTP/2 may have several requests, one of HTTP/1.1 has one.
        let busy = || app.sessions().active.max(crowd.len());
        drain(busy, app.config().clocks.drain, &shutdown).await;
        app.stop_turns();
        shutdown.abort();
        tasks.stop();
    }
}

/// Waits for turns and connections to end by themselves. A closing connection ends once its client
/// has read the last byte, which may be long after the turn.
async fn drain(busy: impl Fn() -> usize, limit: Duration, shutdown: &Shutdown) {
    const LOOK: Duration = Duration::from_millis(20);
    let quiet = async {
        if busy() > 0 {
            // Connections that were idle are gone by the second look.
            sleep(LOOK).await;
        }
        match busy() {
            0 => return,
            1 => info!("waiting up to {limit:?} for 1 request; Ctrl-C again stops at once"),
            n => info!("waiting up to {limit:?} for {n} requests; Ctrl-C again stops at once"),
        }
        while busy() > 0 {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        ended = timeout(limit, quiet) => {
            if ended.is_err() {
                info!("`clocks.drain` is over; cancelling the remaining requests");
            }
        }
        () = shutdown.aborted() => {}
    }
}

/// The TLS settings of the listener.
fn secure(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, StartError> {
    if crate::files::strangers_may_use(&files.key) {
        let path = files.key.display();
        warn!("other users can use {path}, the key of your certificate: chmod g-w,o-rwx {path}");
    }
    tls::server_config(&files.cert, &files.key).map_err(StartError::Tls)
}

/// Binds a port.
///
/// # Errors
/// Names the address, and what to do.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    listener::tcp(address).await
}
