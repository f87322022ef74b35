//! What goes between a turn and the task that looks after its child.

use std::fmt;

use bytes::Bytes;
use secrecy::SecretString;

use crate::model::Part;

/// What comes from the child and from around it. `Ready` is first, `Exited` last.
#[derive(Clone, Debug)]
pub enum FromChild {
    Ready(Ready),
    /// Bytes of its standard output, cut anywhere.
    Output(Bytes),
    /// It called a tool that is hosted for it, and waits.
    Call(HostedCall),
    /// It no longer waits for the result of this call.
    Dropped(u64),
    Exited(Exit),
}

/// The child runs.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// The folder it works in.
    pub workspace: String,
    /// Where the tools of the request are hosted, if there are any.
    pub host: Option<HostAddress>,
    /// It has been greeted before: it served an earlier turn, or was warmed up.
    pub greeted: bool,
    /// The conversation that is still open in it.
    pub session: Option<String>,
}

/// An MCP server of ours, for this child alone.
#[derive(Clone, Debug)]
pub struct HostAddress {
    pub url: String,
    pub bearer: SecretString,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedCall {
    /// Its number in this turn.
    pub id: u64,
    /// As the client named the tool.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// How the child ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// None: a signal ended it.
    pub code: Option<i32>,
    /// The last part of what it wrote to standard error.
    pub stderr: String,
}

/// What goes to the child.
#[derive(Clone)]
pub enum ToChild {
    /// For its standard input.
    Input(Bytes),
    /// The input is complete.
    CloseInput,
    /// The result of a call that waits.
    Result(HostedResult),
    /// The turn is done with the child and left it in order: it may serve another one, which can
    /// continue the conversation that is open in it. A link that is dropped without this message
    /// ends the child.
    Release { session: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedResult {
    pub id: u64,
    pub content: Vec<Part>,
    pub is_error: bool,
}

/// Input may hold the bearer of a [`HostAddress`], and most of it is the prompt: only its
/// size is shown.
impl fmt::Debug for ToChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(bytes) => write!(f, "Input({} bytes)", bytes.len()),
            Self::CloseInput => f.write_str("CloseInput"),
            Self::Result(result) => f.debug_tuple("Result").field(result).finish(),
            Self::Release { .. } => f.write_str("Release"),
        }
    }
}
