//! Records the frames of both directions as JSON lines, with the time since the run
//! began.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::protobuf::hex;

/// Which side sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    FromClient,
    FromServer,
}

/// One message, without its envelope; server records keep the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    pub run: u64,
    pub at_ms: u64,
    pub direction: Direction,
    pub flags: u8,
    pub payload: Bytes,
}

/// Keeps records up to a number of bytes and drops later ones. Clones share the records.
#[derive(Clone, Debug)]
pub struct FrameRecorder {
    inner: Arc<Mutex<Tape>>,
}

#[derive(Debug)]
struct Tape {
    records: Vec<FrameRecord>,
    room: usize,
}

impl FrameRecorder {
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { inner: Arc::new(Mutex::new(Tape { records: Vec::new(), room: max_bytes })) }
    }

    #[must_use]
    pub fn records(&self) -> Vec<FrameRecord> {
        self.inner.lock().records.clone()
    }

    /// All records, one JSON object a line.
    #[must_use]
    pub fn jsonl(&self) -> String {
        let mut out = String::new();
        for record in &self.inner.lock().records {
            let direction = match record.direction {
                Direction::FromClient => "c2s",
                Direction::FromServer => "s2c",
            };
            out.push_str(&format!(
                "{{\"run\":{},\"t\":{},\"dir\":\"{direction}\",\"flags\":{},\"hex\":\"{}\"}}\n",
                record.run,
                record.at_ms,
                record.flags,
                hex(&record.payload)
            ));
        }
        out
    }

    fn push(&self, record: FrameRecord) {
        let mut tape = self.inner.lock();
        if let Some(room) = tape.room.checked_sub(record.payload.len()) {
            tape.room = room;
            tape.records.push(record);
        }
    }
}

/// The recorder of one run; does nothing when there is none.
#[derive(Clone, Debug)]
pub(crate) struct RunTape {
    recorder: Option<FrameRecorder>,
    run: u64,
    start: Instant,
}

impl RunTape {
    pub(crate) fn new(recorder: Option<FrameRecorder>, run: u64) -> Self {
        Self { recorder, run, start: Instant::now() }
    }

    pub(crate) fn note(&self, direction: Direction, flags: u8, payload: impl FnOnce() -> Bytes) {
        if let Some(recorder) = &self.recorder {
            let at_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            recorder.push(FrameRecord {
                run: self.run,
                at_ms,
                direction,
                flags,
                payload: payload(),
            });
        }
    }
}
