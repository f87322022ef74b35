//! What a request contains besides its body.

use crate::keys::Caller;

/// The sender of a request, and what its headers say about the turn that it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// The client's `x-request-id` if it is valid, otherwise ours.
    pub request_id: String,
    /// Whose key came with it.
    pub caller: Caller,
    /// SHA-256 of the body as it came.
    pub body: [u8; 32],
    pub idempotency_key: Option<String>,
    /// `x-stainless-retry-count`: above zero, an SDK sends the request again.
    pub retry_count: u32,
    /// The name of its conversation.
    pub session: Option<SessionName>,
    /// It continues nothing that is stored, and its turn is not parked.
    pub fresh: bool,
    /// The folder that a backend on this machine works in.
    pub workspace: Option<String>,
}

/// A name that a client gives to its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    pub name: String,
    pub source: NameSource,
}

/// Where a client writes the name of its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// A system message `Session: session-<id>`: the client says which one it means.
    Marker,
    /// The header `x-session-id`.
    SessionId,
    /// The header `x-session-affinity`, which programs send with everything they ask.
    Affinity,
}
