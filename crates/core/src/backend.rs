//! The backends by name: the one place that lists them.

use crate::capabilities::Capabilities;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// The Agent API, over HTTP.
    Agent,
    /// `cursor-agent --print`, in a child process.
    Cli,
    /// `cursor-agent acp`, in a child process.
    Acp,
}

impl BackendKind {
    pub const ALL: [Self; 3] = [Self::Agent, Self::Cli, Self::Acp];

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
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    #[must_use]
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::Agent => Capabilities::AGENT,
            Self::Cli => Capabilities::CLI,
            Self::Acp => Capabilities::ACP,
        }
    }
}
