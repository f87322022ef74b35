//! Counts what the backend sends and we do not understand. Drift is normal, but must never be
//! silent.

use std::collections::{BTreeMap, BTreeSet};

use ibeam_proto::fields::SERVER_MESSAGE;

use crate::codec::pbwalk::{self, MAX_KINDS, UnknownField};

/// Text deltas are checked one in this many; everything else always.
const SAMPLE: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Drift {
    fields: BTreeMap<UnknownField, u64>,
    undecodable: u64,
    unknown_arms: u64,
    /// Those of the fields that were the whole of a message.
    arms: BTreeSet<UnknownField>,
    /// The unknown fields of the newest message.
    newest: Vec<UnknownField>,
    seen: u32,
}

/// What one turn did not understand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftReport {
    pub unknown_fields: Vec<(UnknownField, u64)>,
    pub undecodable_messages: u64,
    pub unknown_arms: u64,
    /// Those of the unknown fields that were the whole of a message.
    pub arms: Vec<UnknownField>,
}

impl DriftReport {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

impl Drift {
    pub(crate) fn inspect(&mut self, message: &[u8], frequent: bool) {
        self.seen = self.seen.wrapping_add(1);
        self.newest.clear();
        if frequent && !self.seen.is_multiple_of(SAMPLE) {
            return;
        }
        for (unknown, count) in pbwalk::unknown_fields(SERVER_MESSAGE, message) {
            if self.fields.len() < MAX_KINDS || self.fields.contains_key(&unknown) {
                self.newest.push(unknown.clone());
                *self.fields.entry(unknown).or_default() += count;
            }
        }
    }

    pub(crate) fn undecodable(&mut self) {
        self.undecodable += 1;
    }

    /// The newest message is one that the schema does not have: it is in an unknown field of
    /// `holder`.
    pub(crate) fn unknown_arm(&mut self, holder: &str) {
        self.unknown_arms += 1;
        self.arms.extend(self.newest.drain(..).filter(|unknown| unknown.message == holder));
    }

    pub(crate) fn report(&self) -> DriftReport {
        DriftReport {
            unknown_fields: self.fields.iter().map(|(k, n)| (k.clone(), *n)).collect(),
            undecodable_messages: self.undecodable,
            unknown_arms: self.unknown_arms,
            arms: self.arms.iter().cloned().collect(),
        }
    }
}
