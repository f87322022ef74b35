//! How a request was matched with what is known. The header `x-ibeam-session` says it, and
//! `/health` counts it.

use super::registry::Fates;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// With nothing.
    New,
    /// A stored conversation continues in a new run.
    Continued,
    /// Results went to the run that was parked for them.
    Resumed,
    /// The history was sent to the backend again.
    Rebuilt,
    /// The history, the prompt, the tools or the model differ from the stored ones.
    Forked,
    /// The request joined a running answer.
    Attached,
    /// A finished answer was sent again.
    Replayed,
}

/// The same with the conversation that it led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub how: Matched,
    /// The id that the backend knew it by when the request was matched.
    pub conversation: String,
}

impl Matched {
    /// The value of the header, and the name of the counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Continued => "continued",
            Self::Resumed => "resumed",
            Self::Rebuilt => "rebuilt",
            Self::Forked => "forked",
            Self::Attached => "attached",
            Self::Replayed => "replayed",
        }
    }
}

impl Fates {
    /// Counts a request that was matched.
    pub(crate) fn note(&mut self, how: Matched) {
        let counter = match how {
            Matched::New => &mut self.new,
            Matched::Continued => &mut self.continued,
            Matched::Resumed => &mut self.resumed,
            Matched::Rebuilt => &mut self.rebuilt,
            Matched::Forked => &mut self.forked,
            Matched::Attached => &mut self.attached,
            Matched::Replayed => &mut self.replayed,
        };
        *counter += 1;
    }
}
