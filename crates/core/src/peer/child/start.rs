//! How a child is started, and what it is asked.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use super::{ChildEvent, Exit, Ready, ToChild};
use crate::model::{AgentMode, Image, Tool};

/// What has to be known before there is a child.
#[derive(Clone, Debug)]
pub struct ChildStart {
    /// As the child spells it.
    pub model: String,
    /// Our own name for the conversation: the child works in the same place for all of it.
    pub conversation: String,
    /// The session to resume, by the child's name for it.
    pub resume: Option<String>,
    /// The folder the client asked for.
    pub workspace: Option<String>,
    pub mode: AgentMode,
    /// To be hosted for it.
    pub tools: Arc<[Tool]>,
    pub owner: ChildOwner,
}

/// Whom a child counts for: the number of processes is limited, and owners share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildOwner {
    pub scope: [u8; 32],
    /// Up to this many it need not leave room for others, see [`Quota`](crate::limits::Quota).
    pub assured: usize,
}

/// What the child is asked once it runs.
#[derive(Clone, Debug, Default)]
pub struct ChildRequest {
    pub prompt: Prompt,
    pub model: String,
    pub mode: AgentMode,
    pub resume: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    pub images: Vec<Image>,
}

/// One run of a child in one of its protocols. Feed it, then take what it wants to say
/// and what it heard, until both are empty.
pub trait Speaker: fmt::Debug + Send {
    /// The child is there. Called once, before anything else.
    fn begin(&mut self, ready: &Ready, ask: &ChildRequest);
    /// Bytes of its standard output, cut anywhere.
    fn on_output(&mut self, bytes: Bytes);
    /// It is gone. Unless the run was over, it has failed.
    fn on_exit(&mut self, exit: &Exit);
    /// The answer is not wanted any more: what can be said about that.
    fn cancel(&mut self);
    fn poll_send(&mut self) -> Option<ToChild>;
    /// Returns `Ended` or `Failed` exactly once, and nothing after it.
    fn poll_heard(&mut self) -> Option<ChildEvent>;
    /// How many things it did not understand.
    fn unknown(&self) -> u64;
}
