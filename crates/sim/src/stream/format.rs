//! The formats in which bodies and stream ends are written.

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use ibeam_core::codec::connect::{self, ConnectError};
use ibeam_proto::Wire as _;

use crate::protobuf::{put_bytes_field, put_varint_field};

/// The format of a request body, and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Proto,
    /// `application/connect+proto`: enveloped.
    Connect,
    /// `application/grpc-web+proto`: enveloped, with a trailer frame.
    GrpcWeb,
}

impl BodyFormat {
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

    /// The message inside an enveloped body; other bodies unchanged.
    pub(crate) fn payload(self, body: &[u8]) -> &[u8] {
        match self {
            Self::Json | Self::Proto => body,
            Self::Connect | Self::GrpcWeb => {
                let Some((&[_, a, b, c, d], rest)) = body.split_first_chunk::<5>() else {
                    return &[];
                };
                rest.get(..u32::from_be_bytes([a, b, c, d]) as usize).unwrap_or_default()
            }
        }
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
    let mut any = BytesMut::new();
    put_bytes_field(&mut any, 1, b"type.googleapis.com/aiserver.v1.ErrorDetails");
    put_bytes_field(&mut any, 2, &detail.to_proto().to_wire());
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

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
