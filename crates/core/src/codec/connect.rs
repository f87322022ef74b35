//! The Connect streaming envelope: one flags byte, a big-endian length, a payload.
//! Reads all flags seen in the wild, gRPC-Web trailers included; writes plain ones.

use std::io::Read as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_proto::Wire;
use memmap2::MmapMut;

pub(crate) use super::connect_error::percent_decode;
pub use super::connect_error::{Code, ConnectError, CursorError, ERROR_TYPE};
use super::connect_error::{parse_end, parse_trailer};

const HEADER: usize = 5;
const FLAG_GZIP: u8 = 0x01;
const FLAG_END: u8 = 0x02;
const FLAG_TRAILER: u8 = 0x80;

/// The largest payload we accept on the wire.
pub const MAX_PAYLOAD: usize = 64 * 1024 * 1024;

/// The largest payload we inflate. A larger blob is read only when it comes uncompressed.
pub const MAX_INFLATED: usize = 34 * 1024 * 1024;

/// How many bytes one compressed byte may become beyond the first megabyte. Text and code become
/// three to twenty; gzip can make a thousand of one, and then a few kilobytes cost as much time and
/// memory as [`MAX_INFLATED`].
const MAX_RATIO: usize = 128;
const ANY_RATIO: usize = 1024 * 1024;

/// How much room is made for a frame before its bytes are there.
const MAX_RESERVED: usize = 1024 * 1024;

/// One whole unit of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Envelope {
    Message(Bytes),
    /// The stream is over: well, or with this error.
    End(Option<ConnectError>),
}

/// Bytes that are no Connect stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("envelope of {0} bytes is over the limit")]
    TooLarge(usize),
    #[error("unknown envelope flags {0:#04x}")]
    Flags(u8),
    #[error("compressed envelope cannot be decompressed")]
    Gzip,
    #[error("end-of-stream frame is not valid JSON")]
    EndJson,
}

// === impl Decoder ===

/// Cuts a byte stream into envelopes.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The newest chunk, parsed without copying while nothing is pending.
    ready: Bytes,
    /// A frame whose end has not come yet.
    partial: BytesMut,
}

impl Decoder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk. Call [`Self::next`] until it gives `None` before the next one.
    pub fn push(&mut self, chunk: Bytes) {
        if self.partial.is_empty() && self.ready.is_empty() {
            self.ready = chunk;
        } else {
            self.spill();
            self.partial.extend_from_slice(&chunk);
        }
    }

    /// The next whole envelope, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not what the protocol allows; the stream cannot continue.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` has no place for the error")]
    pub fn next(&mut self) -> Result<Option<Envelope>, FrameError> {
        let Some((flags, payload)) = self.next_frame()? else { return Ok(None) };
        let payload = if flags & FLAG_GZIP == 0 { payload } else { inflate(&payload)? };
        Ok(Some(match flags & !FLAG_GZIP {
            0 => Envelope::Message(payload),
            FLAG_END => Envelope::End(parse_end(&payload).map_err(|_| FrameError::EndJson)?),
            FLAG_TRAILER => Envelope::End(parse_trailer(&payload)),
            _ => return Err(FrameError::Flags(flags)),
        }))
    }

    /// Whether a frame has begun and not ended: a stream that closes now was cut.
    #[must_use]
    pub fn mid_frame(&self) -> bool {
        !self.ready.is_empty() || !self.partial.is_empty()
    }

    fn next_frame(&mut self) -> Result<Option<(u8, Bytes)>, FrameError> {
        let pending = if self.partial.is_empty() { &self.ready[..] } else { &self.partial[..] };
        let Some(&[flags, a, b, c, d]) = pending.first_chunk::<HEADER>() else {
            self.spill();
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if len > MAX_PAYLOAD {
            return Err(FrameError::TooLarge(len));
        }
        if flags & !(FLAG_GZIP | FLAG_END | FLAG_TRAILER) != 0 {
            return Err(FrameError::Flags(flags));
        }
        if pending.len() < HEADER + len {
            self.spill();
            let missing = (HEADER + len).saturating_sub(self.partial.len());
            self.partial.reserve(missing.min(MAX_RESERVED));
            return Ok(None);
        }
        let mut frame = if self.partial.is_empty() {
            self.ready.split_to(HEADER + len)
        } else {
            self.partial.split_to(HEADER + len).freeze()
        };
        Ok(Some((flags, frame.split_off(HEADER))))
    }

    /// Moves what is left of `ready` behind the partial frame.
    fn spill(&mut self) {
        if !self.ready.is_empty() {
            self.partial.extend_from_slice(&self.ready);
            self.ready = Bytes::new();
        }
    }
}

/// Everything in these chunks, up to the first error.
fn read_all(chunks: &[&[u8]]) -> Vec<Result<Envelope, FrameError>> {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(read) = decoder.next().transpose() {
            let failed = read.is_err();
            out.push(read);
            if failed {
                return out;
            }
        }
    }
    out
}

/// Entry point for fuzzing: any bytes, cut in two at any place, must be read alike.
pub fn fuzz(data: &[u8]) {
    let (head, tail) = data.split_at(data.len() / 2);
    assert_eq!(read_all(&[data]), read_all(&[head, tail]));
}

// === encoding ===

/// Frames a message in one allocation.
#[must_use]
pub fn encode<M: Wire>(message: &M) -> Bytes {
    let len = message.wire_len();
    let mut out = BytesMut::with_capacity(HEADER + len);
    out.put_u8(0);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    message.write_wire(&mut out);
    out.freeze()
}

/// Frames bytes under the given flags.
#[must_use]
pub fn frame(flags: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + payload.len());
    out.put_u8(flags);
    out.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    out.put_slice(payload);
    out.freeze()
}

/// The end-of-stream frame: `{}`, or the error.
#[must_use]
pub fn end_frame(error: Option<&ConnectError>) -> Bytes {
    match error {
        None => frame(FLAG_END, b"{}"),
        Some(error) => {
            let body = serde_json::json!({ "error": error.to_json() });
            frame(FLAG_END, body.to_string().as_bytes())
        }
    }
}

/// Above this, a message has memory of its own, which goes back to the system with it. An allocator
/// would give it to the next thread that needs some, and never return it.
const MAPPED: usize = 1 << 20;

fn inflate(payload: &[u8]) -> Result<Bytes, FrameError> {
    let most = payload.len().saturating_mul(MAX_RATIO).clamp(ANY_RATIO, MAX_INFLATED);
    // Its last four bytes say how long it is, and the decoder compares them at the end. What a lie
    // costs beyond the bytes that come is never touched.
    let length = payload.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut decoder = flate2::read::GzDecoder::new(payload);
    if decoder.header().is_none() {
        return Err(FrameError::Gzip);
    }
    if length > most {
        return Err(FrameError::TooLarge(length));
    }
    let mut fill =
        |room: &mut [u8]| match decoder.read_exact(room).and_then(|()| decoder.read(&mut [0])) {
            Ok(0) => Ok(()),
            Ok(_) | Err(_) => Err(FrameError::Gzip),
        };
    if length > MAPPED
        && let Ok(mut map) = MmapMut::map_anon(length)
    {
        fill(&mut map)?;
        return Ok(Bytes::from_owner(map));
    }
    let mut heap = vec![0; length];
    fill(&mut heap)?;
    Ok(heap.into())
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
