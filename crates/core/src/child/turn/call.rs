//! One call of a tool of the client, and how far it has come.

use crate::{child::HostedCall, model::ids::CallId};

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    /// What the child waits for.
    pub(super) hosted: HostedCall,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its turn has not come: the client has its hands full.
    Held,
    /// With the client.
    Out,
    /// With the client, though the child no longer waits.
    Dropped,
}

impl Call {
    /// Whether the client has it.
    pub(super) fn is_out(&self) -> bool {
        self.stage != Stage::Held
    }
}
