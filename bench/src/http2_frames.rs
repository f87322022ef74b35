//! Frames of HTTP/2, written and read by hand.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) struct Http2Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) payload: Bytes,
}

impl Http2Frame {
    /// The next whole frame.
    pub(crate) fn take(buffer: &mut BytesMut) -> Option<Self> {
        let mut head = buffer.get(..9)?;
        let length = usize::try_from(head.get_uint(3)).ok()?;
        let (kind, flags) = (head.get_u8(), head.get_u8());
        if buffer.len() < 9 + length {
            return None;
        }
        buffer.advance(9);
        Some(Self { kind, flags, payload: buffer.split_to(length).freeze() })
    }
}

pub(crate) fn put_frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(payload);
}

/// The settings that give every stream a window of this size.
pub(crate) fn put_window(out: &mut BytesMut, size: u32) {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut settings = BytesMut::new();
    settings.put_u16(INITIAL_WINDOW_SIZE);
    settings.put_u32(size);
    put_frame(out, SETTINGS, 0, 0, &settings);
}

/// Text of a header block, shorter than 127 bytes and without Huffman coding.
pub(crate) fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u8(u8::try_from(text.len()).unwrap_or_default() & 0x7f);
    out.put_slice(text.as_bytes());
}
