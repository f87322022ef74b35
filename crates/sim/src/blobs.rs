//! Blobs: their ids, and the cache that keeps them across streams if it is switched on.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// The size of the cache in bytes; the oldest blobs are evicted first.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The SHA-256 of a blob.
pub(crate) type BlobId = [u8; 32];

#[must_use]
pub(crate) fn id_of(data: &[u8]) -> BlobId {
    Sha256::digest(data).into()
}

/// Blobs across streams. The real service keeps some; ours is off by default, so that a client's
/// savings are not due to the simulator.
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
