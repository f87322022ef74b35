//! Which backend runs a turn.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// Cursor's Agent API, over HTTP.
    Agent,
    /// `cursor-agent --print`, a process for each turn.
    Cli,
    /// `cursor-agent acp`, a process for turn after turn.
    Acp,
}

impl BackendKind {
    /// As users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Cli => "cli",
            Self::Acp => "acp",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "agent" => Some(Self::Agent),
            "cli" => Some(Self::Cli),
            "acp" => Some(Self::Acp),
            _ => None,
        }
    }
}
