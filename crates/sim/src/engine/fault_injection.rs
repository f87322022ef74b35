//! Breaks a stream on purpose.

use std::time::Duration;

use bytes::Bytes;
use ibeam_core::codec::connect::{self, Code};

use super::run_io::{RunIo, RunResult, RunStop};
use crate::scenario::{ResetCode, StreamFault};

/// What was sent must be on the wire before a fault breaks it.
const SETTLE: Duration = Duration::from_millis(5);
/// How long a black hole is kept open at most.
const BLACK_HOLE: Duration = Duration::from_secs(3600);

impl RunIo {
    /// Carries out a fault instead of sending the next frame.
    pub(crate) async fn inject_fault(&mut self, fault: StreamFault, frame: &[u8]) -> RunResult {
        self.flush().await?;
        match fault {
            StreamFault::Goaway => {
                self.control.goaway();
                return Ok(());
            }
            StreamFault::HeartbeatsOnly => return self.heartbeats_only().await,
            StreamFault::Error(spec) => {
                return Err(RunStop::Scripted(spec.connect_error(Code::Internal)));
            }
            StreamFault::Eof => {}
            StreamFault::Truncate => {
                let half = frame.get(..(frame.len() / 2).max(1)).unwrap_or(&[0]);
                self.send_chunk(Bytes::copy_from_slice(half)).await?;
            }
            StreamFault::GarbageGzip => {
                self.send_chunk(connect::frame(1, b"this was never compressed")).await?;
            }
            StreamFault::Garbage => {
                self.send_chunk(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0])).await?;
            }
            StreamFault::Reset(code) => self.reset(code).await,
            StreamFault::GoawayNow => {
                self.control.goaway();
                tokio::time::sleep(SETTLE).await;
                self.control.kill();
                self.hold().await;
            }
            StreamFault::Disconnect => {
                tokio::time::sleep(SETTLE).await;
                self.control.kill();
                self.hold().await;
            }
            StreamFault::BlackHole => self.hold().await,
            StreamFault::BlackHoleConnection => {
                tokio::time::sleep(SETTLE).await;
                self.control.freeze();
                self.hold().await;
                self.control.kill();
            }
        }
        Err(RunStop::Cut)
    }

    /// Resets the stream with a code, once everything before it is on the wire.
    pub(crate) async fn reset(&mut self, code: ResetCode) {
        tokio::time::sleep(SETTLE).await;
        let _ = self.out.tx.send(Err(code)).await;
    }

    /// Does nothing until the client gives up.
    async fn hold(&mut self) {
        let _ = tokio::time::timeout(BLACK_HOLE, self.out.tx.closed()).await;
    }
}
