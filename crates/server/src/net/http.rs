//! A small HTTP client for whole requests: the model list, server settings, and the
//! HTTP/1.1 side of the Agent API. Streams over HTTP/2 have their own pool.

use std::{
    io::Read as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioIo, TokioTimer},
};
use tower_service::Service;

use super::{
    cause, chain,
    connect::{Connector, DialError, Host, Io},
    tls::Alpn,
};
use crate::tasks::Tasks;

/// A kept connection older than this is not trusted to be alive still.
const IDLE: Duration = Duration::from_secs(30);
/// Kept connections per host: a turn over HTTP/1.1 needs two.
const IDLE_PER_HOST: usize = 16;

/// The limits of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From the first byte of the request to the last of the answer.
    pub timeout: Duration,
    /// Of the answer's body, after inflating.
    pub max_body: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Nothing was sent.
    #[error(transparent)]
    Dial(DialError),
    #[error("no answer in time")]
    Timeout,
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the answer cannot be decompressed")]
    Gzip,
    /// The connection broke; whether the request was processed is unknown.
    #[error("{0}")]
    Broken(String),
}

/// Clones share the kept connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: Client<Dialer, Full<Bytes>>,
}

impl HttpClient {
    /// `alpn` is what TLS peers are offered. Without TLS it is always HTTP/1.1.
    #[must_use]
    pub fn new(connector: Connector, alpn: Alpn, tasks: &Tasks) -> Self {
        let inner = Client::builder(tasks.executor("upstream http"))
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(Dialer { connector, alpn });
        Self { inner }
    }

    /// Sends a request and reads the whole answer, inflated.
    ///
    /// # Errors
    /// No complete answer came within `bounds`. A status is not an error here.
    pub async fn call(
        &self,
        request: Request<Bytes>,
        bounds: Bounds,
    ) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let response = self.send(request).await?;
            let (head, body) = response.into_parts();
            let body = read_all(body, bounds.max_body).await?;
            let body = inflate(&head.headers, body, bounds.max_body)?;
            Ok(Response::from_parts(head, body))
        };
        tokio::time::timeout(bounds.timeout, exchange).await.unwrap_or(Err(HttpError::Timeout))
    }

    /// Sends a request and gives the answer as soon as its head is there. Dropping
    /// the future or the body ends the exchange.
    ///
    /// # Errors
    /// The request failed before the answer.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        self.inner.request(request.map(Full::new)).await.map_err(|error| {
            match cause::<DialError>(&error) {
                Some(dial) => HttpError::Dial(dial.clone()),
                None if error.is_connect() => HttpError::Dial(DialError::Failed(chain(&error))),
                None => HttpError::Broken(chain(&error)),
            }
        })
    }
}

/// A body of at most `max` bytes.
///
/// # Errors
/// It is longer, or the connection broke.
pub async fn read_all<B>(body: B, max: usize) -> Result<Bytes, HttpError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, max).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(HttpError::TooLarge(max)),
        Err(error) => Err(HttpError::Broken(chain(&*error))),
    }
}

/// Undoes gzip, which some deployments apply without saying so.
///
/// # Errors
/// It is not gzip, or too large.
pub fn inflate(headers: &http::HeaderMap, body: Bytes, max: usize) -> Result<Bytes, HttpError> {
    const MAGIC: [u8; 2] = [0x1f, 0x8b];
    let named = headers.get(header::CONTENT_ENCODING).is_some_and(|value| value == "gzip");
    if !body.starts_with(&MAGIC) || body.is_empty() {
        return if named && !body.is_empty() { Err(HttpError::Gzip) } else { Ok(body) };
    }
    let mut out = Vec::with_capacity(body.len().saturating_mul(3).min(max));
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::GzDecoder::new(&body[..])
        .take(limit)
        .read_to_end(&mut out)
        .map_err(|_| HttpError::Gzip)?;
    if out.len() > max { Err(HttpError::TooLarge(max)) } else { Ok(out.into()) }
}

#[derive(Clone, Debug)]
struct Dialer {
    connector: Connector,
    alpn: Alpn,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Io>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Io>, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { connector, alpn } = self.clone();
        Box::pin(async move {
            let host = Host::of(&uri)
                .ok_or_else(|| DialError::Failed("the address is not an origin".to_owned()))?;
            // Prior knowledge is for the stream pool; here cleartext is HTTP/1.1.
            let cleartext = !host.is_tls() || matches!(connector, Connector::Memory(_));
            let alpn = if cleartext { Alpn::Http1 } else { alpn };
            Ok(TokioIo::new(connector.connect(&host, alpn).await?))
        })
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
