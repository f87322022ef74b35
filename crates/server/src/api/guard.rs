//! What every request passes: its id and log line, the checks that keep web pages out, CORS for
//! those that are allowed, the API key.

use std::{
    any::Any,
    future::{Future, poll_fn},
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, request::Parts,
    uri::Authority,
};
use ibeam_core::{
    challenge::CHALLENGE,
    error::{ErrorCode, TurnError},
    model::ids,
};
use tracing::Instrument as _;

use super::{
    ApiSettings, ConnectionHandle, GatewayService, Shared,
    error::{self, ApiDialect, ResponseFailure, RouteDialect},
    log::RequestLog,
};
use crate::keys::{Caller, KeyRefusal, Keys};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same under the name that Anthropic's SDKs read.
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const ASKS_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// How much of the path is kept while a request without a key waits, and of each header that matters.
const LONGEST: usize = 1024;

/// No method is as long as this; one that is longer is as unknown when it is cut.
const LONGEST_METHOD: usize = 32;

/// What probes and people may read without the key.
pub const OPEN_PATHS: [&str; 8] = [
    "/",
    "/health",
    "/health/live",
    "/health/ready",
    "/healthz",
    "/openapi.json",
    "/docs",
    "/api/hello",
];

/// The settings, made ready for checking.
pub(super) struct AccessRules {
    hosts: Vec<String>,
    /// A rebound name is a name: a `Host` that is an address cannot be one.
    any_address: bool,
    origins: Vec<String>,
    keys: Arc<Keys>,
}

impl AccessRules {
    pub(super) fn new(settings: &ApiSettings) -> Self {
        let lower = |list: &[String]| {
            list.iter()
                .map(|word| word.trim().trim_end_matches(['/', '.']).to_ascii_lowercase())
                .filter(|word| !word.is_empty())
                .collect()
        };
        Self {
            hosts: lower(&settings.allowed_hosts),
            any_address: settings.bind.is_some_and(|address| !address.is_loopback()),
            origins: lower(&settings.cors_origins),
            keys: Arc::clone(&settings.keys),
        }
    }

    fn host(&self, authority: &str) -> bool {
        let host = without_port(authority).trim_end_matches('.').to_ascii_lowercase();
        if host == "localhost" || host.ends_with(".localhost") {
            return true;
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) if address.is_loopback() || self.any_address => true,
            Ok(_) | Err(_) => self.hosts.contains(&host),
        }
    }

    fn origin(&self, origin: &str, authority: Option<&str>) -> PageOrigin {
        let origin = origin.to_ascii_lowercase();
        if self.origins.iter().any(|allowed| *allowed == "*" || *allowed == origin) {
            return PageOrigin::Listed;
        }
        let own = origin.split_once("://").map(|(_, rest)| rest);
        match (own, authority) {
            (Some(own), Some(authority)) if own.eq_ignore_ascii_case(authority) => PageOrigin::Own,
            _ => PageOrigin::Foreign,
        }
    }

    /// Where a request without an `PageOrigin` comes from. A page's images, scripts and links
    /// have none, but browsers say that it is another site's page.
    fn unsaid(&self, parts: &Parts) -> PageOrigin {
        let says = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
        let elsewhere = matches!(says(FETCH_SITE), Some(b"cross-site" | b"same-site"));
        // A followed link may open what needs no key; the page that has the link does not see it.
        let link = says(FETCH_MODE) == Some(b"navigate") && OPEN_PATHS.contains(&parts.uri.path());
        let any = self.origins.iter().any(|allowed| allowed == "*");
        if elsewhere && !link && !any { PageOrigin::Foreign } else { PageOrigin::None }
    }

    /// The caller that the key in these headers belongs to.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, TurnError> {
        let (bearer, plain) = presented_keys(headers);
        self.keys.check(bearer, plain).map_err(|unknown| {
            let text = match unknown {
                KeyRefusal::Missing => {
                    "this gateway needs an API key, in `x-api-key` or `authorization` (Bearer); \
                     `ibeam keys add NAME` makes one"
                }
                KeyRefusal::Wrong => {
                    "the API key is wrong; use the one this gateway was configured with, \
                     or one of `ibeam keys`"
                }
            };
            TurnError::new(ErrorCode::InvalidApiKey, text)
        })
    }
}

