//! MCP over a pipe: one message to a line, both ways.

use bytes::{Bytes, BytesMut};
use ibeam_core::codec::ndjson::Lines;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::peer::{MESSAGE_BYTES, Outgoing, OutgoingQueue, ServerPeer};

const CHUNK: usize = 16 << 10;

pub(super) type PipeReader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type PipeWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Carries messages until either side ends, or `end` is cancelled.
pub(super) async fn run(
    peer: ServerPeer,
    queue: OutgoingQueue,
    reader: PipeReader,
    writer: PipeWriter,
    end: CancellationToken,
) {
    let _closing = peer.closing();
    tokio::select! {
        () = end.cancelled() => {}
        () = read(&peer, reader) => {}
        () = write(queue, writer) => {}
    }
}

async fn read(peer: &ServerPeer, mut reader: PipeReader) {
    let mut lines = Lines::new(MESSAGE_BYTES);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK);
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return,
            Ok(_) => lines.push(buffer.split().freeze()),
            Err(error) => {
                debug!(%error, "the pipe of an MCP server broke");
                return;
            }
        }
        while let Some(line) = lines.next() {
            peer.receive(&line);
        }
    }
}

async fn write(mut queue: OutgoingQueue, mut writer: PipeWriter) {
    while let Some(outgoing) = queue.recv().await {
        let message: Bytes = match outgoing {
            Outgoing::Request { gone, .. } if gone.is_cancelled() => continue,
            Outgoing::Request { message, .. } | Outgoing::Note(message) => message,
        };
        let written = async {
            writer.write_all(&message).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            debug!(%error, "an MCP server accepts no more messages");
            return;
        }
    }
}
