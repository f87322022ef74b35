//! What a failure can change about the next run.

use super::AgentPeer;
use crate::{
    error::TurnError,
    peer::{Adapted, Remedy},
};

/// Whether another host can be asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostChoice {
    /// The user named the host.
    Fixed,
    /// The service names several. The count of changes between them when the turn began.
    Open(u64),
    /// Another one is asked for.
    Other(u64),
}

impl HostChoice {
    pub(super) fn new(changes: Option<u64>) -> Self {
        changes.map_or(Self::Fixed, Self::Open)
    }

    /// The count of changes at which the host was chosen that is not wanted any more.
    pub(super) fn other(self) -> Option<u64> {
        match self {
            Self::Other(changes) => Some(changes),
            Self::Fixed | Self::Open(_) => None,
        }
    }

    /// The next links go to another host. Gives whether there may be one.
    fn change(&mut self) -> bool {
        let Self::Open(changes) = *self else { return false };
        *self = Self::Other(changes);
        true
    }
}

impl AgentPeer {
    /// The history may be at fault: it is sent without reasoning that was in it, or in another form.
    fn change_history(&mut self, remedy: Remedy) -> bool {
        if remedy == Remedy::FreshConversation {
            // Hardly the fault of reasoning, which a provider refuses.
            let is_shorter = self.spec.leave_out_reasoning(false);
            return self.spec.use_other_form() || is_shorter;
        }
        self.spec.leave_out_reasoning(true) || self.spec.use_other_form()
    }

    pub(super) fn change_request(&mut self, remedy: Remedy, error: &TurnError) -> Adapted {
        // Refused before anything of the history was fetched: hardly the fault of its form.
        let late = remedy == Remedy::OtherFields && self.stream.fetched;
        let of_form = matches!(remedy, Remedy::OtherForm | Remedy::FreshConversation);
        if (late || of_form) && self.change_history(remedy) {
            self.spec.acquit_fields();
            return Adapted::Rebuild;
        }
        // A state that is refused may still be sent as a whole history.
        let of_state = late || remedy == Remedy::OtherForm;
        if of_state && self.spec.is_kept() && !self.since.is_bare() {
            self.spec.acquit_fields();
            return Adapted::Rebuild;
        }
        let changed = match remedy {
            Remedy::OtherFields if self.spec.use_one_model_field() => true,
            Remedy::OtherFields if self.spec.use_other_form() => {
                self.spec.acquit_fields();
                return Adapted::Rebuild;
            }
            Remedy::AllowTool => self.spec.allow_tool(&error.message),
            Remedy::MaxMode => self.spec.use_max_mode(),
            Remedy::SchemaText => self.spec.use_schema_text(),
            Remedy::OtherHost => self.hosts.change(),
            Remedy::OtherFields
            | Remedy::OtherForm
            | Remedy::FreshConversation
            | Remedy::None
            | Remedy::Retry
            | Remedy::Resume
            | Remedy::FreshToken => false,
        };
        if changed { Adapted::Repeat } else { Adapted::Not }
    }
}
