//! Opens connections: TCP with or without TLS and proxy, or a pipe in memory. Everything above sees
//! a byte stream and its protocol.

use std::{
    fmt,
    net::IpAddr,
    pin::Pin,
    str::FromStr as _,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{
    Uri,
    uri::{Authority, Scheme},
};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use super::{
    chain,
    hosts::Reach,
    proxy::{self, Proxy},
    tls::{self, Alpn, Tls, TlsFault},
};

/// An origin: where to connect, and whether to wrap it in TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    pub scheme: Scheme,
    pub authority: Authority,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an origin such as `https://host` or `http://127.0.0.1:1234`")]
pub struct HostError(String);

/// Why connecting failed. Nothing of a request has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    #[error("timed out")]
    Timeout,
    #[error("{0}")]
    Failed(String),
    /// The TLS handshake with the peer failed.
    #[error("{why}")]
    Tls { fault: TlsFault, why: String },
    /// The proxy from the environment failed.
    #[error("{0}")]
    Proxy(String),
    /// The peer does not support HTTP/2.
    #[error("the server does not speak HTTP/2 ({0})")]
    NotH2(String),
}

/// The two ways to reach a peer.
#[derive(Clone)]
pub enum Connector {
    Tcp {
        tls: Arc<Tls>,
        proxy: Proxy,
        connect_timeout: Duration,
        /// The hosts that may be dialled.
        reach: Reach,
    },
    /// Each call returns the near end of a new pipe. The host is ignored, and TLS is left out.
    Memory(Arc<dyn Fn() -> DuplexStream + Send + Sync>),
}

/// A stream of bytes, whatever is under it.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub type BoxIo = Box<dyn ByteStream>;

/// An open connection.
pub struct Io {
    stream: BoxIo,
    /// What ALPN gave; without TLS, what was asked for.
    pub protocol: Alpn,
}

// === impl Host ===

impl Host {
    /// Reads `scheme://host[:port]`.
    ///
    /// # Errors
    /// It has another scheme, a user name, a path or a query.
    pub fn parse(url: &str) -> Result<Self, HostError> {
        let bad = || HostError(url.to_owned());
        let uri = Uri::from_str(url.trim()).map_err(|_| bad())?;
        if uri.path_and_query().is_some_and(|path| path != "/") {
            return Err(bad());
        }
        Self::of(&uri).ok_or_else(bad)
    }

    /// The origin of a URI.
    #[must_use]
    pub fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme().filter(|s| **s == Scheme::HTTPS || **s == Scheme::HTTP)?;
        let authority = uri.authority().filter(|a| !a.as_str().contains('@'))?;
        Some(Self { scheme: scheme.clone(), authority: authority.clone() })
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The bare name: an IPv6 address comes without its brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// A URI on this host. `path` is one of ours and begins with a slash; what is
    /// no path becomes `/`.
    #[must_use]
    pub fn uri(&self, path: &str) -> Uri {
        self.build(&self.authority, path)
    }

    pub(super) fn uri_with_port(&self) -> Uri {
        let full = format!("{}:{}", self.authority.host(), self.port());
        self.build(&full.parse().unwrap_or_else(|_| self.authority.clone()), "/")
    }

    fn build(&self, authority: &Authority, path: &str) -> Uri {
        let parts = |path| {
            Uri::builder()
                .scheme(self.scheme.clone())
                .authority(authority.clone())
                .path_and_query(path)
                .build()
        };
        parts(path).or_else(|_| parts("/")).unwrap_or_default()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

// === impl Connector ===

impl Connector {
    /// A connection to `host`, meant for the given protocol. Check
    /// [`Io::protocol`]: a TLS peer may have chosen the other one.
    ///
    /// # Errors
    /// The connection cannot be opened.
    pub async fn connect(&self, host: &Host, alpn: Alpn) -> Result<Io, DialError> {
        match self {
            Self::Memory(dial) => Ok(Io { stream: Box::new(dial()), protocol: alpn }),
            Self::Tcp { reach, .. } if !reach.has(host) => Err(DialError::Failed(format!(
                "{host} is not one of the hosts that ibeam may contact; `ibeam audit` lists them"
            ))),
            Self::Tcp { tls, proxy, connect_timeout, .. } => {
                let dial = dial(host, alpn, tls, proxy, *connect_timeout);
                tokio::time::timeout(*connect_timeout, dial)
                    .await
                    .unwrap_or(Err(DialError::Timeout))
            }
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { proxy, connect_timeout, reach, .. } => f
                .debug_struct("Tcp")
                .field("reach", reach)
                .field("proxy", proxy)
                .field("connect_timeout", connect_timeout)
                .finish_non_exhaustive(),
            Self::Memory(_) => f.write_str("Memory"),
        }
    }
}

async fn dial(
    host: &Host,
    alpn: Alpn,
    tls: &Tls,
    proxy: &Proxy,
    connect_timeout: Duration,
) -> Result<Io, DialError> {
    let mut tcp = tcp_connector(connect_timeout);
    let stream: BoxIo = match proxy.route(host) {
        Some(via) => proxy::tunnel(&via, tcp, tls, host).await?,
        None => {
            let io = tcp
                .call(host.uri_with_port())
                .await
                .map_err(|error| DialError::Failed(format!("{host}: {}", chain(&error))))?;
            Box::new(io.into_inner())
        }
    };
    if !host.is_tls() {
        return Ok(Io { stream, protocol: alpn });
    }
    let failed = |fault: TlsFault, error: &(dyn std::error::Error + 'static)| DialError::Tls {
        fault,
        why: format!("TLS with {host}: {}", chain(error)),
    };
    let config = tls.client(alpn).map_err(|error| failed(TlsFault::Setup, &error))?;
    let name = server_name(host.name()).map_err(|error| failed(TlsFault::Setup, &error))?;
    let stream = TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| failed(TlsFault::of(&error), &error))?;
    let h2 = tls::chose_h2(stream.get_ref().1.alpn_protocol());
    let protocol = if h2 { Alpn::Http2 } else { Alpn::Http1 };
    Ok(Io { stream: Box::new(stream), protocol })
}

fn tcp_connector(connect_timeout: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Small frames in both directions: Nagle and delayed ACKs would add 40 ms.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp
}

pub(super) fn server_name(
    name: &str,
) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    ServerName::try_from(name.trim_start_matches('[').trim_end_matches(']').to_owned())
}

// === impl Io ===

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl Connection for Io {
    fn connected(&self) -> Connected {
        match self.protocol {
            Alpn::Http2 => Connected::new().negotiated_h2(),
            Alpn::Http1 => Connected::new(),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
