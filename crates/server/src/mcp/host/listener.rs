//! The listener, and the connections to it.

use std::{convert::Infallible, io, net::Ipv4Addr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time::sleep,
};
use tracing::{debug, warn};

use super::{Rooms, door::Door};
use crate::tasks::Tasks;

/// Connections at once. More are closed as they come.
const CONNECTIONS: usize = 4096;

/// How long a connection may take for the head of a request, and be idle before it.
pub(super) const HEAD: Duration = Duration::from_secs(30);

/// How large a head may be.
const HEAD_BYTES: usize = 64 * 1024;

/// After a failed accept (out of file handles, say), wait before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens until the program ends. Gives the port.
pub(super) async fn start(tasks: &Tasks, rooms: &Arc<Rooms>) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let door = Arc::new(Door::new(rooms, port));
    tasks.spawn("mcp host", accept(listener, door, tasks.clone()));
    debug!(port, "tools are hosted");
    Ok(port)
}

async fn accept(listener: TcpListener, door: Arc<Door>, tasks: Tasks) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let stopped = tasks.stopped();
    tokio::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection to hosted tools");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        // Answers are short and awaited. Where it cannot be set, they are only later.
        stream.set_nodelay(true).ok();
        let (door, stopped) = (Arc::clone(&door), tasks.stopped());
        tasks.spawn("mcp client", async move {
            tokio::select! {
                () = serve(stream, door) => {}
                () = stopped => {}
            }
            drop(place);
        });
    }
}

/// One connection, to its end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    door: Arc<Door>,
) {
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection to hosted tools ended badly");
    }
}
