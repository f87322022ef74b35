//! What clients connect to: a port, or a socket in the file system.

use std::{
    future::poll_fn,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
    time::Duration,
};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{
    StartError,
    client::ClientIo,
    passed_sockets::{PassedListener, PassedSockets},
};
use crate::{config::Listen, net::probe};

/// How long the program that has our port may take to identify itself.
const WHO: Duration = Duration::from_millis(500);

/// Connections that the system completes before we accept them; it cuts this to its own limit.
/// Beyond it a client's first packet is dropped, and the client waits a second before it tries
/// again. The library's default of 128 is too small for many clients or an attack.
const BACKLOG: u32 = 4096;

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(super::unix::UnixSocket),
}

/// An accepted connection.
pub(super) enum IncomingConnection {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Listener {
    async fn bind(listen: &Listen) -> Result<Self, StartError> {
        match listen {
            Listen::Tcp(address) => tcp(*address).await.map(Self::Tcp),
            #[cfg(unix)]
            Listen::Unix(path) => super::unix::UnixSocket::bind(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Listen::Unix(path) => Err(StartError::new(
                format!("cannot listen on {}", path.display()),
                "this system has no Unix sockets; use an address and a port",
            )),
        }
    }

    /// A listener that a service manager has opened.
    pub(super) fn given(open: PassedListener, place: Listen) -> io::Result<Self> {
        match (open, place) {
            #[cfg(unix)]
            (PassedListener::Tcp(listener), _) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            #[cfg(unix)]
            (PassedListener::Unix(listener), Listen::Unix(path)) => {
                super::unix::UnixSocket::given(listener, path).map(Self::Unix)
            }
            #[cfg(unix)]
            (PassedListener::Unix(_), Listen::Tcp(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Where it listens; with port 0 the system has chosen one.
    fn place(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(listener) => Ok(Listen::Tcp(listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(socket) => Ok(Listen::Unix(socket.path().to_path_buf())),
        }
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<IncomingConnection>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| IncomingConnection::Tcp(stream))
            }
            #[cfg(unix)]
            Self::Unix(socket) => socket.poll_accept(cx).map_ok(IncomingConnection::Unix),
        }
    }
}

/// All listeners of a server.
#[derive(Debug)]
pub(super) struct Listeners {
    listeners: Vec<Listener>,
    /// The listener to poll first: a busy one must not keep the others waiting.
    next: usize,
}

impl Listeners {
    pub(super) async fn bind<'a>(
        places: impl Iterator<Item = &'a Listen>,
    ) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        for place in places {
            listeners.push(Listener::bind(place).await?);
        }
        Ok(Self { listeners, next: 0 })
    }

    /// Those that a service manager has opened.
    pub(super) fn given(given: PassedSockets) -> Result<Self, StartError> {
        Ok(Self { listeners: given.open()?, next: 0 })
    }

    /// Where it listens, in the order of the settings.
    pub(super) fn places(&self) -> io::Result<Vec<Listen>> {
        self.listeners.iter().map(Listener::place).collect()
    }

    pub(super) async fn accept(&mut self) -> io::Result<IncomingConnection> {
        poll_fn(|cx| {
            let (before, from) =
                self.listeners.split_at_checked(self.next).unwrap_or((&[], &self.listeners));
            for (at, listener) in (self.next..).zip(from).chain((0..).zip(before)) {
                if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                    self.next = at + 1;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl IncomingConnection {
    pub(super) fn open(self) -> Box<dyn ClientIo> {
        match self {
            Self::Tcp(stream) => {
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            #[cfg(unix)]
            Self::Unix(stream) => Box::new(stream),
        }
    }

    /// Sends these bytes if the socket takes them at once, and closes the connection.
    pub(super) fn refuse(self, words: &[u8]) {
        let _ = match self {
            Self::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
            #[cfg(unix)]
            Self::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
        };
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // On Windows this would let another program take the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Binds a port.
///
/// # Errors
/// Names the address, and what to do.
pub(super) async fn tcp(address: SocketAddr) -> Result<TcpListener, StartError> {
    let error = match bind(address) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let claims = probe::version(reachable(address), WHO).await;
            return Err(StartError::Taken { address, claims, source: error });
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; choose a higher one with `--port`"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose one of its own with `--host`"
        }
        _ => "check the address with `ibeam config show`",
    };
    Err(StartError::new(format!("cannot listen on {address}"), hint).because(error))
}

/// The URL for clients on this machine.
pub fn url(place: &Listen, tls: bool) -> String {
    let Listen::Tcp(address) = place else { return place.to_string() };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", reachable(*address))
}

/// An address that can be connected to.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None of them is accepted, so all have to fit into the system's queue.
    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn burst_of_connections_waits_to_be_accepted() {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let burst: Result<Vec<_>, _> = (0..400)
            .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)))
            .collect();
        assert!(burst.is_ok(), "{:?}", burst.err());
    }
}
