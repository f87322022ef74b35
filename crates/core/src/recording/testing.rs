//! Records turns of tests and replays them: what a turn does depends on nothing but its recording.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use super::{Header, Mask, RecordingWriter, TurnStart, VERSION, replay::Replay};
use crate::{
    backend::BackendKind,
    model::{Millis, TurnRequest, ids::SessionId},
    peer::{LinkMessage, Peer, PlanRecord},
    turn::{Settings, TapeEntry, Turn, TurnSeed, TurnTape},
};

type Entries = Arc<Mutex<Vec<(Millis, TapeEntry)>>>;

#[derive(Debug)]
struct TestTape(Entries);

impl TurnTape for TestTape {
    fn note(&mut self, at: Millis, entry: TapeEntry) {
        self.0.lock().unwrap().push((at, entry));
    }
}

/// What happened in a turn. Dropped, it checks that a replay of it does the same, with texts and
/// with placeholders.
#[derive(Debug)]
pub(crate) struct TapedTurn {
    start: TurnStart,
    entries: Entries,
    backend: BackendKind,
    checked: bool,
}

impl TapedTurn {
    /// Makes a turn and records it.
    pub(crate) fn begin<P: Peer>(
        request: TurnRequest,
        plan: P::Plan,
        session: SessionId,
        settings: Settings,
        seed: [u8; 16],
    ) -> (Turn<P>, Self) {
        let record = P::record_plan(&plan);
        let backend = match &record {
            PlanRecord::Agent(_) => BackendKind::Agent,
            PlanRecord::Child(_) => BackendKind::Cli,
        };
        let start = TurnStart {
            request: request.clone(),
            plan: record,
            session,
            settings: settings.clone(),
            seed: TurnSeed::from(seed),
        };
        let entries = Entries::default();
        let mut turn = Turn::new(request, plan, session, settings, seed, Millis(0));
        turn.record(Box::new(TestTape(Arc::clone(&entries))));
        (turn, Self { start, entries, backend, checked: false })
    }

    /// The whole recording.
    pub(crate) fn text(&self, mask: Mask) -> String {
        let (mut writer, text, last) = self.written(mask, usize::MAX);
        text + &writer.end(last)
    }

    /// The recording so far, with at most about so many bytes.
    pub(crate) fn limited(&self, mask: Mask, most: usize) -> String {
        self.written(mask, most).1
    }

    fn written(&self, mask: Mask, most: usize) -> (RecordingWriter, String, Millis) {
        let header = Header {
            ibeam_recording: VERSION,
            ibeam: "0.0.0".to_owned(),
            backend: self.backend.name().to_owned(),
            time: "2026-11-19T00:00:00Z".to_owned(),
            texts: mask.keeps_texts(),
            own_tools: false,
        };
        let (mut writer, mut text) = RecordingWriter::begin(&header, &self.start, mask, most);
        let mut last = Millis(0);
        for (at, entry) in self.entries.lock().unwrap().iter() {
            text.push_str(&writer.note(*at, entry));
            last = *at;
        }
        (writer, text, last)
    }

    /// It is not to be replayed: the test changed more than what a turn is given.
    pub(crate) fn forget(&mut self) {
        self.checked = true;
    }

    /// A replay is the same only with texts: the machine looks into one.
    pub(crate) fn check_with_texts(&mut self) {
        self.check_as(Mask::with_texts());
    }

    /// Some tests make hundreds of turns, or very large ones.
    fn is_worth_a_check(&self) -> bool {
        static TURNS: AtomicUsize = AtomicUsize::new(0);
        let number = TURNS.fetch_add(1, Ordering::Relaxed);
        let size = |(_, entry): &(Millis, TapeEntry)| match entry {
            TapeEntry::Heard(LinkMessage::Bytes(bytes)) => bytes.len(),
            TapeEntry::Resumed(request) => request.bytes(),
            _ => 0,
        };
        let bytes: usize = self.entries.lock().unwrap().iter().map(size).sum();
        (number < 32 || number.is_multiple_of(16)) && bytes < 4 << 20
    }

    fn check_as(&mut self, mask: Mask) {
        self.checked = true;
        // Without its end: a test may leave some of what the turn does unread.
        let text = self.limited(mask, usize::MAX);
        if let Err(differences) = Replay::same_as_recorded(&text) {
            panic!("a replay differs:\n{differences}\n\n{text}");
        }
    }
}

impl Drop for TapedTurn {
    fn drop(&mut self) {
        if !self.checked && !std::thread::panicking() && self.is_worth_a_check() {
            self.check_as(Mask::with_texts());
            self.check_as(Mask::redacted([7; 32]));
        }
    }
}