/// The keys that a client sent, valid or not: the bearer token and `x-api-key`.
fn presented_keys(headers: &HeaderMap) -> (Option<&str>, Option<&str>) {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    (bearer, headers.get(API_KEY).and_then(|value| value.to_str().ok()))
}

/// Where a web page that calls comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageOrigin {
    /// From no page at all.
    None,
    /// From this gateway.
    Own,
    /// From a place the user listed: it gets CORS headers.
    Listed,
    Foreign,
}

/// The guard of one route.
pub(super) struct RouteGuard<S> {
    pub(super) shared: Shared<S>,
    pub(super) dialect: RouteDialect,
}

impl<S> Clone for RouteGuard<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), dialect: self.dialect }
    }
}

pub(super) async fn guard<S: GatewayService>(
    State(RouteGuard { shared, dialect }): State<RouteGuard<S>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, mut body) = request.into_parts();
    if let Some(head) = parts.method.as_str().get(..LONGEST_METHOD) {
        parts.method = Method::from_bytes(head.as_bytes()).unwrap_or_default();
    }
    let id = request_id(&parts.headers)
        .unwrap_or_else(|| format!("req_{}", ids::hex(&shared.service.random())));
    let log = Arc::new(RequestLog::new(id.clone(), parts.method.clone(), parts.uri.path()));
    let mut origin_header = parts.headers.get(header::ORIGIN).cloned();
    let origin = match &origin_header {
        None => shared.rules.unsaid(&parts),
        Some(value) => {
            let own = names(&parts).into_iter().flatten().next();
            shared.rules.origin(value.to_str().unwrap_or("null"), own)
        }
    };

    let dialect = dialect.of(&parts.headers);
    let checked = check(&shared.rules, &parts, origin);
    let keyless = match parts.extensions.get::<ConnectionHandle>().cloned() {
        Some(ConnectionHandle(line)) if checked.is_err() || is_open(&parts) => {
            // It may wait for long, and without a key it may not hold much.
            parts = lean(&parts);
            body = Body::empty();
            origin_header = parts.headers.get(header::ORIGIN).cloned();
            line.keyless().await
        }
        Some(ConnectionHandle(line)) => {
            if let Ok(caller) = &checked {
                line.showed_key(caller);
            }
            None
        }
        None => None,
    };
    let mut response = match checked {
        Err(failure) => error::response(&failure),
        Ok(_) if is_preflight(&parts, origin) => preflight(&parts.headers),
        Ok(caller) => {
            if let Some(name) = &caller.name {
                log.key(name);
            }
            parts.extensions.insert(caller);
            parts.extensions.insert(dialect);
            parts.extensions.insert(Arc::clone(&log));
            let span = tracing::info_span!("request", request_id = %id);
            let run = next.run(Request::from_parts(parts, body)).instrument(span);
            unpanicked(run).await
        }
    };

    if let Some(failure) = response.extensions_mut().remove::<ResponseFailure>() {
        error::render(&mut response, &failure, dialect, &id);
        log.failed(failure);
    }
    log.status(response.status().as_u16());
    if let Some(permit) = keyless {
        response.extensions_mut().insert(permit);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(id) {
        if dialect == ApiDialect::Anthropic {
            headers.insert(ANTHROPIC_REQUEST_ID, id.clone());
        }
        headers.insert(REQUEST_ID, id);
    }
    if let (PageOrigin::Listed, Some(origin)) = (origin, origin_header) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(
                "x-request-id, x-ibeam-controls, x-ibeam-session, x-ibeam-tokens, retry-after, \
                 x-should-retry",
            ),
        );
    }
    response
}

