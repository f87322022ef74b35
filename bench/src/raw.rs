//! Reads the simulator with almost no work of its own: HTTP/2 frames by hand, windows wide open,
//! marks counted in the bytes. A client with a real HTTP/2 stack would measure that stack.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use bytes::{BufMut as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

use crate::{
    http2_frames::{
        ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2Frame, PING, PREFACE, RST_STREAM,
        SETTINGS, WINDOW_UPDATE, put_frame, put_text, put_window,
    },
    rules::{MARK, Rule, Size},
    upstream::canned,
};

const CONNECTIONS: usize = 8;
const WIDEST: u32 = 0x7fff_ffff;
const LIMIT: Duration = Duration::from_secs(120);
const READ_BUFFER: usize = 256 * 1024;

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
    put_window(&mut out, WIDEST);
    put_frame(&mut out, WINDOW_UPDATE, 0, 0, &(WIDEST - 65_535).to_be_bytes());
    let (headers, request) = (headers(address), canned(Rule::Fast));
    for at in 0..u32::try_from(streams)? {
        let id = 2 * at + 1;
        put_frame(&mut out, HEADERS, END_HEADERS, id, &headers);
        put_frame(&mut out, DATA, 0, id, &request);
    }
    socket.write_all(&out).await?;

    let mut open = streams;
    let mut events = 0;
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    while open > 0 {
        if socket.read_buf(&mut buffer).await? == 0 {
            bail!("the simulator closed the connection");
        }
        while let Some(frame) = Http2Frame::take(&mut buffer) {
            match frame.kind {
                DATA => events += marks(&frame.payload),
                SETTINGS if frame.flags & ACK == 0 => reply(&mut socket, SETTINGS, &[]).await?,
                PING if frame.flags & ACK == 0 => reply(&mut socket, PING, &frame.payload).await?,
                // An answer that is complete ends our half of the stream with NO_ERROR.
                RST_STREAM if frame.payload.iter().all(|byte| *byte == 0) => {}
                RST_STREAM | GOAWAY => {
                    bail!("the simulator gave up: frame type {}, {:?}", frame.kind, frame.payload)
                }
                _ => {}
            }
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
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

async fn reply(socket: &mut TcpStream, kind: u8, payload: &[u8]) -> anyhow::Result<()> {
    let mut out = BytesMut::new();
    put_frame(&mut out, kind, ACK, 0, payload);
    Ok(socket.write_all(&out).await?)
}

/// A header block without compression: `POST` and `http` from the static table,
/// everything else spelled out.
fn headers(address: SocketAddr) -> BytesMut {
    let mut out = BytesMut::from(&[0x83, 0x86][..]);
    out.put_u8(0x04); // `:path`
    put_text(&mut out, "/agent.v1.AgentService/Run");
    out.put_u8(0x01); // `:authority`
    put_text(&mut out, &address.to_string());
    for (name, value) in crate::upstream::HEADERS {
        out.put_u8(0x00);
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    out
}
