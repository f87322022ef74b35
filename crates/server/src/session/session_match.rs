//! How a request was matched with turns and conversations: the header `x-ibeam-session`, and
//! counters in `/health`.

use super::registry::Fates;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMatch {
    /// Nothing matched.
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
pub struct MatchedConversation {
    pub how: SessionMatch,
    /// The id that the backend knew it by when the request was matched.
    pub conversation: String,
    /// It had tool results that were left out, or passed on as text: none of its calls awaits them.
    pub ignored_results: bool,
}

impl SessionMatch {
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
    pub(crate) fn note(&mut self, how: SessionMatch) {
        let counter = match how {
            SessionMatch::New => &mut self.new,
            SessionMatch::Continued => &mut self.continued,
            SessionMatch::Resumed => &mut self.resumed,
            SessionMatch::Rebuilt => &mut self.rebuilt,
            SessionMatch::Forked => &mut self.forked,
            SessionMatch::Attached => &mut self.attached,
            SessionMatch::Replayed => &mut self.replayed,
        };
        *counter += 1;
    }
}
