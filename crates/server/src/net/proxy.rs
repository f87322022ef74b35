//! Ways through a proxy: which one, if any, and the tunnel through it.
//!
//! Credentials stay inside [`Intercept`] and are not in its `Debug` output; messages name the proxy
//! by host and port only.

use std::{pin::Pin, sync::Arc, task};

use http::Uri;
use hyper_util::{
    client::{
        legacy::connect::{
            HttpConnector,
            proxy::{SocksV5, Tunnel},
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use super::{
    chain,
    connect::{BoxIo, DialError, Host, server_name},
    tls::{Alpn, Tls},
};

/// The proxy rules of the environment, or of the user.
#[derive(Clone, Debug, Default)]
pub struct Proxy(Option<Arc<Matcher>>);

impl Proxy {
    /// `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case, as curl reads them.
    #[must_use]
    pub fn from_env() -> Self {
        Self(Some(Arc::new(Matcher::from_env())))
    }

    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// One proxy for every host but those in the comma list `except`.
    #[must_use]
    pub fn fixed(url: &str, except: &str) -> Self {
        Self(Some(Arc::new(Matcher::builder().all(url).no(except).build())))
    }

    /// The name of the proxy for `host`, without a password.
    #[must_use]
    pub fn name(&self, host: &Host) -> Option<String> {
        let via = self.route(host)?;
        let scheme = via.uri().scheme_str().unwrap_or("http");
        let port = via.uri().port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{scheme}://{}{port}", via.uri().host().unwrap_or_default()))
    }

    /// The proxy for `host`. Loopback never goes through one, nor does plain http,
    /// which is allowed for loopback only.
    pub(super) fn route(&self, host: &Host) -> Option<Intercept> {
        if !host.is_tls() || host.is_loopback() {
            return None;
        }
        self.0.as_ref()?.intercept(&host.uri("/"))
    }
}

/// A byte stream to `host` through the proxy.
pub(super) async fn tunnel(
    via: &Intercept,
    tcp: HttpConnector,
    tls: &Tls,
    host: &Host,
) -> Result<BoxIo, DialError> {
    let proxy = via.uri().clone();
    let name = format!(
        "{}:{}",
        proxy.host().unwrap_or_default(),
        proxy.port_u16().map_or_else(|| "default port".to_owned(), |port| port.to_string())
    );
    let failed = |error: &(dyn std::error::Error + 'static)| {
        DialError::Proxy(format!("proxy {name}: {}", chain(error)))
    };
    // The tunnel wants the port spelled out.
    let target = host.uri_with_port();
    match proxy.scheme_str() {
        Some("socks5" | "socks5h") => {
            let mut socks =
                SocksV5::new(proxy.clone(), tcp).local_dns(proxy.scheme_str() == Some("socks5"));
            if let Some((user, password)) = via.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            let io = socks.call(target).await.map_err(|error| failed(&error))?;
            Ok(Box::new(io.into_inner()))
        }
        Some("https") => {
            let config = tls.client(Alpn::Http1).map_err(|error| failed(&error))?;
            let mut tunnel = Tunnel::new(proxy.clone(), TlsDial { tcp, config });
            if let Some(auth) = via.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            let io = tunnel.call(target).await.map_err(|error| failed(&error))?;
            Ok(Box::new(io.into_inner()))
        }
        Some("http") | None => {
            let mut tunnel = Tunnel::new(proxy.clone(), tcp);
            if let Some(auth) = via.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            let io = tunnel.call(target).await.map_err(|error| failed(&error))?;
            Ok(Box::new(io.into_inner()))
        }
        Some(other) => {
            Err(DialError::Proxy(format!("proxy {name}: `{other}` proxies are not supported")))
        }
    }
}

/// Reaches a proxy that is itself behind TLS.
#[derive(Clone)]
struct TlsDial {
    tcp: HttpConnector,
    config: Arc<ClientConfig>,
}

impl Service<Uri> for TlsDial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> task::Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, proxy: Uri) -> Self::Future {
        let name = server_name(proxy.host().unwrap_or_default());
        // The default port of an https proxy is 443, as `HttpConnector` knows.
        let connecting = self.tcp.call(proxy);
        let connector = TlsConnector::from(Arc::clone(&self.config));
        Box::pin(async move {
            let stream = connector.connect(name?, connecting.await?.into_inner()).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
