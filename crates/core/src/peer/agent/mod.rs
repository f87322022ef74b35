//! The Agent API: one turn of it as a [`Peer`](crate::peer::Peer), and the messages it is made
//! of. Every fact about this wire is in here or in the `proto` crate.

mod allowed;
mod blobs;
mod exec;
mod forms;
mod meta;
mod native;
mod peer;
pub mod probe;
mod query;
mod reasoning;
mod rebuild;
mod recorded;
mod refusals;
mod request;
mod room;
mod roots;
mod service_facts;
mod state;
mod tool_names;
mod tools;
pub(crate) mod vocabulary;

pub use blobs::BlobLimits;
pub use forms::{HistoryForm, HistorySetting, ModelFacts, ModelMemory};
pub use peer::{AgentCall, AgentOpen, AgentPeer};
pub use reasoning::{ReasoningScope, SignedItem, SignedReasoning};
pub use request::{Environment, Permissions, Plan, Surroundings};
pub use service_facts::{
    AgentHostChoice, ImageShape, McpStatus, ServiceFacts, ToolDeclaration, USUAL_MAX_ROOTS,
};
