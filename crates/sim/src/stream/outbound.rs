//! The server's frames: envelopes, compression, and how frames are grouped into chunks.

use std::io::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_core::codec::connect::{self, ConnectError};
use ibeam_proto::Wire;
use tokio::sync::mpsc;

use super::format::{self, BodyFormat};
use crate::scenario::ResetCode;

/// Chunks that wait for the peer's window. Four of 16 KiB keep a stream busy and a
/// thousand streams small.
pub(crate) const CHUNKS_CAP: usize = 4;

/// A piece of a streamed body, or the code with which the stream breaks.
pub(crate) type Chunk = Result<Bytes, ResetCode>;

/// A chunk is sent when it is this long: the usual largest DATA frame.
const CHUNK: usize = 16 * 1024;
const HEADER: usize = 5;

/// How frames are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameStyle {
    /// gRPC-Web ends with a trailer frame, Connect with JSON.
    pub(crate) format: BodyFormat,
    pub(crate) gzip: bool,
    pub(crate) split: Option<usize>,
    /// Frames per chunk; 0 fills each chunk.
    pub(crate) per_chunk: usize,
}

#[derive(Debug)]
pub(crate) struct RunOutbound {
    pub(crate) tx: mpsc::Sender<Chunk>,
    pub(crate) style: FrameStyle,
    /// Frames pushed so far, over the whole stream.
    pub(crate) frames: u64,
    buf: BytesMut,
    in_buf: usize,
}

impl RunOutbound {
    pub(crate) fn new(tx: mpsc::Sender<Chunk>, style: FrameStyle) -> Self {
        Self { tx, style, frames: 0, buf: BytesMut::new(), in_buf: 0 }
    }

    /// Adds a message; without compression it is encoded straight into the buffer.
    pub(crate) fn push<M: Wire>(&mut self, message: &M) {
        if self.style.gzip {
            let frame = self.frame_of(&message.to_wire());
            self.push_frame(&frame);
            return;
        }
        let len = message.wire_len();
        if self.buf.capacity() - self.buf.len() < HEADER + len {
            self.buf.reserve((HEADER + len).max(CHUNK));
        }
        self.buf.put_u8(0);
        self.buf.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
        message.write_wire(&mut self.buf);
        self.count();
    }

    /// The envelope of an encoded message in the style of this stream.
    pub(crate) fn frame_of(&self, payload: &[u8]) -> Bytes {
        if self.style.gzip { connect::frame(1, &gzip(payload)) } else { connect::frame(0, payload) }
    }

    /// Adds bytes unchanged, and counts them as one frame.
    pub(crate) fn push_frame(&mut self, frame: &[u8]) {
        self.buf.extend_from_slice(frame);
        self.count();
    }

    fn count(&mut self) {
        self.in_buf += 1;
        self.frames += 1;
    }

    /// Whether the buffer should be sent now.
    pub(crate) fn due(&self) -> bool {
        self.buf.len() >= CHUNK || (self.style.per_chunk > 0 && self.in_buf >= self.style.per_chunk)
    }

    /// The next chunk of the buffer, or `None` when it is empty.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let len = self.style.split.unwrap_or(usize::MAX).min(self.buf.len());
        if len == 0 {
            self.in_buf = 0;
            return None;
        }
        Some(self.buf.split_to(len).freeze())
    }

    /// Frees the buffer before a wait, which may be long.
    pub(crate) fn relax(&mut self) {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
    }

    /// The end of the stream in its format.
    pub(crate) fn end_frame(&self, error: Option<&ConnectError>) -> Bytes {
        match self.style.format {
            BodyFormat::GrpcWeb => format::trailer_frame(error),
            _ => connect::end_frame(error),
        }
    }
}

fn gzip(payload: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to a `Vec` does not fail.
    let _ = encoder.write_all(payload);
    encoder.finish().unwrap_or_default()
}
