//! The connection of a request, as far as requests have to do with it.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::sync::OwnedSemaphorePermit;

use crate::keys::Caller;

/// A connection as the server knows it. Holding it counts as being connected.
pub(crate) trait ClientConnection: Send + Sync {
    /// A request is being answered until this is dropped.
    fn begin(&self) -> Box<dyn Send>;

    /// Ends when the connection should, once nothing is being answered on it.
    fn asked_to_leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A request on the connection has a valid key.
    fn showed_key(&self, caller: &Caller);

    /// Waits until a request without a valid key may be answered.
    fn keyless(&self) -> Pin<Box<dyn Future<Output = Option<KeylessPermit>> + Send>>;
}

/// Attached to a request.
#[derive(Clone)]
pub(crate) struct ConnectionHandle(pub(crate) Arc<dyn ClientConnection>);

/// Attached to the response to a request without a valid key, until the client has read all of it.
#[derive(Clone)]
pub(crate) struct KeylessPermit {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl From<OwnedSemaphorePermit> for KeylessPermit {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Arc::new(permit) }
    }
}
