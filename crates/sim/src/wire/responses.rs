//! Responses: the body type, unary answers in the form the client asked for, errors.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use ibeam_core::codec::connect::{self, Code, ConnectError, CursorError};
use ibeam_proto::Wire;
use ibeam_proto::aiserver::{CustomErrorDetails, ErrorDetails, ErrorKind};
use tokio::sync::mpsc;

use crate::{
    protobuf::{put_bytes_field, put_varint_field},
    scenario::faults::{Refuse, ResetCode},
};

/// Chunks that wait for the peer's window. Four of 16 KiB keep a stream busy and a
/// thousand streams small.
pub(crate) const CHUNKS_CAP: usize = 4;

/// A piece of a streamed body, or the code with which the stream breaks.
pub(crate) type Chunk = Result<Bytes, ResetCode>;

/// A response body: all at once, or as it comes.
#[derive(Debug)]
pub(crate) enum SimBody {
    Whole(Bytes),
    Stream(mpsc::Receiver<Chunk>),
}

pub(crate) type Reply = Response<SimBody>;

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

/// How a request body is written, and so the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Proto,
    /// `application/connect+proto`: enveloped.
    Connect,
    /// `application/grpc-web+proto`: enveloped, with a trailer frame.
    GrpcWeb,
}

impl Form {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let mime = value.split(';').next().unwrap_or_default().trim();
        Some(match mime {
            "application/json" => Self::Json,
            "application/proto" | "application/x-protobuf" | "application/protobuf" => Self::Proto,
            "application/connect+proto" => Self::Connect,
            "application/grpc-web+proto" | "application/grpc-web" => Self::GrpcWeb,
            _ => return None,
        })
    }

    pub(crate) fn mime(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Proto => "application/proto",
            Self::Connect => "application/connect+proto",
            Self::GrpcWeb => "application/grpc-web+proto",
        })
    }
}

pub(crate) fn whole(status: StatusCode, mime: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(SimBody::Whole(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, mime);
    reply
}

pub(crate) fn json(status: StatusCode, body: &serde_json::Value) -> Reply {
    whole(status, Form::Json.mime(), body.to_string())
}

/// A unary answer, in the form of the request.
pub(crate) fn unary<M: Wire>(
    form: Form,
    message: &M,
    as_json: &serde_json::Value,
    enveloped: bool,
) -> Reply {
    match form {
        Form::Json => json(StatusCode::OK, as_json),
        Form::Proto if enveloped => whole(StatusCode::OK, form.mime(), connect::encode(message)),
        Form::Proto => whole(StatusCode::OK, form.mime(), message.to_wire()),
        Form::Connect => {
            let parts = [connect::encode(message), connect::end_frame(None)];
            whole(StatusCode::OK, form.mime(), parts.concat())
        }
        Form::GrpcWeb => {
            let parts = [connect::encode(message), trailer_frame(None)];
            whole(StatusCode::OK, form.mime(), parts.concat())
        }
    }
}

/// A failed call: the status of its code and the error as JSON.
pub(crate) fn error(error: &ConnectError) -> Reply {
    let status = StatusCode::from_u16(error.code.http_status());
    json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error.to_json())
}

/// The same in the form of the request: gRPC-Web has its errors in trailers, under 200.
pub(crate) fn error_in(form: Form, failure: &ConnectError) -> Reply {
    match form {
        Form::GrpcWeb => whole(StatusCode::OK, form.mime(), trailer_frame(Some(failure))),
        Form::Json | Form::Proto | Form::Connect => error(failure),
    }
}

/// A refusal in the form of the request. One that only has a status comes from something
/// in front of the service, which speaks plain HTTP.
pub(crate) fn refusal_in(form: Form, refuse: &Refuse) -> Reply {
    match &refuse.error.kind {
        Some(_) if form == Form::GrpcWeb => error_in(form, &refuse.connect_error()),
        _ => refusal(refuse),
    }
}

pub(crate) fn refusal(refuse: &Refuse) -> Reply {
    let status = StatusCode::from_u16(refuse.status);
    let mut reply =
        json(status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE), &refuse.connect_error().to_json());
    if let Some(seconds) = refuse.retry_after {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    reply
}

/// A path nobody serves: Connect's `unimplemented`, under HTTP 404.
pub(crate) fn unknown_path(path: &str) -> Reply {
    let error = ConnectError::new(Code::Unimplemented, format!("{path} is not implemented"));
    json(StatusCode::NOT_FOUND, &error.to_json())
}

/// An error of Cursor's own kind.
pub(crate) fn cursor_error(code: Code, kind: ErrorKind, title: &str, detail: &str) -> ConnectError {
    ConnectError {
        code,
        message: "Error".to_owned(),
        detail: Some(CursorError {
            kind,
            title: title.to_owned(),
            detail: detail.to_owned(),
            retryable: Some(false),
        }),
    }
}

/// The gRPC-Web end of a stream.
pub(crate) fn trailer_frame(error: Option<&ConnectError>) -> Bytes {
    let text = match error {
        None => "grpc-status: 0\r\n".to_owned(),
        Some(error) => {
            let mut text = format!(
                "grpc-status: {}\r\ngrpc-message: {}\r\n",
                error.code.grpc_number(),
                percent_encode(&error.message)
            );
            if let Some(status) = status_details(error) {
                text.push_str(&format!("grpc-status-details-bin: {status}\r\n"));
            }
            text
        }
    };
    connect::frame(0x80, text.as_bytes())
}

/// `google.rpc.Status` with Cursor's error as its only detail.
fn status_details(error: &ConnectError) -> Option<String> {
    let detail = error.detail.as_ref()?;
    let proto = ErrorDetails {
        error: detail.kind.into(),
        details: Some(CustomErrorDetails {
            title: detail.title.clone(),
            detail: detail.detail.clone(),
            is_retryable: detail.retryable,
            ..CustomErrorDetails::default()
        }),
        is_expected: Some(true),
    };
    let mut any = BytesMut::new();
    put_bytes_field(&mut any, 1, b"type.googleapis.com/aiserver.v1.ErrorDetails");
    put_bytes_field(&mut any, 2, &proto.to_wire());
    let mut status = BytesMut::new();
    put_varint_field(&mut status, 1, u64::from(error.code.grpc_number()));
    put_bytes_field(&mut status, 2, error.message.as_bytes());
    put_bytes_field(&mut status, 3, &any);
    Some(base64::engine::general_purpose::STANDARD_NO_PAD.encode(&status))
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Reads a body up to a limit; `None` when it is longer or breaks off.
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

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
