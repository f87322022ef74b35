//! The checks of a request before it reaches a room.

use std::{convert::Infallible, fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};

use super::{Rooms, served::RoomVisit};

/// The body of a response.
pub(super) type HostBody = UnsyncBoxBody<Bytes, Infallible>;

/// Checks requests and finds their rooms.
pub(super) struct HostEntrance {
    rooms: Arc<Rooms>,
    /// The authorities of this server.
    authorities: [String; 2],
}

impl HostEntrance {
    /// Of every room's path.
    pub(super) const PREFIX: &str = "/mcp/";

    pub(super) fn new(rooms: &Arc<Rooms>, port: u16) -> Self {
        let authorities = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Self { rooms: Arc::clone(rooms), authorities }
    }

    /// Checks a request and answers it.
    #[cfg(test)]
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<HostBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match self.let_in(&request) {
            Ok(visit) => visit.answer(request).await,
            Err(refusal) => refusal.response(),
        }
    }

    /// A web page with a name that resolves to 127.0.0.1 sends that name, and every web page sends
    /// its origin. Neither learns whether a room exists.
    pub(super) fn let_in<B>(&self, request: &Request<B>) -> Result<RoomVisit, EntranceRefusal> {
        let headers = request.headers();
        if !self.is_meant(request) {
            let text = "the `Host` header is not one of the server's names";
            return Err(EntranceRefusal(StatusCode::FORBIDDEN, text));
        }
        let origin = headers.get(header::ORIGIN);
        if origin.is_some_and(|origin| !self.is_own_origin(origin)) {
            let text = "web pages may not use this server";
            return Err(EntranceRefusal(StatusCode::FORBIDDEN, text));
        }
        let name = request.uri().path().strip_prefix(Self::PREFIX);
        let Some(visit) = name.and_then(|name| self.rooms.visit(name)) else {
            return Err(EntranceRefusal(StatusCode::NOT_FOUND, "not found"));
        };
        if !bearer(headers).is_some_and(|bearer| visit.is_for(bearer)) {
            let text = "the bearer token is missing or wrong";
            return Err(EntranceRefusal(StatusCode::UNAUTHORIZED, text));
        }
        Ok(visit)
    }

    /// Whether all that names a server in the request names this one.
    fn is_meant<B>(&self, request: &Request<B>) -> bool {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let target = request.uri().authority();
        self.is_ours(host.as_bytes())
            && target.is_none_or(|name| self.is_ours(name.as_str().as_bytes()))
    }

    fn is_own_origin(&self, origin: &HeaderValue) -> bool {
        origin.as_bytes().strip_prefix(b"http://").is_some_and(|name| self.is_ours(name))
    }

    fn is_ours(&self, authority: &[u8]) -> bool {
        self.authorities.iter().any(|ours| ours.as_bytes().eq_ignore_ascii_case(authority))
    }
}

impl fmt::Debug for HostEntrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEntrance").field("rooms", &self.rooms).finish_non_exhaustive()
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, bearer) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(bearer.trim())
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntranceRefusal(pub(super) StatusCode, pub(super) &'static str);

impl EntranceRefusal {
    pub(super) fn response(self) -> Response<HostBody> {
        let Self(status, text) = self;
        let mut response = Response::new(Full::from(text).boxed_unsync());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, plain);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
