//! What a conversation runs under: its system texts, its tools and its folder. A conversation is
//! only continued while this stays the same.

use sha2::{Digest as _, Sha256};

use super::chain::field;
use crate::{codec::canonical::canonical, model::TurnRequest};

/// The hash of the system texts, the tools and the folder. The order of the tools, and how their
/// schemas are written, do not matter.
#[must_use]
pub fn setup(request: &TurnRequest) -> [u8; 32] {
    let mut hash = Sha256::new().chain_update(b"ibeam setup v1\0");
    for text in &request.system {
        field(&mut hash, b's', text.trim().as_bytes());
    }
    if let Some(workspace) = &request.hints.workspace {
        field(&mut hash, b'w', workspace.as_bytes());
    }
    let mut tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            let schema = tool.schema.as_ref().map(|schema| canonical(schema.get()));
            (tool.name.as_str(), tool.description.as_str(), schema.unwrap_or_default())
        })
        .collect();
    tools.sort_unstable();
    for (name, description, schema) in tools {
        field(&mut hash, b'n', name.as_bytes());
        field(&mut hash, b'd', description.as_bytes());
        field(&mut hash, b'j', schema.as_bytes());
    }
    hash.finalize().into()
}
