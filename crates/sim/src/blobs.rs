//! Blobs: their ids, and the store that outlives a stream when told to.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Bytes kept across streams at most; the oldest blobs go first.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The SHA-256 of a blob.
pub(crate) type BlobId = [u8; 32];

#[must_use]
pub(crate) fn id_of(data: &[u8]) -> BlobId {
    Sha256::digest(data).into()
}

/// The store across streams. The real service has one; ours is off by default, so that
/// what a client saves by it is not the simulator's gift.
#[derive(Debug, Default)]
pub(crate) struct BlobCache(Mutex<CachedBlobs>);

#[derive(Debug, Default)]
struct CachedBlobs {
    blobs: HashMap<BlobId, Bytes>,
    order: VecDeque<BlobId>,
    bytes: usize,
}

impl BlobCache {
    pub(crate) fn get(&self, id: &BlobId) -> Option<Bytes> {
        self.0.lock().blobs.get(id).cloned()
    }

    pub(crate) fn put(&self, id: BlobId, data: Bytes) {
        let mut store = self.0.lock();
        if data.len() > KEPT_BYTES || store.blobs.contains_key(&id) {
            return;
        }
        store.bytes += data.len();
        store.blobs.insert(id, data);
        store.order.push_back(id);
        while store.bytes > KEPT_BYTES {
            let Some(oldest) = store.order.pop_front() else { break };
            if let Some(data) = store.blobs.remove(&oldest) {
                store.bytes -= data.len();
            }
        }
    }
}
