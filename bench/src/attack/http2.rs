//! An HTTP/2 client that asks for pages and gives the server no window to send them, frame by
//! frame by hand: a real client library would not do that.

use std::net::SocketAddr;

use bytes::{BufMut as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::http2_frames::{
    ACK, END_HEADERS, END_STREAM, HEADERS, Http2Frame, PING, PREFACE, SETTINGS, put_frame,
    put_text, put_window,
};

/// What a client sends that asks for `streams` times the same page.
pub(super) fn requests(address: SocketAddr, path: &str, streams: u32) -> BytesMut {
    let mut out = BytesMut::from(PREFACE);
    put_window(&mut out, 0);
    // `:method: GET` and `:scheme: http` of HPACK's table, then two literals of names in it.
    let mut headers = BytesMut::from(&[0x82, 0x86][..]);
    headers.put_u8(4);
    put_text(&mut headers, path);
    headers.put_u8(1);
    put_text(&mut headers, &address.to_string());
    for stream in 0..streams {
        put_frame(&mut out, HEADERS, END_STREAM | END_HEADERS, 1 + 2 * stream, &headers);
    }
    out
}

/// Answers settings and pings, and nothing else, until the server closes the connection.
pub(super) async fn keep_alive(mut socket: TcpStream) -> std::io::Result<()> {
    let mut input = BytesMut::new();
    loop {
        while let Some(frame) = Http2Frame::take(&mut input) {
            let mut out = BytesMut::new();
            if frame.flags & ACK == 0 && matches!(frame.kind, SETTINGS | PING) {
                // Settings are confirmed without a payload, pings with the same one.
                let payload = if frame.kind == PING { &*frame.payload } else { &[] };
                put_frame(&mut out, frame.kind, ACK, 0, payload);
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
