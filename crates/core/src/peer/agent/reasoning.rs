//! Reasoning of earlier answers that can be sent again. A provider takes its model's reasoning back
//! only with the signature that it made for exactly this text. Clients do not have it: the service
//! stores it with the answer, and ibeam remembers it for when the conversation has to be rebuilt.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, value::RawValue};
use sha2::{Digest as _, Sha256};

use super::{blobs::StoredReasoning, request::RunSpec};
use crate::{
    model::{Item, TurnRequest},
    models::AUTO_WIRE_ID,
};

/// So many texts are remembered: the answers of some dozens of long conversations.
const TEXTS: usize = 1024;
/// And so many bytes of signatures, which may be as long as the reasoning itself.
const BYTES: usize = 4 << 20;
/// The longest signature and the longest options.
const SIGNATURE: usize = 128 << 10;
const OPTIONS: usize = 4 << 10;

/// What the provider wants to see beside a text of its model.
#[derive(Clone)]
pub struct SignedReasoning {
    pub signature: String,
    /// JSON, as the service stored it.
    pub options: Box<RawValue>,
}

/// Reasoning in a request that can be sent again.
#[derive(Clone, Debug)]
pub struct SignedItem {
    /// Which item of the request it is.
    pub at: usize,
    pub signed: SignedReasoning,
}

/// So many parts of one stored answer are noted.
const PARTS: usize = 64;

/// Whose conversations they are: nothing of one account or API key reaches another.
pub type ReasoningScope = [u8; 32];

/// Signatures by scope, model and text, without the texts.
#[derive(Clone, Debug, Default)]
struct SignatureStore {
    entries: HashMap<[u8; 32], UsedSignature>,
    bytes: usize,
    /// Counts uses, to find the oldest.
    uses: u64,
}

#[derive(Clone, Debug)]
struct UsedSignature {
    signed: SignedReasoning,
    last_use: u64,
}

/// The signatures that all turns of this process have seen.
#[derive(Debug, Default)]
pub(super) struct SignatureMemory(Mutex<SignatureStore>);

/// The signatures that one turn goes by: those of its request when it began, and those that it has
/// seen itself. What other turns learn meanwhile does not change what this one sends.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnSignatures {
    store: SignatureStore,
    use_of_them: ReplayUse,
}

/// Whether reasoning is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplayUse {
    #[default]
    Sent,
    /// It may have been the reason of a failure.
    LeftOut,
    /// It is the likely reason, if the run works without it.
    Blamed,
}

impl SignedReasoning {
    /// `None`: it is too large, or not in the form in which a replay is known to work.
    pub(super) fn of(stored: &StoredReasoning<'_>) -> Option<Self> {
        let fits = stored.signature.len() <= SIGNATURE && !stored.text.is_empty();
        let options = stored.options.filter(|options| fits && options.get().len() <= OPTIONS)?;
        let options: Value = serde_json::from_str(options.get()).ok()?;
        let model = options.pointer("/cursor/modelName").and_then(Value::as_str);
        model.filter(|model| !model.is_empty())?;
        let options = RawValue::from_string(options.to_string()).ok()?;
        Some(Self { signature: stored.signature.clone(), options })
    }

    fn bytes(&self) -> usize {
        const ENTRY: usize = 160;
        ENTRY + self.signature.len() + self.options.get().len()
    }
}

impl fmt::Debug for SignedReasoning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SignedReasoning({} bytes)", self.bytes())
    }
}

impl SignatureStore {
    fn insert(&mut self, key: [u8; 32], signed: SignedReasoning) {
        self.uses += 1;
        self.bytes += signed.bytes();
        let entry = UsedSignature { signed, last_use: self.uses };
        if let Some(old) = self.entries.insert(key, entry) {
            self.bytes -= old.signed.bytes();
        }
        while self.entries.len() > TEXTS || self.bytes > BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(key) = oldest.map(|(key, _)| *key) else { return };
            if let Some(old) = self.entries.remove(&key) {
                self.bytes -= old.signed.bytes();
            }
        }
    }

    fn use_one(&mut self, key: [u8; 32]) -> Option<SignedReasoning> {
        self.uses += 1;
        let entry = self.entries.get_mut(&key)?;
        entry.last_use = self.uses;
        Some(entry.signed.clone())
    }
}

