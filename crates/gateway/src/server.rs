//! The listener: accepts connections, serves the API on them, and lets what runs
//! finish when the program is told to stop.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use hyper::service::{Service as _, service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use ibeam_sim::Sim;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    api,
    app::App,
    config::{Backend, Config},
    shutdown::Shutdown,
    tasks::{Executor, Tasks},
};

/// A client must send its request's head within this time, the first one counted
/// from the moment it connected.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a request's head is read before it is refused.
const HEAD_CAP: usize = 64 * 1024;

/// After a failed accept (out of file handles, say), wait before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound server that has not begun to serve.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    tasks: Tasks,
}

impl Server {
    /// Puts the program together and binds its port.
    ///
    /// # Errors
    /// The configuration is unsafe, the scenario cannot be read, or the port is
    /// taken.
    pub async fn bind(config: Config, tasks: &Tasks) -> anyhow::Result<Self> {
        config.check_serving().map_err(StartError::open_door)?;
        let listener = listen(config.listen).await?;
        Self::on(listener, config, tasks)
    }

    /// As [`Self::bind`], on a listener that the caller made.
    ///
    /// # Errors
    /// The scenario cannot be read, or there is no memory for the store.
    pub fn on(listener: TcpListener, config: Config, tasks: &Tasks) -> anyhow::Result<Self> {
        let sim = match &config.backend {
            Backend::Cursor => None,
            Backend::Sim { scenario } => {
                let simulated = config.simulator.config(scenario.as_deref());
                Some(Sim::new(simulated.context("cannot use the scenario")?))
            }
        };
        let app = Arc::new(App::new(config, sim.as_ref(), tasks)?);
        Ok(Self { app, listener, tasks: tasks.clone() })
    }

    #[must_use]
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Where it listens; with port 0 the system has chosen one.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then drains: connections finish their requests for
    /// as long as the `drain` clock allows, after that every turn ends with an
    /// error its client can read.
    pub async fn run(self, shutdown: Shutdown) {
        let Self { app, listener, tasks } = self;
        let limit = app.config().limits.connections;
        let slots = Arc::new(Semaphore::new(limit));
        let router = api::router(Arc::clone(&app));
        let draining = shutdown.draining();
        tokio::pin!(draining);
        loop {
            let slot = tokio::select! {
                () = &mut draining => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            tokio::select! {
                () = &mut draining => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (router, shutdown) = (router.clone(), shutdown.clone());
                        let executor = tasks.executor("client stream");
                        tasks.spawn("client", client(stream, router, executor, shutdown, slot));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // Nothing new from here on.
        drop(listener);
        app.drain_turns();
        // A connection of HTTP/2 may have several requests, one of HTTP/1.1 has one.
        let busy = || app.sessions().active.max(limit.saturating_sub(slots.available_permits()));
        drain(busy, app.config().clocks.drain, &shutdown).await;
        app.stop_turns();
        shutdown.abort();
        tasks.stop();
    }
}

/// Waits for turns and connections to end by themselves. A connection that was told
/// to finish ends once its client has taken the last byte, which may be long after
/// the turn.
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
                info!("the drain limit is over; ending what still runs");
            }
        }
        () = shutdown.aborted() => {}
    }
}

async fn client(
    stream: TcpStream,
    router: axum::Router,
    executor: Executor,
    shutdown: Shutdown,
    _slot: OwnedSemaphorePermit,
) {
    /// How long a connection may take to say goodbye after the turns were ended.
    const GOODBYE: Duration = Duration::from_secs(2);
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_CAP.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_CAP as u32)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let asked = CancellationToken::new();
    let (inner, tell) = (TowerToHyperService::new(router), asked.clone());
    let service = service_fn(move |request| {
        tell.cancel();
        inner.call(request)
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // Which protocol it is, is found out without a clock. So a socket on which no
    // request ever comes is ours to close.
    let silent = async {
        if timeout(HEAD_TIMEOUT, asked.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = silent => {
            debug!("a client connected and asked for nothing");
            return;
        }
        () = shutdown.draining() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection.as_mut() => result,
                () = async {
                    shutdown.aborted().await;
                    sleep(GOODBYE).await;
                } => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        // Clients hang up all the time; only the curious need to know.
        debug!(%error, "a connection ended badly");
    }
}

/// Why nothing can be served, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StartError {
    what: String,
    pub hint: &'static str,
    source: Option<io::Error>,
}

impl StartError {
    fn open_door(what: String) -> Self {
        let hint = "set IBEAM_API_KEY to a secret of your choice and give it to your clients, \
                    or listen on 127.0.0.1";
        Self { what, hint, source: None }
    }
}

/// Binds a port.
///
/// # Errors
/// Names the address, and what to do.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError {
        what: format!("cannot listen on {address}"),
        hint: match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another ibeam may be running there; choose another port with `--port`, \
                 or 0 for a free one"
            }
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 need privileges; choose a higher one with `--port`"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address; choose one of its own with `--host`"
            }
            _ => "check the address with `ibeam config show`",
        },
        source: Some(error),
    })
}
