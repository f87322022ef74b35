//! Where clients come in: a port, or a socket in the file system.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use tokio::net::{TcpListener, TcpStream};

use super::{StartError, client::Io};
use crate::config::Listen;

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(super::unix::Socket),
}

/// A connection that nobody has looked at yet.
pub(super) enum Incoming {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Listener {
    pub(super) async fn bind(listen: &Listen) -> Result<Self, StartError> {
        match listen {
            Listen::Tcp(address) => tcp(*address).await.map(Self::Tcp),
            #[cfg(unix)]
            Listen::Unix(path) => super::unix::Socket::bind(path).map(Self::Unix),
            #[cfg(not(unix))]
            Listen::Unix(path) => Err(StartError::new(
                format!("cannot listen on {}", path.display()),
                "this system has no Unix sockets; use an address and a port",
            )),
        }
    }

    /// Where it listens; with port 0 the system has chosen one.
    pub(super) fn place(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(listener) => Ok(Listen::Tcp(listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(socket) => Ok(Listen::Unix(socket.path().to_path_buf())),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Incoming::Tcp(stream)),
            #[cfg(unix)]
            Self::Unix(socket) => socket.accept().await.map(Incoming::Unix),
        }
    }
}

impl Incoming {
    pub(super) fn open(self) -> Box<dyn Io> {
        match self {
            Self::Tcp(stream) => {
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            #[cfg(unix)]
            Self::Unix(stream) => Box::new(stream),
        }
    }

    /// Says these words if the socket takes them at once, and hangs up.
    pub(super) fn refuse(self, words: &[u8]) {
        let _ = match self {
            Self::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
            #[cfg(unix)]
            Self::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
        };
    }
}

/// Binds a port.
///
/// # Errors
/// Names the address, and what to do.
pub(super) async fn tcp(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
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
        };
        StartError::new(format!("cannot listen on {address}"), hint).because(error)
    })
}
