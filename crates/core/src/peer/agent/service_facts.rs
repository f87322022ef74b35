//! What probes have found out about the service, as far as ibeam acts on it. Without a finding,
//! each fact has the value that works in the most observations.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::forms::HistoryForm;

/// How many entries a prompt may have. The service was seen to refuse 208.
pub const USUAL_MAX_ROOTS: usize = 192;

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct ServiceFacts {
    /// The form of a history that works, by model.
    #[serde(skip)]
    pub history: BTreeMap<String, HistoryForm>,
    /// Rules of the request context never reach the model.
    pub rules_lost: bool,
    /// So many entries a prompt may have.
    pub max_roots: usize,
    pub declaration: ToolDeclaration,
    pub mcp_status: McpStatus,
    pub image_shape: ImageShape,
    /// The date of a client version that is refused.
    pub refused_version: Option<String>,
    /// The number of listed calls leaves out those that the service refuses.
    pub listed_without_refused: bool,
    /// An empty list of allowed tools is read as no list.
    pub empty_list_ignored: bool,
    pub agent_host: Option<AgentHostChoice>,
    /// Runs are refused without a key for the encryption of blobs.
    pub needs_blob_key: bool,
    /// A client's tool that has the name of a built-in one is offered under another.
    pub aliases_builtins: bool,
    /// Signed reasoning of earlier answers is refused.
    pub refuses_reasoning: bool,
    /// A call that waits for longer is lost with its stream.
    pub longest_hold: Option<Duration>,
}

impl Default for ServiceFacts {
    fn default() -> Self {
        Self {
            history: BTreeMap::new(),
            rules_lost: false,
            max_roots: USUAL_MAX_ROOTS,
            declaration: ToolDeclaration::default(),
            mcp_status: McpStatus::default(),
            image_shape: ImageShape::default(),
            refused_version: None,
            listed_without_refused: false,
            empty_list_ignored: false,
            agent_host: None,
            needs_blob_key: false,
            aliases_builtins: true,
            refuses_reasoning: false,
            longest_hold: None,
        }
    }
}

/// Where client tools are declared, besides the answer about MCP servers.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolDeclaration {
    /// In the request, in its context, and for the meta tools.
    #[default]
    Everywhere,
    /// Not for the meta tools, where that hides the tools.
    NotForMeta,
    /// For the meta tools only, where a second declaration stalls the run.
    OnlyForMeta,
}

impl ToolDeclaration {
    #[must_use]
    pub fn has_definitions(self) -> bool {
        matches!(self, Self::Everywhere | Self::NotForMeta)
    }

    #[must_use]
    pub fn has_meta_options(self) -> bool {
        matches!(self, Self::Everywhere | Self::OnlyForMeta)
    }
}

/// The state of our MCP server, as it is reported to the service.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpStatus {
    #[default]
    Connected,
    Ready,
    Absent,
}

impl McpStatus {
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        match self {
            Self::Connected => Some("connected"),
            Self::Ready => Some("ready"),
            Self::Absent => None,
        }
    }
}

/// How an image of the history is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageShape {
    /// Its bytes as hexadecimal digits, as the service stores them itself.
    #[default]
    Hex,
    /// A data URL.
    DataUrl,
}

/// Which of the addresses that the service gives for runs is used.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentHostChoice {
    Agent,
    Agentn,
}
