//! Reads the simulator with next to no work of its own: HTTP/2 frames by hand,
//! windows wide open, marks counted in the bytes. A client with a real HTTP/2
//! stack would measure that stack.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

use crate::{
    rules::{MARK, Rule, Size},
    upstream::canned,
};

const CONNECTIONS: usize = 8;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const WIDEST: u32 = 0x7fff_ffff;
const LIMIT: Duration = Duration::from_secs(120);
const READ_BUFFER: usize = 256 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Events per second of `streams` runs at once.
pub(crate) async fn speed(address: SocketAddr, streams: usize, size: Size) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut connections = JoinSet::new();
    for at in 0..CONNECTIONS {
        let share = streams / CONNECTIONS + usize::from(at < streams % CONNECTIONS);
        connections.spawn(tokio::time::timeout(LIMIT, connection(address, share)));
    }
    let mut events = 0;
    while let Some(joined) = connections.join_next().await {
        events += joined?.context("the simulator hung")??;
    }
    let took = started.elapsed().as_secs_f64();
    let expected = Rule::Fast.events(size) * u64::try_from(streams)?;
    if events != expected {
        bail!("the simulator sent {events} of {expected} events");
    }
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    Ok(events as f64 / took)
}

async fn connection(address: SocketAddr, streams: usize) -> anyhow::Result<u64> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut out = BytesMut::from(PREFACE);
    let mut window = BytesMut::new();
    window.put_u16(4); // SETTINGS_INITIAL_WINDOW_SIZE
    window.put_u32(WIDEST);
    frame(&mut out, SETTINGS, 0, 0, &window);
    frame(&mut out, WINDOW_UPDATE, 0, 0, &(WIDEST - 65_535).to_be_bytes());
    let (headers, request) = (headers(address), canned(Rule::Fast));
    for at in 0..u32::try_from(streams)? {
        let id = 2 * at + 1;
        frame(&mut out, HEADERS, END_HEADERS, id, &headers);
        frame(&mut out, DATA, 0, id, &request);
    }
    socket.write_all(&out).await?;

    let mut open = streams;
    let mut events = 0;
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    while open > 0 {
        if socket.read_buf(&mut buffer).await? == 0 {
            bail!("the simulator closed the connection");
        }
        while let Some(frame_in) = take(&mut buffer) {
            match frame_in.kind {
                DATA => events += marks(&frame_in.payload),
                SETTINGS if frame_in.flags & ACK == 0 => reply(&mut socket, SETTINGS, &[]).await?,
                PING if frame_in.flags & ACK == 0 => {
                    reply(&mut socket, PING, &frame_in.payload).await?
                }
                // An answer that is complete ends our half of the stream with NO_ERROR.
                RST_STREAM if frame_in.payload.iter().all(|byte| *byte == 0) => {}
                RST_STREAM | GOAWAY => {
                    bail!(
                        "the simulator gave up: frame type {}, {:?}",
                        frame_in.kind,
                        frame_in.payload
                    )
                }
                _ => {}
            }
            if matches!(frame_in.kind, DATA | HEADERS) && frame_in.flags & END_STREAM != 0 {
                open -= 1;
            }
        }
        buffer.reserve(READ_BUFFER);
    }
    Ok(events)
}

fn marks(payload: &[u8]) -> u64 {
    payload.iter().map(|byte| u64::from(*byte == MARK)).sum()
}

struct Frame {
    kind: u8,
    flags: u8,
    payload: Bytes,
}

/// The next whole frame.
fn take(buffer: &mut BytesMut) -> Option<Frame> {
    let mut head = buffer.get(..9)?;
    let length = usize::try_from(head.get_uint(3)).ok()?;
    let (kind, flags) = (head.get_u8(), head.get_u8());
    if buffer.len() < 9 + length {
        return None;
    }
    buffer.advance(9);
    Some(Frame { kind, flags, payload: buffer.split_to(length).freeze() })
}

fn frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(payload);
}

async fn reply(socket: &mut TcpStream, kind: u8, payload: &[u8]) -> anyhow::Result<()> {
    let mut out = BytesMut::new();
    frame(&mut out, kind, ACK, 0, payload);
    Ok(socket.write_all(&out).await?)
}

/// A header block without compression: `POST` and `http` from the static table,
/// everything else spelled out.
fn headers(address: SocketAddr) -> BytesMut {
    let mut out = BytesMut::from(&[0x83, 0x86][..]);
    out.put_u8(0x04); // `:path`
    text(&mut out, "/agent.v1.AgentService/Run");
    out.put_u8(0x01); // `:authority`
    text(&mut out, &address.to_string());
    for (name, value) in crate::upstream::HEADERS {
        out.put_u8(0x00);
        text(&mut out, name);
        text(&mut out, value);
    }
    out
}

/// Text shorter than 127 bytes, as all of ours is.
fn text(out: &mut BytesMut, text: &str) {
    out.put_u8(u8::try_from(text.len()).unwrap_or_default());
    out.put_slice(text.as_bytes());
}
