//! The stream that a turn runs on, as far as the turn has to know it.

use std::{collections::HashSet, time::Duration};

use super::{generation::Generation, kept_id::ids_memory};
use crate::{codec::connect::Decoder, model::Millis};

/// How many running calls are tracked one by one. What matters is whether there are any.
pub(super) const BEGUN_CAP: usize = 1024;

/// What the next stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Start,
    Resume,
}

/// The state of one open stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Whether the backend said anything on this stream.
    pub(super) heard: bool,
    /// The turn knows that the backend is at work on the present leg.
    pub(super) started: bool,
    /// The backend fetched something of the state that the run began with.
    pub(super) fetched: bool,
    /// It ended, or broke.
    pub(super) over: bool,
    /// Extra patience while something large is still on its way up.
    pub(super) upload: Duration,
    pub(super) decoder: Decoder,
    /// None: the connection sends them.
    pub(super) next_heartbeat: Option<Millis>,
    pub(super) last_frame: Millis,
    pub(super) last_progress: Millis,
    /// False while back-pressure keeps us from reading: silence is then our own.
    pub(super) reading: bool,
    /// Set by `turn_ended`: wait until then for the end frame.
    pub(super) ended_until: Option<Millis>,
    pub(super) open_steps: u32,
    /// Calls that the backend has begun and not yet completed; no more than
    /// [`BEGUN_CAP`].
    pub(super) begun: HashSet<String>,
    pub(super) generation: Generation,
    pub(super) stored: Stored,
    /// The hashes of the answers in the history, once they are needed: the backend stores answers
    /// again, and each is compared with all.
    pub(super) answers: Option<HashSet<[u8; 32]>>,
    /// Heartbeats of the backend since it last said anything else.
    pub(super) heartbeats: u32,
}

/// What the backend put into our store since the last piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stored {
    Nothing,
    Something,
    /// The assistant's message itself: the model has said its piece.
    Answer,
}

impl Stream {
    /// A stream that opened just now.
    pub(super) fn new(now: Millis) -> Self {
        Self {
            heard: false,
            started: false,
            fetched: false,
            over: false,
            upload: Duration::ZERO,
            decoder: Decoder::new(),
            next_heartbeat: None,
            last_frame: now,
            last_progress: now,
            reading: true,
            ended_until: None,
            open_steps: 0,
            begun: HashSet::new(),
            generation: Generation::default(),
            stored: Stored::Nothing,
            answers: None,
            heartbeats: 0,
        }
    }

    /// About how many bytes the ids of calls take.
    pub(super) fn ids_memory(&self) -> usize {
        ids_memory(&self.begun) + self.generation.memory()
    }
}

/// How long this many bytes may take on the slowest upload that is still waited for: 100 kB/s.
pub(super) fn upload_time(bytes: usize) -> Duration {
    const BYTES_PER_MS: u64 = 100;
    Duration::from_millis(bytes as u64 / BYTES_PER_MS)
}