/// What the answer to a request without a key depends on, in memory of its own: what the client
/// sent is in one piece with the whole head.
fn lean(parts: &Parts) -> Parts {
    const HEADERS: [HeaderName; 5] = [
        header::ORIGIN,
        header::ACCESS_CONTROL_REQUEST_METHOD,
        header::ACCESS_CONTROL_REQUEST_HEADERS,
        ASKS_PRIVATE_NETWORK,
        HeaderName::from_static(CHALLENGE),
    ];
    let (mut kept, ()) = http::Request::new(()).into_parts();
    kept.method = parts.method.clone();
    kept.version = parts.version;
    let path = parts.uri.path();
    kept.uri = path.get(..LONGEST).unwrap_or(path).parse().unwrap_or_default();
    let copy = |value: &[u8]| {
        let value = value.get(..LONGEST).is_none().then_some(value)?;
        HeaderValue::from_bytes(value).ok()
    };
    for name in HEADERS {
        if let Some(value) = parts.headers.get(&name).and_then(|value| copy(value.as_bytes())) {
            kept.headers.insert(name, value);
        }
    }
    let name = names(parts).into_iter().flatten().next();
    if let Some(host) = name.and_then(|name| copy(name.as_bytes())) {
        kept.headers.insert(header::HOST, host);
    }
    kept
}

fn check(rules: &AccessRules, parts: &Parts, origin: PageOrigin) -> Result<Caller, TurnError> {
    // RFC 9112, section 3.2, and RFC 9113, section 8.3.1. What is older than the header may
    // leave it out, and is not a page then.
    let headers = parts.headers.get_all(header::HOST).iter().count();
    let nameless = headers == 0
        && match parts.version {
            Version::HTTP_09 | Version::HTTP_10 => false,
            Version::HTTP_11 => true,
            _ => parts.uri.authority().is_none(),
        };
    if headers > 1 || nameless {
        let what = if nameless { "has no `Host` header" } else { "has several `Host` headers" };
        return Err(TurnError::new(
            ErrorCode::InvalidValue,
            format!("this request {what}; send exactly one"),
        )
        .param("host"));
    }
    if !names(parts).into_iter().flatten().all(|name| rules.host(name)) {
        return Err(TurnError::new(
            ErrorCode::ForbiddenOrigin,
            "the `Host` of this request is not one of the gateway's names; \
             use localhost, or add the name to the setting `allowed_hosts`",
        ));
    }
    if origin == PageOrigin::Foreign {
        return Err(TurnError::new(
            ErrorCode::ForbiddenOrigin,
            "web pages of this origin may not use the gateway; \
             add the origin to the setting `cors_origins` to allow it",
        ));
    }
    if is_open(parts) {
        return Ok(Caller::default());
    }
    rules.caller(&parts.headers)
}

/// Needs no key.
fn is_open(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS || OPEN_PATHS.contains(&parts.uri.path())
}

fn is_preflight(parts: &Parts, origin: PageOrigin) -> bool {
    origin == PageOrigin::Listed
        && parts.method == Method::OPTIONS
        && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS"),
    );
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        wanted.unwrap_or_else(|| HeaderValue::from_static("authorization, content-type")),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if asked.contains_key(ASKS_PRIVATE_NETWORK) {
        headers.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}

/// A bug in one handler is a 500 for one client.
async fn unpanicked(run: impl Future<Output = Response>) -> Response {
    let mut run = pin!(run);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(panicked(panic.as_ref())))
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    let text = panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic");
    let message = "internal error; the gateway's log has the details";
    error::response(&TurnError::new(ErrorCode::Internal, message).cause(text))
}

/// The names the client connected to, as it says: the one in the target, which HTTP/2 and
/// requests to a proxy have, and `Host`. Where there are two, neither vouches for the other.
fn names(parts: &Parts) -> [Option<&str>; 2] {
    let target = parts.uri.authority().map(Authority::as_str);
    // A value that is not text is not one of our names.
    let host = parts.headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    [target, host]
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colons of a bare `[::1]` are its own.
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let sane = (1..=128).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    sane.then(|| id.to_owned())
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
