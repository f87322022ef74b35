//! What a recording keeps of a link and of the plan behind it, whatever the peer.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    StoredState,
    agent::{
        BlobLimits, Environment, HistorySetting, ModelFacts, Permissions, ServiceFacts, SignedItem,
    },
    child::{FromChild, Speaker, ToChild},
};
use crate::models::ModelPick;

/// A message on a link.
#[derive(Clone, Debug)]
pub enum LinkMessage {
    /// A piece of a stream of the Agent API: from the backend it is cut anywhere, to it it is one
    /// message.
    Bytes(Bytes),
    FromChild(FromChild),
    ToChild(ToChild),
}

/// What a link is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRecord {
    pub prefer_h1: bool,
    /// The header that names the tools the model may use.
    pub allowed_tools: Option<String>,
    pub model: Option<String>,
    /// A conversation of the child is resumed.
    pub resumes: bool,
    /// How many tools are hosted.
    pub tools: usize,
}

/// What a turn was made with, besides the client's request.
#[derive(Clone, Debug)]
pub enum PlanRecord {
    Agent(Box<AgentPlanRecord>),
    Child(ChildPlanRecord),
}

/// The plan of a turn on the Agent API, as far as it cannot be made from the request.
#[derive(Clone, Debug)]
pub struct AgentPlanRecord {
    pub model: ModelPick,
    pub conversation_id: String,
    pub environment: Environment,
    pub permissions: Permissions,
    /// The client's tools stand in for the backend's own.
    pub native: bool,
    pub limits: BlobLimits,
    pub inline_context: bool,
    pub kept: Option<StoredState>,
    pub history: HistorySetting,
    /// What was known of the model.
    pub facts: ModelFacts,
    /// The reasoning in the request of which a signature was known.
    pub signed: Vec<SignedItem>,
    /// What was known of the service.
    pub service: Arc<ServiceFacts>,
    pub run_seed: String,
    pub host_changes: Option<u64>,
}

/// The plan of a turn in a child process.
#[derive(Clone, Debug)]
pub struct ChildPlanRecord {
    pub model: String,
    pub conversation_id: String,
    pub images: bool,
    pub result_bytes: usize,
    pub kept: Option<StoredState>,
    pub speaker: fn() -> Box<dyn Speaker>,
}
