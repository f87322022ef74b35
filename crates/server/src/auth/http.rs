//! Carries the requests of the sign-in machines to Cursor.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use ibeam_core::{
    auth::{AuthOutcome, AuthRequest, PATIENCE},
    redact,
};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    net::{
        connect::{Connector, Host},
        hosts,
        http::{Bounds, HttpClient},
        tls::Alpn,
    },
    tasks::Tasks,
};

/// Tokens are 1 kB; a page that says why not is not read to its end.
const BODY: usize = 256 * 1024;

const BOUNDS: Bounds = Bounds { timeout: PATIENCE, max_body: BODY };

/// The sign-in service. Clones share its connections.
#[derive(Clone, Debug)]
pub struct AuthHttp {
    client: HttpClient,
    host: Host,
}

/// An outcome, and what time it was there, in seconds since 1970.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) outcome: AuthOutcome,
    pub(super) date: Option<u64>,
}

/// Why a page was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("HTTP status {0}")]
    Status(u16),
    #[error("{0}")]
    Unreachable(String),
}

impl AuthHttp {
    #[must_use]
    pub fn new(connector: &Connector, host: &Host, tasks: &Tasks) -> Self {
        let client = HttpClient::new(connector.clone(), Alpn::Http1, tasks);
        Self { client, host: host.clone() }
    }

    /// The origin of the page where users sign in.
    #[must_use]
    pub fn site(&self) -> String {
        hosts::site(&self.host).to_string()
    }

    pub(super) async fn ask(&self, request: AuthRequest) -> Heard {
        let AuthRequest { body, path, bearer } = request;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let body =
            body.map_or_else(Bytes::new, |body| Bytes::from(body.expose_secret().to_owned()));
        match self.call(method, path.expose_secret(), bearer.as_ref(), body).await {
            Ok(answer) => Heard { date: date(answer.headers()), outcome: outcome(answer) },
            Err(why) => Heard { outcome: AuthOutcome::Unreachable(why), date: None },
        }
    }

    /// Asks for what an account page says, as JSON.
    ///
    /// # Errors
    /// There is no such answer.
    pub async fn page(
        &self,
        path: &str,
        token: &SecretString,
    ) -> Result<serde_json::Value, PageError> {
        let answer = self.call(Method::GET, path, Some(token), Bytes::new()).await;
        let answer = answer.map_err(PageError::Unreachable)?;
        match answer.status().as_u16() {
            200 => serde_json::from_slice(answer.body())
                .map_err(|_| PageError::Unreachable("the answer is not JSON".to_owned())),
            status => Err(PageError::Status(status)),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        bearer: Option<&SecretString>,
        body: Bytes,
    ) -> Result<Response<Bytes>, String> {
        let uri = format!("{}://{}{path}", self.host.scheme, self.host.authority);
        let json = HeaderValue::from_static("application/json");
        let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, &json);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, json);
        }
        if let Some(bearer) = bearer {
            let text = format!("Bearer {}", bearer.expose_secret());
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| "the token has characters that a header cannot carry".to_owned())?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        // The address may be at fault, and with a poll it holds the proof: no details.
        let request = request.body(body).map_err(|_| "the address cannot be used".to_owned())?;
        let unreachable = |error: crate::net::http::HttpError| {
            let text = format!("{} cannot be reached: {error}", self.host.authority);
            redact::text(&text).into_owned()
        };
        self.client.call(request, BOUNDS).await.map_err(unreachable)
    }
}

fn outcome(answer: Response<Bytes>) -> AuthOutcome {
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers());
    AuthOutcome::Answer { status, body: answer.into_body(), retry_after }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn date(headers: &HeaderMap) -> Option<u64> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}