impl SignatureMemory {
    pub(super) fn note(
        &self,
        scope: &ReasoningScope,
        model: &str,
        text: &str,
        signed: SignedReasoning,
    ) {
        self.store().insert(key(scope, model, text), signed);
    }

    /// The reasoning in a request of which this model's signature is known.
    pub(super) fn of(
        &self,
        scope: &ReasoningScope,
        model: &str,
        request: &TurnRequest,
    ) -> Vec<SignedItem> {
        let thoughts = request.items.iter().enumerate().filter_map(|(at, item)| match item {
            Item::Reasoning(reasoning) => Some((at, key(scope, model, &reasoning.text))),
            Item::Message(_) | Item::ToolCall(_) | Item::ToolResult(_) => None,
        });
        let thoughts: Vec<_> = thoughts.collect();
        if thoughts.is_empty() {
            return Vec::new();
        }
        let mut store = self.store();
        let signed = |(at, key)| Some(SignedItem { at, signed: store.use_one(key)? });
        thoughts.into_iter().filter_map(signed).collect()
    }

    fn store(&self) -> MutexGuard<'_, SignatureStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnSignatures {
    /// `refused`: the service is known to refuse them.
    pub(super) fn new(request: &TurnRequest, known: Vec<SignedItem>, refused: bool) -> Self {
        let mut new = Self::default();
        if refused {
            new.use_of_them = ReplayUse::LeftOut;
        }
        for SignedItem { at, signed } in known {
            if let Some(Item::Reasoning(reasoning)) = request.items.get(at) {
                new.note(&reasoning.text, signed);
            }
        }
        new
    }

    pub(super) fn note(&mut self, text: &str, signed: SignedReasoning) {
        self.store.insert(key(&TURN, "", text), signed);
    }

    /// What makes this text one that can be sent.
    pub(super) fn of(&self, text: &str) -> Option<&SignedReasoning> {
        if self.use_of_them != ReplayUse::Sent || self.store.entries.is_empty() {
            return None;
        }
        self.store.entries.get(&key(&TURN, "", text)).map(|entry| &entry.signed)
    }

    /// From here on reasoning is left out. `blamed`: it probably made the run fail.
    pub(super) fn leave_out(&mut self, blamed: bool) {
        self.use_of_them = if blamed { ReplayUse::Blamed } else { ReplayUse::LeftOut };
    }

    /// Leaving it out did not help.
    pub(super) fn acquit(&mut self) {
        if self.use_of_them == ReplayUse::Blamed {
            self.use_of_them = ReplayUse::LeftOut;
        }
    }

    pub(super) fn is_blamed(&self) -> bool {
        self.use_of_them == ReplayUse::Blamed
    }

    /// About how many bytes all of it takes.
    pub(super) fn bytes(&self) -> usize {
        self.store.bytes
    }
}

impl RunSpec {
    /// Remembers reasoning that the service has stored with its signature, in a blob that this run did
    /// not have: what came with a kept state may be another model's.
    pub(super) fn note_reasoning(&mut self, stored: &[StoredReasoning<'_>]) {
        if !is_one_model(&self.model.id) {
            return;
        }
        for stored in stored.iter().take(PARTS) {
            if let Some(signed) = SignedReasoning::of(stored) {
                let (memory, model) = (&self.memory.signatures, &self.model.id);
                memory.note(&self.scope, model, &stored.text, signed.clone());
                self.signatures.note(&stored.text, signed);
            }
        }
    }
}

/// Whether reasoning of one run can be sent to another one of this name: behind the name of the
/// router there may be another model each time.
fn is_one_model(model: &str) -> bool {
    model != AUTO_WIRE_ID
}

/// The scope of what belongs to one turn.
const TURN: ReasoningScope = [0; 32];

fn key(scope: &ReasoningScope, model: &str, text: &str) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(scope);
    hash.update((model.len() as u64).to_be_bytes());
    hash.update(model);
    hash.update(text);
    hash.finalize().into()
}

#[cfg(test)]
#[path = "reasoning_tests.rs"]
mod tests;
