//! The flight recorder: with `record.dir`, each turn is recorded in a file of its own. What is
//! recorded and how is in `core::recording`; here it is taken from the turns and written.
//!
//! *Invariant:* no turn waits for the recorder. What it cannot take at once is left out, and the
//! recording says so; a folder that cannot be written ends the recorder and nothing else.

mod files;

use std::{
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use ibeam_core::{
    backend::BackendKind,
    model::Millis,
    peer::LinkMessage,
    recording::TurnStart,
    turn::{TapeEntry, TurnTape},
};
use tokio::sync::mpsc;
use tracing::warn;

use self::files::RecordingFiles;
use crate::{
    config::RecordConfig,
    files::{FileError, private},
    tasks::Tasks,
};

/// Entries on their way to the file. A burst of small frames fits; beyond it entries are left out.
const QUEUED: usize = 4096;

/// Bytes on their way to the file.
const QUEUED_BYTES: usize = 32 << 20;

/// Entries that are written at once.
const BATCH: usize = 512;

/// Records turns. Clones share it.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<RecorderInner>);

#[derive(Debug)]
struct RecorderInner {
    queue: mpsc::Sender<RecorderJob>,
    load: Arc<AtomicUsize>,
    turns: AtomicUsize,
}

/// What is to be written.
enum RecorderJob {
    Begin { turn: usize, start: Box<TurnStart>, alive: Weak<()> },
    Note { turn: usize, at: Millis, entry: TapeEntry, bytes: usize, lost: u64 },
    End { turn: usize, at: Option<Millis>, lost: u64 },
}

/// Makes the folder for recordings, for its owner alone. One that is there must be.
///
/// # Errors
/// It cannot be made; or it is a link, belongs to another user, or is open to others.
pub fn prepare(dir: &Path) -> Result<(), FileError> {
    private::make_chosen_dir(dir)
}

impl Recorder {
    /// The recorder of these settings, if recordings are on.
    pub(crate) fn open(
        config: &RecordConfig,
        backend: BackendKind,
        own_tools: bool,
        tasks: &Tasks,
    ) -> Option<Self> {
        let dir = config.dir.clone()?;
        if let Err(error) = prepare(&dir) {
            warn!("turns are not recorded: {error}");
            return None;
        }
        if config.texts {
            warn!(
                dir = %dir.display(),
                "turns are recorded WITH THEIR TEXTS: prompts, answers, files and commands. Do not \
                 publish these files"
            );
        } else {
            tracing::info!(dir = %dir.display(), "turns are recorded, with placeholders for texts");
        }
        let (queue, jobs) = mpsc::channel(QUEUED);
        let load = Arc::new(AtomicUsize::new(0));
        let files = RecordingFiles::new(dir, config, backend, own_tools);
        let (work, left) = (tasks.clone(), Arc::clone(&load));
        tasks.spawn("recorder", async move { write(jobs, files, &left, &work).await });
        Some(Self(Arc::new(RecorderInner { queue, load, turns: AtomicUsize::new(0) })))
    }

    /// A tape for a new turn. `None`: there is no room for it now.
    pub(crate) fn tape(&self, start: TurnStart) -> Option<Box<dyn TurnTape>> {
        let inner = &self.0;
        let turn = inner.turns.fetch_add(1, Ordering::Relaxed);
        let alive = Arc::new(());
        let job =
            RecorderJob::Begin { turn, start: Box::new(start), alive: Arc::downgrade(&alive) };
        inner.queue.try_send(job).ok()?;
        let (queue, load) = (inner.queue.clone(), Arc::clone(&inner.load));
        Some(Box::new(QueueTape { turn, queue, load, lost: 0, at: Millis(0), _alive: alive }))
    }
}

/// The tape of one turn: it queues what it gets.
#[derive(Debug)]
struct QueueTape {
    turn: usize,
    queue: mpsc::Sender<RecorderJob>,
    load: Arc<AtomicUsize>,
    /// Entries that were left out since the last one that was not.
    lost: u64,
    at: Millis,
    /// The writer closes the file once this is gone, also when there was no room to say so.
    _alive: Arc<()>,
}

impl TurnTape for QueueTape {
    fn note(&mut self, at: Millis, entry: TapeEntry) {
        self.at = at;
        let bytes = weight(&entry);
        let full = self.load.load(Ordering::Relaxed).saturating_add(bytes) > QUEUED_BYTES;
        let job = RecorderJob::Note { turn: self.turn, at, entry, bytes, lost: self.lost };
        if full || self.queue.try_send(job).is_err() {
            self.lost += 1;
            return;
        }
        self.lost = 0;
        self.load.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for QueueTape {
    fn drop(&mut self) {
        let _ = self.queue.try_send(RecorderJob::End {
            turn: self.turn,
            at: Some(self.at),
            lost: self.lost,
        });
    }
}

/// About how much memory an entry holds.
fn weight(entry: &TapeEntry) -> usize {
    const ENTRY: usize = 256;
    let held = match entry {
        TapeEntry::Heard(message) | TapeEntry::Send(message) => match message {
            LinkMessage::Bytes(bytes) => bytes.len(),
            LinkMessage::FromChild(message) => ibeam_core::peer::InMessage::bytes(message),
            LinkMessage::ToChild(message) => ibeam_core::peer::OutMessage::bytes(message),
        },
        TapeEntry::Resumed(request) => request.bytes(),
        _ => 0,
    };
    ENTRY + held
}

/// Writes until there is no recorder any more, or the program stops.
async fn write(
    mut jobs: mpsc::Receiver<RecorderJob>,
    mut files: RecordingFiles,
    load: &AtomicUsize,
    tasks: &Tasks,
) {
    let mut stopped = Box::pin(tasks.stopped());
    let mut stopping = false;
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = &mut stopped, if !stopping => {
                // What the turns said until now is still written.
                stopping = true;
                jobs.close();
                continue;
            }
            _ = jobs.recv_many(&mut batch, BATCH) => {}
        }
        if batch.is_empty() {
            break;
        }
        let bytes: usize = batch.iter().map(RecorderJob::bytes).sum();
        let work = tasks.spawn_blocking(move || {
            files.write(batch);
            files
        });
        let Ok(written) = work.await else { return };
        files = written;
        load.fetch_sub(bytes, Ordering::Relaxed);
        // In this order: what a turn did before it was gone is in the queue by then.
        let gone = files.gone();
        if !gone.is_empty() && jobs.is_empty() {
            let work = tasks.spawn_blocking(move || {
                files.close(gone);
                files
            });
            let Ok(written) = work.await else { return };
            files = written;
        }
    }
}

impl RecorderJob {
    fn bytes(&self) -> usize {
        match self {
            Self::Note { bytes, .. } => *bytes,
            Self::Begin { .. } | Self::End { .. } => 0,
        }
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
