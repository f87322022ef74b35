//! The calls that the model makes in one generation, as far as the backend says. The client gets
//! them together when the last one is there.

use std::collections::HashSet;

use super::{
    kept_id::{ids_memory, kept_id},
    stream::BEGUN_CAP,
};

#[derive(Debug, Default)]
pub(super) struct Generation {
    /// How many calls there are, with those that no client sees. Only newer builds say so.
    listed: Option<usize>,
    /// Calls that were named, and neither made nor refused yet.
    named: HashSet<String>,
    /// Calls that were made, refused or run by the backend itself.
    settled: usize,
    /// Times that the model looked tools up since then, without a number of calls before it. They
    /// may have been a generation of their own.
    lookups: usize,
    /// Their ids, with those of earlier generations: some notices come late.
    known: HashSet<String>,
}

impl Generation {
    /// The backend says how many calls this generation makes.
    pub(super) fn list(&mut self, count: u32) {
        self.end_complete();
        let lookups = std::mem::take(&mut self.lookups);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if self.settled == 0 && self.named.is_empty() && count <= lookups {
            return;
        }
        self.listed = Some(count);
    }

    /// The model has looked tools up. No client sees that.
    pub(super) fn look_up(&mut self, id: &str) {
        if self.listed.is_some() {
            self.settle(id, true);
        } else {
            self.lookups += 1;
            if self.named.is_empty() {
                // What the lookup itself took is not part of the calls that follow.
                self.settled = 0;
            }
        }
    }

    /// The backend names a call that it may make.
    pub(super) fn name(&mut self, id: &str) {
        let id = kept_id(id);
        if self.known.contains(&*id) {
            return;
        }
        self.end_complete();
        if self.named.len() < BEGUN_CAP {
            self.named.insert(id.into_owned());
        }
    }

    /// A call was made, or has ended without being made. `listed`: it is one of those whose number
    /// the backend announces. Returns whether this is new; a call without an id always is.
    pub(super) fn settle(&mut self, id: &str, listed: bool) -> bool {
        let id = kept_id(id);
        self.named.remove(&*id);
        if self.known.len() >= BEGUN_CAP {
            self.known.clear();
        }
        let new = id.is_empty() || self.known.insert(id.into_owned());
        if new && listed {
            self.end_complete();
            self.settled += 1;
        }
        new
    }

    /// How many calls are still to come.
    pub(super) fn ahead(&self) -> usize {
        match self.listed {
            Some(count) => count.saturating_sub(self.settled),
            None => self.named.len(),
        }
    }

    /// Whether the backend said how many calls there are, and all of them came.
    pub(super) fn is_complete(&self) -> bool {
        self.listed.is_some() && self.ahead() == 0
    }

    /// Calls beyond those that were listed are of the next generation: between two of them
    /// there may be nothing else.
    fn end_complete(&mut self) {
        if self.is_complete() {
            self.end();
        }
    }

    /// The model produces something new. What was listed and has not come still will.
    pub(super) fn next(&mut self) {
        if self.ahead() == 0 {
            self.end();
        }
    }

    /// A call that the backend made by itself is over. Unless more calls are known of, it was all
    /// of its generation: such calls are not listed everywhere.
    pub(super) fn end_own_call(&mut self) {
        if self.listed.is_none() && self.named.is_empty() {
            self.end();
        }
    }

    /// About how many bytes the ids of its calls take.
    pub(super) fn memory(&self) -> usize {
        ids_memory(&self.named) + ids_memory(&self.known)
    }

    /// Nothing more of it comes.
    pub(super) fn end(&mut self) {
        self.listed = None;
        self.named.clear();
        self.settled = 0;
        self.lookups = 0;
    }
}
