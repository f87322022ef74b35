//! The listener, and the connections to it.

use std::{convert::Infallible, io, net::Ipv4Addr, sync::Arc, time::Duration};

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    task::yield_now,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    Rooms,
    callers::{BusyCaller, Callers, HostCaller},
    entrance::{HostBody, HostEntrance},
};
use crate::tasks::Tasks;

/// How long a connection may take for the head of a request, and be idle before it. At first it
/// has as long for its first byte.
pub(super) const HEAD: Duration = Duration::from_secs(30);

/// How large a head may be.
const HEAD_BYTES: usize = 64 * 1024;

/// After a failed accept (out of file handles, say), wait before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the system keeps until they are accepted: other programs may open very many at
/// once, and it turns away what comes when that is full. The system may allow fewer.
const BACKLOG: u32 = 1024;

/// Listens until the program ends. Returns the port.
pub(super) fn start(tasks: &Tasks, rooms: &Arc<Rooms>, callers: &Arc<Callers>) -> io::Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let port = listener.local_addr()?.port();
    let entrance = Arc::new(HostEntrance::new(rooms, port));
    tasks.spawn("mcp host", accept(listener, entrance, Arc::clone(callers), tasks.clone()));
    debug!(port, "tools are hosted");
    Ok(port)
}

async fn accept(
    listener: TcpListener,
    entrance: Arc<HostEntrance>,
    callers: Arc<Callers>,
    tasks: Tasks,
) {
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
        let Some(caller) = callers.enter() else { continue };
        // Answers are short and awaited. Where it cannot be set, they are only later.
        stream.set_nodelay(true).ok();
        let (entrance, stopped) = (Arc::clone(&entrance), tasks.stopped());
        tasks.spawn("mcp client", async move {
            tokio::select! {
                () = listen_to(stream, entrance, Arc::clone(&caller)) => {}
                () = caller.evicted() => {}
                () = stopped => {}
            }
        });
        // Those that are in are read before more of them come and take their places, and those
        // that have lost theirs are gone.
        yield_now().await;
    }
}

/// A connection from its first byte on.
async fn listen_to(stream: TcpStream, entrance: Arc<HostEntrance>, caller: Arc<HostCaller>) {
    // Not `readable`, which may be ready for a connection that has sent nothing.
    if let Ok(Ok(1)) = timeout(HEAD, stream.peek(&mut [0])).await {
        caller.spoke();
        serve(stream, entrance, caller).await;
    }
}

/// One connection, to its end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    entrance: Arc<HostEntrance>,
    caller: Arc<HostCaller>,
) {
    let service = service_fn(move |request| {
        let (entrance, caller) = (Arc::clone(&entrance), Arc::clone(&caller));
        async move {
            Ok::<_, Infallible>(match entrance.let_in(&request) {
                Ok(visit) => {
                    let busy = caller.begin();
                    held(visit.answer(request).await, busy)
                }
                // One without a key has nothing more to say.
                Err(refusal) => closing(refusal.response()),
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection to hosted tools ended with an error");
    }
}

fn closing(mut response: Response<HostBody>) -> Response<HostBody> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The connection is busy until all of the response is sent.
fn held(response: Response<HostBody>, busy: BusyCaller) -> Response<HostBody> {
    response.map(|body| {
        // The closure is dropped with the body.
        let unchanged = move |error| {
            let _ = &busy;
            error
        };
        body.map_err(unchanged).boxed_unsync()
    })
}
