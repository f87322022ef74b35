//! The room in a state that is continued: the service takes only so many entries of a prompt that
//! is ours. Its own prompts are its own affair, because it shortens them itself.

use bytes::Bytes;

use super::{
    rebuild::PromptOwner,
    request::RunSpec,
    roots::{self, EntryStyle},
    state,
};
use crate::model::Item;

impl RunSpec {
    /// This state, and these items behind it. A state of ours that has no room for them is shortened.
    pub(super) fn append(&mut self, state: &Bytes, items: &[Item]) -> Bytes {
        let owner = self.prompt_of(state);
        let (style, most) = (self.style(owner), self.around.facts.max_roots);
        if owner == PromptOwner::Service || items.is_empty() {
            return state::append(state, items, &style, most, &self.signatures, &mut self.blobs);
        }
        let new = self.new_entries(state, items, &style);
        let state = match state::root_ids(state).count() + new > most {
            true => self.shorten_kept(state, owner, new),
            false => state.clone(),
        };
        let room = most.saturating_sub(state::root_ids(&state).count());
        state::append(&state, items, &style, room, &self.signatures, &mut self.blobs)
    }

    /// Whether the service takes this state with these items, and so many further entries, behind it.
    pub(super) fn has_room(&self, state: &Bytes, items: &[Item], further: usize) -> bool {
        let owner = self.prompt_of(state);
        let new = self.new_entries(state, items, &self.style(owner)) + further;
        owner == PromptOwner::Service
            || state::root_ids(state).count() + new <= self.around.facts.max_roots
    }

    /// How many entries these items become; not exactly where there is room for them in any case.
    fn new_entries(&self, state: &Bytes, items: &[Item], style: &EntryStyle) -> usize {
        // With missing results, and images that follow the results.
        let most = 2 * items.len() + 1;
        if state::root_ids(state).count() + most < self.around.facts.max_roots {
            return most;
        }
        roots::count(items, style, &self.signatures)
    }

    /// The state with its oldest entries as one text, so that there is room for so many new ones.
    fn shorten_kept(&mut self, state: &Bytes, owner: PromptOwner, new: usize) -> Bytes {
        let mut ids: Vec<Bytes> = state::root_ids(state).map(Bytes::copy_from_slice).collect();
        let mut rest = ids.split_off(owner.entries().min(ids.len()));
        let most = roots::shortened(self.around.facts.max_roots);
        let kept = most.saturating_sub(ids.len() + 1 + new);
        let mut count = rest.len().saturating_sub(kept);
        let is_result =
            |id: &Bytes| self.blobs.get(id).is_some_and(|blob| roots::has_results(&blob));
        while rest.get(count).is_some_and(is_result) {
            count += 1;
        }
        if count < 2 {
            return state.clone();
        }
        let newest = rest.split_off(count);
        let oldest: Vec<Bytes> = rest.iter().filter_map(|id| self.blobs.get(id)).collect();
        ids.extend(roots::put_earlier(oldest.iter(), &mut self.blobs));
        ids.extend(newest);
        state::with_roots(state, ids)
    }
}

impl PromptOwner {
    /// With how many entries of the system prompt it begins.
    fn entries(self) -> usize {
        match self {
            Self::Service => 0,
            Self::Client => 1,
            Self::Both => 2,
        }
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
