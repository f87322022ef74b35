//! What the simulator remembers between runs: how often rules were used, which conversation is
//! stuck, where interrupted turns stopped, and who owns a checkpoint.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;

use super::resume::InterruptedTurn;
use crate::{
    blobs::BlobId,
    scenario::{RunFacts, ScenarioRule},
};

/// Interrupted turns that can be resumed; the oldest are forgotten.
const SAVED_CAP: usize = 4096;
/// Images remembered for the check of their uuids.
const IMAGES_CAP: usize = 4096;
/// Checkpoints whose account is known.
const BOUND_CAP: usize = 65_536;

#[derive(Debug)]
pub(crate) struct ConversationMemory(Mutex<MemoryEntries>);

#[derive(Debug, Default)]
struct MemoryEntries {
    hits: Vec<u64>,
    stuck: Option<String>,
    saved: HashMap<String, InterruptedTurn>,
    order: VecDeque<String>,
    images: HashMap<(String, BlobId), String>,
    /// Accounts by the last turn of a checkpoint.
    bound: HashMap<Bytes, u64>,
    bound_order: VecDeque<Bytes>,
}

/// Which rule a run plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleChoice {
    Rule(usize),
    /// None matches, so the built-in assistant answers.
    Builtin,
    /// That depends on the history, which was not read yet.
    Undecided,
}

impl ConversationMemory {
    pub(crate) fn new(rules: usize) -> Self {
        Self(Mutex::new(MemoryEntries { hits: vec![0; rules], ..MemoryEntries::default() }))
    }

    /// The first rule that matches and has uses left; the use is counted.
    pub(crate) fn choose(&self, rules: &[ScenarioRule], facts: &RunFacts<'_>) -> RuleChoice {
        let mut state = self.0.lock();
        for (at, (rule, hits)) in rules.iter().zip(&mut state.hits).enumerate() {
            if rule.times.is_some_and(|times| *hits >= times) {
                continue;
            }
            match rule.when.fits(facts) {
                Some(false) => {}
                Some(true) => {
                    *hits += 1;
                    return RuleChoice::Rule(at);
                }
                None => return RuleChoice::Undecided,
            }
        }
        RuleChoice::Builtin
    }

    /// How often each rule was used, to be carried over to the next process.
    pub(crate) fn hits(&self) -> Vec<u64> {
        self.0.lock().hits.clone()
    }

    pub(crate) fn set_hits(&self, hits: &[u64]) {
        let mut state = self.0.lock();
        for (count, hits) in state.hits.iter_mut().zip(hits) {
            *count = *hits;
        }
    }

    /// Whether this is the conversation that is stuck: the first one asked about.
    pub(crate) fn stuck(&self, id: &str) -> bool {
        let mut state = self.0.lock();
        state.stuck.get_or_insert_with(|| id.to_owned()) == id
    }

    pub(crate) fn save(&self, id: &str, saved: InterruptedTurn) {
        let mut state = self.0.lock();
        if state.saved.insert(id.to_owned(), saved).is_none() {
            state.order.push_back(id.to_owned());
        }
        if state.order.len() > SAVED_CAP
            && let Some(oldest) = state.order.pop_front()
        {
            state.saved.remove(&oldest);
        }
    }

    pub(crate) fn take_saved(&self, id: &str) -> Option<InterruptedTurn> {
        let mut state = self.0.lock();
        let saved = state.saved.remove(id)?;
        state.order.retain(|other| other != id);
        Some(saved)
    }

    /// Records the account of a checkpoint.
    pub(crate) fn bind(&self, turn: &Bytes, account: u64) {
        let mut state = self.0.lock();
        if state.bound.insert(turn.clone(), account).is_none() {
            state.bound_order.push_back(turn.clone());
        }
        if state.bound_order.len() > BOUND_CAP
            && let Some(oldest) = state.bound_order.pop_front()
        {
            state.bound.remove(&oldest);
        }
    }

    /// Whether a checkpoint belongs to another account.
    pub(crate) fn foreign(&self, turn: &Bytes, account: u64) -> bool {
        self.0.lock().bound.get(turn).is_some_and(|owner| *owner != account)
    }

    /// Whether an image came earlier under another uuid.
    pub(crate) fn renamed_image(&self, conversation: &str, id: BlobId, uuid: &str) -> bool {
        let mut state = self.0.lock();
        if state.images.len() >= IMAGES_CAP {
            state.images.clear();
        }
        let known =
            state.images.entry((conversation.to_owned(), id)).or_insert_with(|| uuid.to_owned());
        known != uuid
    }
}
