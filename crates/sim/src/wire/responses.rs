//! Responses: the body type, unary answers in the format of the request, errors.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use ibeam_core::codec::connect::{self, Code, ConnectError, CursorError};
use ibeam_proto::Wire;
use ibeam_proto::aiserver::ErrorKind;
use tokio::sync::mpsc;

use crate::{
    scenario::Refuse,
    stream::{BodyFormat, Chunk, trailer_frame},
};

/// A response body: whole or streamed.
#[derive(Debug)]
pub(crate) enum SimBody {
    Whole(Bytes),
    Stream(mpsc::Receiver<Chunk>),
}

pub(crate) type SimResponse = Response<SimBody>;

impl Body for SimBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(chunks) => chunks.poll_recv(cx).map(|chunk| {
                chunk.map(|chunk| {
                    chunk.map(Frame::data).map_err(|code| h2::Reason::from(code.0).into())
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(crate) fn whole(status: StatusCode, mime: HeaderValue, body: impl Into<Bytes>) -> SimResponse {
    let mut reply = Response::new(SimBody::Whole(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, mime);
    reply
}

pub(crate) fn json(status: StatusCode, body: &serde_json::Value) -> SimResponse {
    whole(status, BodyFormat::Json.mime(), body.to_string())
}

/// The refusal of an unknown content type.
pub(crate) fn unsupported() -> SimResponse {
    whole(StatusCode::UNSUPPORTED_MEDIA_TYPE, BodyFormat::Json.mime(), "{}")
}

/// A unary answer in the format of the request.
pub(crate) fn unary<M: Wire>(
    form: BodyFormat,
    message: &M,
    as_json: &serde_json::Value,
    enveloped: bool,
) -> SimResponse {
    match form {
        BodyFormat::Json => json(StatusCode::OK, as_json),
        BodyFormat::Proto if enveloped => {
            whole(StatusCode::OK, form.mime(), connect::encode(message))
        }
        BodyFormat::Proto => whole(StatusCode::OK, form.mime(), message.to_wire()),
        BodyFormat::Connect => {
            let parts = [connect::encode(message), connect::end_frame(None)];
            whole(StatusCode::OK, form.mime(), parts.concat())
        }
        BodyFormat::GrpcWeb => {
            let parts = [connect::encode(message), trailer_frame(None)];
            whole(StatusCode::OK, form.mime(), parts.concat())
        }
    }
}

/// A failed call: the status of its code and the error as JSON.
pub(crate) fn error(error: &ConnectError) -> SimResponse {
    let status = StatusCode::from_u16(error.code.http_status());
    json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error.to_json())
}

/// The same in the format of the request: gRPC-Web has errors in trailers, with status 200.
pub(crate) fn error_in(form: BodyFormat, failure: &ConnectError) -> SimResponse {
    match form {
        BodyFormat::GrpcWeb => whole(StatusCode::OK, form.mime(), trailer_frame(Some(failure))),
        BodyFormat::Json | BodyFormat::Proto | BodyFormat::Connect => error(failure),
    }
}

/// A stream that ends at once with an error, after status 200.
pub(crate) fn ended(form: BodyFormat, failure: &ConnectError) -> SimResponse {
    let frame = match form {
        BodyFormat::GrpcWeb => trailer_frame(Some(failure)),
        BodyFormat::Json | BodyFormat::Proto | BodyFormat::Connect => {
            connect::end_frame(Some(failure))
        }
    };
    whole(StatusCode::OK, form.mime(), frame)
}

/// A refusal in the format of the request. One that has only a status comes from a proxy in
/// front of the service, which speaks plain HTTP.
pub(crate) fn refusal_in(form: BodyFormat, refuse: &Refuse) -> SimResponse {
    match &refuse.error.kind {
        Some(_) if form == BodyFormat::GrpcWeb => error_in(form, &refuse.connect_error()),
        _ => refusal(refuse),
    }
}

pub(crate) fn refusal(refuse: &Refuse) -> SimResponse {
    let status = StatusCode::from_u16(refuse.status);
    let mut reply =
        json(status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE), &refuse.connect_error().to_json());
    if let Some(seconds) = refuse.retry_after {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    reply
}

/// An unknown path: Connect's `unimplemented`, with status 404.
pub(crate) fn unknown_path(path: &str) -> SimResponse {
    let error = ConnectError::new(Code::Unimplemented, format!("{path} is not implemented"));
    json(StatusCode::NOT_FOUND, &error.to_json())
}

/// An error of Cursor's own kind.
pub(crate) fn cursor_error(code: Code, kind: ErrorKind, title: &str, detail: &str) -> ConnectError {
    ConnectError {
        code,
        message: "Error".to_owned(),
        detail: Some(Box::new(CursorError {
            kind,
            title: title.to_owned(),
            detail: detail.to_owned(),
            retryable: Some(false),
            ..CursorError::default()
        })),
    }
}

/// Reads a body up to a limit; `None` when it is longer or incomplete.
pub(crate) async fn read_body<B>(body: B, limit: usize) -> Option<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
{
    use http_body_util::BodyExt as _;
    let mut body = body;
    let mut out = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if out.len() + data.len() > limit {
                return None;
            }
            out.extend_from_slice(&data);
        }
    }
    Some(out.freeze())
}
