//! One call of a tool of the client, and how far it has come.

use crate::{agent::exec::Back, model::ids::CallId};

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    /// The backend's id for it.
    pub(super) wire_id: String,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The client has seen the name and this much of the arguments.
    Announced { streamed: String },
    /// Its turn has not come: the client has its hands full.
    Held(Asked),
    /// With the client.
    Out(Asked),
}

/// What the backend waits for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) exec: u32,
    pub(super) exec_id: String,
    pub(super) arguments: String,
    pub(super) back: Back,
}

impl Call {
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Out(_))
    }

    pub(super) fn is_announced(&self) -> bool {
        matches!(self.stage, Stage::Announced { .. })
    }

    pub(super) fn asked(&self) -> Option<&Asked> {
        match &self.stage {
            Stage::Announced { .. } => None,
            Stage::Held(asked) | Stage::Out(asked) => Some(asked),
        }
    }

    /// Whether its result has room for words beside it. What is a file's content to the
    /// backend, or a command's output, has none.
    pub(super) fn takes_words(&self) -> bool {
        self.asked().is_some_and(|asked| asked.back.is_mcp())
    }
}
