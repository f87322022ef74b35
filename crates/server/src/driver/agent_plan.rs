//! What the peer of a turn is made with over the Agent API.

use ibeam_core::{
    model::TurnRequest,
    peer::agent::{BlobLimits, Environment, HistorySetting, Permissions, Plan},
};

use super::{TurnSetup, surroundings::SurroundingsCache};

#[derive(Clone, Debug, Default)]
pub struct AgentPlanSettings {
    pub blobs: BlobLimits,
    /// The request context goes with the first message, unasked.
    pub inline_context: bool,
    pub history: HistorySetting,
    pub environment: Environment,
    pub permissions: Permissions,
    /// Cursor's own tools are handed to the client's equivalents.
    pub native: bool,
}

#[derive(Debug)]
pub(super) struct AgentPlans {
    blobs: BlobLimits,
    inline_context: bool,
    history: HistorySetting,
    surroundings: SurroundingsCache,
}

impl AgentPlans {
    pub(super) fn new(settings: AgentPlanSettings) -> Self {
        let AgentPlanSettings { blobs, inline_context, history, environment, permissions, native } =
            settings;
        let surroundings = SurroundingsCache::new(environment, permissions, native);
        Self { blobs, inline_context, history, surroundings }
    }

    pub(super) fn plan(&self, request: &TurnRequest, turn: TurnSetup) -> Plan {
        let TurnSetup { model, models: _, conversation_id, kept, setup, owner: _ } = turn;
        Plan {
            model,
            conversation_id,
            surroundings: self.surroundings.of(request, &setup),
            limits: self.blobs,
            inline_context: self.inline_context,
            kept,
            history: self.history,
            memory: self.surroundings.models(),
        }
    }
}

/// What little the gateway knows about the machine that the client works on.
pub(super) fn environment() -> Environment {
    Environment {
        os_version: os_version(),
        shell: std::env::var("SHELL").unwrap_or_default(),
        time_zone: time_zone(),
        workspace_paths: Vec::new(),
    }
}

/// An IANA name such as `Europe/Paris`; empty if the system does not say.
fn time_zone() -> String {
    let named = std::env::var("TZ").ok().filter(|zone| zone.contains('/'));
    let linked = || {
        let path = std::fs::read_link("/etc/localtime").ok()?;
        let (_, zone) = path.to_str()?.split_once("zoneinfo/")?;
        Some(zone.to_owned())
    };
    named.or_else(linked).unwrap_or_default()
}

/// As the backend's own client says it: `linux 6.8.0`.
fn os_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let words = [std::env::consts::OS, release.trim()];
    words.join(" ").trim_end().to_owned()
}
