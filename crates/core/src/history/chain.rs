//! The fingerprint of a conversation's past. Clients do not send an answer back as they
//! got it: reasoning is dropped, white space trimmed, text moved before or after the
//! calls, arguments reformatted, adjacent results put in another order. None of that
//! makes another conversation; an edited text, another result or another call does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use sha2::{Digest as _, Sha256};

use crate::model::{Item, Message, Part, Role, ToolResult, TurnEvent, ids::hex};

/// Stands for everything that was said up to some point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

/// A past that is still growing. Holds hashes, not texts.
#[derive(Clone)]
pub struct HistoryChain {
    /// All that cannot change any more.
    sealed: Sha256,
    open: OpenRecord,
}

/// What the next item may still belong to.
#[derive(Clone, Default)]
enum OpenRecord {
    #[default]
    Nothing,
    /// All that the assistant says between two inputs.
    Answer(OpenAnswer),
    /// Adjacent results, by the id of their call.
    Results(BTreeMap<String, [u8; 32]>),
}

#[derive(Clone, Default)]
struct OpenAnswer {
    /// `None` until there is any.
    text: Option<AnswerText>,
    calls: BTreeSet<(String, String)>,
}

/// The text of an answer without its white space. Answers come in pieces of a word or two, and
/// hashing each of them by itself is what costs most: so a few hundred bytes are hashed at a time.
#[derive(Clone, Default)]
struct AnswerText {
    hash: Sha256,
    pending: Vec<u8>,
}

/// How much text is hashed at a time.
const BATCH: usize = 512;

/// The first byte of a record. Never renumbered: stored fingerprints depend on it.
#[derive(Clone, Copy)]
enum RecordTag {
    User = 1,
    Answer = 2,
    Results = 3,
}

// === impl Chain ===

impl HistoryChain {
    #[must_use]
    pub fn of(items: &[Item]) -> Self {
        let sealed = Sha256::new().chain_update(b"ibeam history v1\0");
        let mut chain = Self { sealed, open: OpenRecord::Nothing };
        chain.extend(items);
        chain
    }

    /// Takes in further items, as [`Self::of`] would have with those before them.
    pub fn extend(&mut self, items: &[Item]) {
        for item in items {
            self.push(item);
        }
    }

    /// Takes in one event of the answer.
    pub fn hear(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(text) => self.say(text),
            TurnEvent::ToolCallBegin { id, name } => self.call(id.as_str(), name),
            TurnEvent::Started
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. }
            | TurnEvent::Usage(_)
            | TurnEvent::Finished(_)
            | TurnEvent::Failed(_) => {}
        }
    }

    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut whole = self.clone();
        let open = std::mem::take(&mut whole.open);
        whole.seal(open);
        Fingerprint(whole.sealed.finalize().into())
    }

    fn push(&mut self, item: &Item) {
        match item {
            Item::Message(Message { role: Role::Assistant, parts }) => {
                for text in parts.iter().filter_map(Part::text) {
                    self.say(text);
                }
            }
            Item::Message(Message { role: Role::User, parts }) => self.ask(parts),
            Item::ToolCall(call) => self.call(&call.id, &call.name),
            Item::ToolResult(result) => self.result(result),
            Item::Reasoning(_) => {}
        }
    }

    fn ask(&mut self, parts: &[Part]) {
        let open = std::mem::take(&mut self.open);
        self.seal(open);
        let mut hash = Sha256::new();
        for part in parts {
            match part {
                Part::Text(text) => match text.trim() {
                    "" => {}
                    text => field(&mut hash, b't', text.as_bytes()),
                },
                Part::Image(image) => field(&mut hash, b'i', image.bytes()),
            }
        }
        self.record(RecordTag::User, &hash.finalize().into());
    }

    /// White space never counts: clients trim the pieces of an answer before they put
    /// them together.
    fn say(&mut self, said: &str) {
        if !said.trim_start().is_empty() {
            self.answer(|answer| answer.text.get_or_insert_default().push(said));
        }
    }

    /// Arguments do not count: clients reformat them, and the id is unique.
    fn call(&mut self, id: &str, name: &str) {
        self.answer(|answer| {
            answer.calls.insert((id.to_owned(), name.to_owned()));
        });
    }

    fn result(&mut self, result: &ToolResult) {
        let mut hash = Sha256::new();
        field(&mut hash, b't', result.text().trim().as_bytes());
        for image in result.content.iter().filter_map(Part::image) {
            field(&mut hash, b'i', image.bytes());
        }
        let digest = hash.finalize().into();
        let mut results = match std::mem::take(&mut self.open) {
            OpenRecord::Results(results) => results,
            open @ (OpenRecord::Nothing | OpenRecord::Answer(_)) => {
                self.seal(open);
                BTreeMap::new()
            }
        };
        results.insert(result.call_id.clone(), digest);
        self.open = OpenRecord::Results(results);
    }

    fn answer(&mut self, change: impl FnOnce(&mut OpenAnswer)) {
        let mut answer = match std::mem::take(&mut self.open) {
            OpenRecord::Answer(answer) => answer,
            open @ (OpenRecord::Nothing | OpenRecord::Results(_)) => {
                self.seal(open);
                OpenAnswer::default()
            }
        };
        change(&mut answer);
        self.open = OpenRecord::Answer(answer);
    }

    fn seal(&mut self, open: OpenRecord) {
        let mut hash = Sha256::new();
        let record = match open {
            OpenRecord::Nothing => return,
            OpenRecord::Answer(OpenAnswer { text, calls }) => {
                if let Some(text) = text {
                    field(&mut hash, b't', &text.digest());
                }
                for (id, name) in calls {
                    field(&mut hash, b'c', id.as_bytes());
                    field(&mut hash, b'n', name.as_bytes());
                }
                RecordTag::Answer
            }
            OpenRecord::Results(results) => {
                for (id, result) in results {
                    field(&mut hash, b'c', id.as_bytes());
                    field(&mut hash, b'r', &result);
                }
                RecordTag::Results
            }
        };
        self.record(record, &hash.finalize().into());
    }

    fn record(&mut self, record: RecordTag, digest: &[u8; 32]) {
        field(&mut self.sealed, record as u8, digest);
    }
}

impl AnswerText {
    fn push(&mut self, said: &str) {
        if said.is_ascii() {
            let solid = |byte: &u8| !matches!(byte, b'\t'..=b'\r' | b' ');
            self.pending.extend(said.bytes().filter(solid));
        } else {
            said.split_whitespace().for_each(|word| self.pending.extend(word.bytes()));
        }
        if self.pending.len() >= BATCH {
            self.hash.update(&self.pending);
            self.pending.clear();
            // A whole answer of the history can be long, and the chain stays.
            self.pending.shrink_to(2 * BATCH);
        }
    }

    fn digest(self) -> [u8; 32] {
        self.hash.chain_update(&self.pending).finalize().into()
    }
}

impl fmt::Debug for HistoryChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.fingerprint()).finish()
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", hex(&self.0))
    }
}

/// Adds a field that cannot run into its neighbours.
pub(super) fn field(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(bytes);
}
