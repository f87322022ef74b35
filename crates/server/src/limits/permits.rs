//! Permits for work that takes long. Keys get them in turn: however much one key has queued,
//! another key waits for one piece of work of each, not for all of it.

use ibeam_core::limits::{GateRules, Quota, SlotOwner, SlotRequest};

use super::{Permit, PermitClaim, TurnSlots};
use crate::keys::Hash;

/// A number of permits. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Permits(TurnSlots);

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        // The memory for request bodies bounds how many wait.
        Self(TurnSlots::new(GateRules { total: count, reserve: 0, waiting: usize::MAX }))
    }

    /// Waits for a permit. Dropping it gives it back; so does leaving while it is waited for.
    ///
    /// `None` never comes, as the queue has no limit.
    pub(crate) async fn acquire(&self, key: &Hash) -> Option<Permit> {
        let quota = Quota::alone(usize::MAX);
        self.0.queue(PermitClaim { owner: owner(key), quota }, SlotRequest::New).await
    }

    /// How many are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.0.free()
    }
}

/// Requests with one key are of one owner.
pub(crate) fn owner(key: &Hash) -> SlotOwner {
    SlotOwner(key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_long_queue_of_one_key_does_not_hold_up_another_key() {
        let permits = Permits::new(1);
        let running = poll(pin!(permits.acquire(&[1; 32]))).unwrap().unwrap();
        let mut queued: Vec<_> = (0..3).map(|_| Box::pin(permits.acquire(&[1; 32]))).collect();
        for request in &mut queued {
            assert!(poll(request.as_mut()).is_none());
        }
        let mut other = pin!(permits.acquire(&[2; 32]));
        assert!(poll(other.as_mut()).is_none());

        drop(running);
        let first = poll(queued[0].as_mut()).unwrap();
        drop(first);
        let permit = poll(other.as_mut()).expect("it is the other key's turn");
        assert!(poll(queued[1].as_mut()).is_none());
        drop(permit);
        assert!(poll(queued[1].as_mut()).is_some());
    }

    #[test]
    fn a_request_that_leaves_the_queue_takes_no_permit() {
        let permits = Permits::new(1);
        let running = poll(pin!(permits.acquire(&[1; 32]))).unwrap().unwrap();
        let mut leaves = Box::pin(permits.acquire(&[1; 32]));
        assert!(poll(leaves.as_mut()).is_none());
        drop(running);
        assert_eq!(permits.free(), 0, "it is on its way to the next in the queue");
        drop(leaves);
        assert_eq!(permits.free(), 1);
    }
}
