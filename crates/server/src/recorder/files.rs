//! The files of the recorder: one for each turn, the oldest removed when there are too many.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Weak,
};

use ibeam_core::{
    backend::BackendKind,
    model::{Millis, ids},
    recording::{Header, Mask, RecordingWriter, TurnStart, VERSION},
};
use tracing::{debug, warn};

use super::RecorderJob;
use crate::{clock, config::RecordConfig, files::private, random};

/// The largest recording. A turn with more is recorded up to there.
const TURN_BYTES: usize = 16 << 20;

/// Most files in the folder.
const FILES: usize = 1000;

const PREFIX: &str = "turn-";
const SUFFIX: &str = ".jsonl";

/// What every recording begins with.
const BEGINNING: &[u8] = b"{\"ibeam_recording\":";

/// The folder, and the recordings that are being written.
pub(super) struct RecordingFiles {
    dir: PathBuf,
    texts: bool,
    /// Bytes of all files together.
    most: u64,
    backend: BackendKind,
    own_tools: bool,
    open: HashMap<usize, OpenRecording>,
    /// Names of files in the folder that are recordings, as far as they were looked at.
    known: HashSet<String>,
    /// Bytes in the folder, as far as is known.
    total: u64,
    /// The folder could not be written.
    broken: bool,
}

struct OpenRecording {
    name: String,
    file: File,
    writer: RecordingWriter,
    alive: Weak<()>,
    at: Millis,
}

impl RecordingFiles {
    pub(super) fn new(
        dir: PathBuf,
        config: &RecordConfig,
        backend: BackendKind,
        own_tools: bool,
    ) -> Self {
        Self {
            dir,
            texts: config.texts,
            most: config.bytes as u64,
            backend,
            own_tools,
            open: HashMap::new(),
            known: HashSet::new(),
            total: 0,
            broken: false,
        }
    }

    /// Writes all of it. A failure ends the recordings: they are not worth a turn, nor a log line
    /// for each frame.
    pub(super) fn write(&mut self, jobs: Vec<RecorderJob>) {
        if self.broken {
            return;
        }
        if let Err(error) = self.try_write(jobs) {
            warn!(
                dir = %self.dir.display(),
                "recordings end here, the folder cannot be written: {error}"
            );
            self.broken = true;
            self.open.clear();
        }
    }

    fn try_write(&mut self, jobs: Vec<RecorderJob>) -> io::Result<()> {
        // One write for each file and batch.
        let mut texts: HashMap<usize, String> = HashMap::new();
        for job in jobs {
            match job {
                RecorderJob::Begin { turn, start, alive } => {
                    let text = self.begin(turn, &start, alive)?;
                    texts.insert(turn, text);
                }
                RecorderJob::Note { turn, at, entry, lost, .. } => {
                    let Some(open) = self.open.get_mut(&turn) else { continue };
                    let text = texts.entry(turn).or_default();
                    open.at = at;
                    if lost > 0 {
                        text.push_str(&open.writer.lost(at, lost));
                    }
                    text.push_str(&open.writer.note(at, &entry));
                }
                RecorderJob::End { turn, at, lost } => {
                    let Some(mut open) = self.open.remove(&turn) else { continue };
                    let mut text = texts.remove(&turn).unwrap_or_default();
                    let at = at.unwrap_or(open.at);
                    if lost > 0 {
                        text.push_str(&open.writer.lost(at, lost));
                    }
                    text.push_str(&open.writer.end(at));
                    self.append(&mut open, &text)?;
                    debug!(file = open.name, "a turn was recorded");
                }
            }
        }
        for (turn, text) in texts {
            let Some(mut open) = self.open.remove(&turn) else { continue };
            self.append(&mut open, &text)?;
            self.open.insert(turn, open);
        }
        Ok(())
    }

    /// Turns that are gone. Some of what they did may still be on its way.
    pub(super) fn gone(&self) -> Vec<usize> {
        let gone = self.open.iter().filter(|(_, open)| open.alive.strong_count() == 0);
        gone.map(|(turn, _)| *turn).collect()
    }

    /// Ends these recordings: there was no room to say that their turns are over.
    pub(super) fn close(&mut self, turns: Vec<usize>) {
        let end = |turn| RecorderJob::End { turn, at: None, lost: 0 };
        self.write(turns.into_iter().map(end).collect());
    }

    fn begin(&mut self, turn: usize, start: &TurnStart, alive: Weak<()>) -> io::Result<String> {
        let seconds = clock::unix_seconds();
        let header = Header {
            ibeam_recording: VERSION,
            ibeam: env!("CARGO_PKG_VERSION").to_owned(),
            backend: self.backend.name().to_owned(),
            time: clock::rfc3339(seconds),
            texts: self.texts,
            own_tools: self.own_tools,
        };
        let mask = if self.texts { Mask::with_texts() } else { Mask::redacted(random::bytes()) };
        let (writer, text) = RecordingWriter::begin(&header, start, mask, TURN_BYTES);
        let time: String = header.time.chars().filter(|c| !matches!(c, ':' | '-')).collect();
        let name = format!("{PREFIX}{time}-{}{SUFFIX}", ids::hex(&random::bytes::<4>()));
        self.make_room(FILES - 1)?;
        let mut options = OpenOptions::new();
        let options = private::owner_only(options.write(true).create_new(true));
        let file = options.open(self.dir.join(&name))?;
        self.known.insert(name.clone());
        self.open.insert(turn, OpenRecording { name, file, writer, alive, at: Millis(0) });
        Ok(text)
    }

    fn append(&mut self, open: &mut OpenRecording, text: &str) -> io::Result<()> {
        open.file.write_all(text.as_bytes())?;
        self.total = self.total.saturating_add(text.len() as u64);
        if self.total > self.most {
            self.make_room(FILES)?;
        }
        Ok(())
    }

    /// Removes the oldest recordings until there are no more than these, and no more bytes than
    /// are allowed. One that is being written stays.
    fn make_room(&mut self, most: usize) -> io::Result<()> {
        let mut found = self.recordings()?;
        // By name, and so by time.
        found.sort();
        self.total = found.iter().map(|(_, bytes)| *bytes).sum();
        let mut count = found.len();
        for (name, bytes) in found {
            if count <= most && self.total <= self.most {
                break;
            }
            if self.open.values().any(|open| open.name == name) {
                continue;
            }
            // Another process may have removed it.
            match fs::remove_file(self.dir.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            count -= 1;
            self.total = self.total.saturating_sub(bytes);
        }
        Ok(())
    }

    /// The recordings in the folder, with their sizes. Other files are none of ours, whatever their
    /// names are.
    fn recordings(&mut self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
                continue;
            }
            // It may be gone by now. Of a link, this is about the link itself.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() && (self.known.contains(&name) || begins_as_recording(&entry.path()))
            {
                found.push((name, meta.len()));
            }
        }
        self.known = found.iter().map(|(name, _)| name.clone()).collect();
        Ok(found)
    }
}

fn begins_as_recording(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true);
    private::never_follow(&mut options);
    let mut beginning = [0; BEGINNING.len()];
    let read = options.open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == BEGINNING
}
