//! Reading a request body up to a limit.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use ibeam_core::error::{ErrorCode, TurnError};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    bodies::{BodyEvicted, BodyShare},
    body_buffer::BodyBuffer,
    error,
};

/// How much of a body that is too large is still read, and thrown away. A client in
/// the middle of sending reads our answer only when it is done; a closed socket
/// would hide it.
const DRAIN_CAP: usize = 8 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Bytes a second that a body must have on average, once it had the time of some pauses. The
/// slowest connections are faster; a client that trickles bytes on purpose is not.
const PACE: u64 = 4 * 1024;
const PAUSES: u32 = 4;

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyReadError {
    Failed(TurnError),
    /// The client stopped sending and did not leave.
    Stalled,
}

impl From<TurnError> for BodyReadError {
    fn from(error: TurnError) -> Self {
        Self::Failed(error)
    }
}

/// Why reading stopped.
enum ReadStop {
    TooLarge,
    Evicted,
    Stalled,
    Cut,
}

impl From<BodyEvicted> for ReadStop {
    fn from(_: BodyEvicted) -> Self {
        Self::Evicted
    }
}

/// The whole body, in memory, and its share of that: up to a size, with pauses up to a
/// length.
///
/// # Errors
/// `RequestTooLarge` as soon as that is clear, `InvalidValue` for encodings we do
/// not read, `Unavailable` when there are too many at once, `Cancelled` when the client
/// hangs up, `Stalled` when it stops sending.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    (limit, pause): (usize, Duration),
    share: BodyShare,
) -> Result<(Bytes, BodyShare), BodyReadError> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(TurnError::new(
            ErrorCode::InvalidValue,
            "compressed request bodies are not supported; send plain JSON",
        )
        .param("content-encoding")
        .into());
    }
    let mut body = pin!(body);
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        // A client that asks first (`Expect`) has sent nothing yet.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large(limit).into());
    }
    // What there was of it is gone before the rest is thrown away.
    match collect(body.as_mut(), (limit, pause), share).await {
        Ok(whole) => Ok(whole),
        Err(ReadStop::TooLarge) => {
            drain(body).await;
            Err(too_large(limit).into())
        }
        Err(ReadStop::Evicted) => {
            drain(body).await;
            Err(no_room().into())
        }
        Err(ReadStop::Stalled) => Err(BodyReadError::Stalled),
        Err(ReadStop::Cut) => {
            Err(TurnError::new(ErrorCode::Cancelled, "the request body was cut off").into())
        }
    }
}

async fn collect(
    mut body: Pin<&mut Body>,
    (limit, pause): (usize, Duration),
    mut share: BodyShare,
) -> Result<(Bytes, BodyShare), ReadStop> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
    let mut buffer = BodyBuffer::new(announced);
    let began = Instant::now();
    loop {
        let due = (Instant::now() + pause).min(began + pause * PAUSES + time_for(buffer.len()));
        let frame = tokio::select! {
            frame = timeout_at(due, body.frame()) => frame.map_err(|_| ReadStop::Stalled)?,
            () = share.evicted() => return Err(ReadStop::Evicted),
        };
        let Some(frame) = frame else { break };
        let Ok(frame) = frame else { return Err(ReadStop::Cut) };
        let Ok(data) = frame.into_data() else { continue };
        if buffer.len().saturating_add(data.len()) > limit {
            return Err(ReadStop::TooLarge);
        }
        share.grow(data.len())?;
        buffer.push(data);
    }
    share.complete()?;
    Ok((buffer.finish(), share))
}

/// What this much of a body may take at the slowest pace.
fn time_for(bytes: usize) -> Duration {
    Duration::from_secs(bytes as u64 / PACE)
}

async fn drain(mut body: Pin<&mut Body>) {
    let mut left = DRAIN_CAP;
    let _ = timeout(DRAIN_TIME, async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    })
    .await;
}

/// 408, which is about the client; the table's time-out is about the backend.
pub(super) fn stalled() -> Response {
    let text = "the request body stalled or arrived too slowly; send it again";
    let mut response = error::with_status(&TurnError::new(ErrorCode::Timeout, text), 408);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

impl From<BodyEvicted> for TurnError {
    fn from(_: BodyEvicted) -> Self {
        no_room()
    }
}

pub(super) fn no_room() -> TurnError {
    TurnError::new(
        ErrorCode::Unavailable,
        "the memory for request bodies is full, and this is the largest body of the key that uses \
         the most; try again shortly, or raise `limits.body_memory`",
    )
}

pub(super) fn too_large(limit: usize) -> TurnError {
    TurnError::new(
        ErrorCode::RequestTooLarge,
        format!("the request body is larger than the limit of {}", amount(limit)),
    )
}

/// Bytes as people read them, where that is exact.
pub(crate) fn amount(bytes: usize) -> String {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    match bytes {
        n if n >= MIB && n % MIB == 0 => format!("{} MiB", n / MIB),
        n if n >= KIB && n % KIB == 0 => format!("{} KiB", n / KIB),
        n => format!("{n} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_shown_with_its_unit() {
        assert_eq!(
            too_large(64 << 20).message,
            "the request body is larger than the limit of 64 MiB"
        );
        assert_eq!(amount(512 << 10), "512 KiB");
        assert_eq!(amount(1000), "1000 bytes");
    }
}
