//! What one WebSocket remembers of its own responses, whether or not they are kept
//! elsewhere. It is gone with the connection.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::store::StoredResponse;

/// More than a coding agent makes on one connection.
const COUNT: usize = 4096;

/// What was said, with pictures, before it no longer fits a model.
const BYTES: usize = 32 << 20;

/// What all connections remember together. A connection that adds to it when it is full forgets the
/// oldest of its own; its client then sends the whole conversation.
const ALL_BYTES: usize = 256 << 20;

/// How much all connections remember, in bytes.
pub(in crate::api) type RecentBytes = Arc<AtomicUsize>;

#[derive(Debug, Default)]
pub(in crate::api) struct RecentResponses {
    /// The newest last.
    responses: VecDeque<StoredResponse>,
    bytes: usize,
    room: RecentBytes,
}

impl RecentResponses {
    pub(in crate::api) fn new(room: RecentBytes) -> Self {
        Self { responses: VecDeque::new(), bytes: 0, room }
    }

    pub(in crate::api) fn remember(&mut self, response: StoredResponse) {
        // Of the others only what was said is needed.
        if let Some(last) = self.responses.back_mut() {
            let body = std::mem::take(&mut last.body);
            self.shrink(body.len());
        }
        self.bytes += response.size();
        self.room.fetch_add(response.size(), Ordering::Relaxed);
        self.responses.push_back(response);
        while (self.responses.len() > COUNT
            || self.bytes > BYTES
            || self.room.load(Ordering::Relaxed) > ALL_BYTES)
            && let Some(oldest) = self.responses.pop_front()
        {
            self.shrink(oldest.size());
        }
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.room.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The last response, if it is the one of that id.
    pub(super) fn last(&self, id: &str) -> Option<&StoredResponse> {
        self.responses.back().filter(|response| response.id == id)
    }

    /// The response of that id and those before it, the newest first, and the one that they
    /// go on from and that is not among them.
    pub(super) fn chain(&self, id: String) -> (Vec<&StoredResponse>, Option<String>) {
        let (mut chain, mut next) = (Vec::new(), Some(id));
        for response in self.responses.iter().rev() {
            if Some(&response.id) == next.as_ref() {
                next.clone_from(&response.previous);
                chain.push(response);
            }
        }
        (chain, next)
    }
}

impl Drop for RecentResponses {
    fn drop(&mut self) {
        self.room.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(id: usize, bytes: usize) -> StoredResponse {
        StoredResponse {
            id: id.to_string(),
            previous: id.checked_sub(1).map(|before| before.to_string()),
            status: "completed".to_owned(),
            body: "{}".to_owned(),
            input: "x".repeat(bytes),
            output: String::new(),
        }
    }

    fn ids(recent: &RecentResponses, id: &str) -> (Vec<String>, Option<String>) {
        let (chain, next) = recent.chain(id.to_owned());
        (chain.into_iter().map(|response| response.id.clone()).collect(), next)
    }

    #[test]
    fn known_part_of_a_chain_is_returned() {
        let mut recent = RecentResponses::default();
        for id in [3, 4, 7, 5] {
            recent.remember(response(id, 1));
        }
        let chain = ["5", "4", "3"].map(ToOwned::to_owned).to_vec();
        assert_eq!(ids(&recent, "5"), (chain, Some("2".to_owned())));
        assert_eq!(ids(&recent, "9"), (Vec::new(), Some("9".to_owned())));
        assert!(recent.last("5").is_some() && recent.last("4").is_none());
    }

    #[test]
    fn oldest_recent_responses_are_forgotten() {
        let mut recent = RecentResponses::default();
        for id in 0..=COUNT {
            recent.remember(response(id, 1));
        }
        assert_eq!((recent.responses.len(), recent.bytes), (COUNT, COUNT + 2));
        assert_eq!(ids(&recent, "1").1.as_deref(), Some("0"));
        recent.remember(response(5000, BYTES - 2));
        assert_eq!((recent.responses.len(), recent.bytes), (1, BYTES));
        recent.remember(response(5001, BYTES));
        assert_eq!((recent.responses.len(), recent.bytes), (0, 0));
    }
    #[test]
    fn all_connections_share_one_memory_limit() {
        let room = RecentBytes::default();
        let mut others: Vec<RecentResponses> =
            (0..9).map(|_| RecentResponses::new(room.clone())).collect();
        for (id, recent) in others.iter_mut().enumerate() {
            recent.remember(response(id, BYTES - 2));
        }
        assert!(others.last().unwrap().responses.is_empty(), "eight of them fill it");
        assert_eq!(room.load(Ordering::Relaxed), ALL_BYTES);
        others.clear();
        assert_eq!(room.load(Ordering::Relaxed), 0);
    }
}
