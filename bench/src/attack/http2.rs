//! An HTTP/2 client that asks for pages and gives the server no window to send them, frame by
//! frame by hand: a real client library would not do that.

use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// What a client sends that asks for `streams` times the same page.
pub(super) fn requests(address: SocketAddr, path: &str, streams: u32) -> BytesMut {
    let mut out = BytesMut::from(PREFACE);
    frame(&mut out, SETTINGS, 0, 0, |out| {
        out.put_u16(INITIAL_WINDOW_SIZE);
        out.put_u32(0);
    });
    for stream in 0..streams {
        frame(&mut out, HEADERS, END_STREAM_AND_HEADERS, 1 + 2 * stream, |out| {
            // `:method: GET` and `:scheme: http` of HPACK's table, then two literals.
            out.put_slice(&[0x82, 0x86]);
            literal(out, 4, path);
            literal(out, 1, &address.to_string());
        });
    }
    out
}

/// A header whose name is in the static table, without Huffman coding and not indexed.
fn literal(out: &mut BytesMut, name: u8, value: &str) {
    out.put_u8(name);
    out.put_u8(u8::try_from(value.len()).unwrap_or(0x7f) & 0x7f);
    out.put_slice(value.as_bytes());
}

fn frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, fill: impl FnOnce(&mut BytesMut)) {
    let mut payload = BytesMut::new();
    fill(&mut payload);
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(&payload);
}

/// Answers settings and pings, and nothing else, until the server closes the connection.
pub(super) async fn keep_alive(mut socket: TcpStream) -> std::io::Result<()> {
    let mut input = BytesMut::new();
    loop {
        while let Some(head) = input.first_chunk::<9>().copied() {
            let [a, b, c, kind, flags, ..] = head;
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if input.len() < 9 + length {
                break;
            }
            input.advance(9);
            let payload = input.split_to(length);
            let mut out = BytesMut::new();
            match (kind, flags & ACK) {
                (SETTINGS, 0) => frame(&mut out, SETTINGS, ACK, 0, |_| {}),
                (PING, 0) => frame(&mut out, PING, ACK, 0, |out| out.put_slice(&payload)),
                _ => {}
            }
            socket.write_all(&out).await?;
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_frames_of_http2() {
        let out = requests(([127, 0, 0, 1], 80).into(), "/docs", 2);
        let (preface, mut rest) = out.split_at(PREFACE.len());
        assert_eq!(preface, PREFACE);
        let mut kinds = Vec::new();
        while let [a, b, c, kind, flags, s1, s2, s3, s4, tail @ ..] = rest {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            kinds.push((*kind, *flags, u32::from_be_bytes([*s1, *s2, *s3, *s4]), length));
            rest = &tail[length..];
        }
        let headers = 2 + 2 + "/docs".len() + 2 + "127.0.0.1:80".len();
        assert_eq!(kinds, [(4, 0, 0, 6), (1, 5, 1, headers), (1, 5, 3, headers)]);
        assert!(rest.is_empty());
    }
}
