//! What the peer of a turn is made with over the Agent API.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ibeam_core::{
    model::TurnRequest,
    peer::agent::{BlobLimits, Environment, HistorySetting, Permissions, Plan, ServiceFacts},
};

use super::{TurnSetup, surroundings::SurroundingsCache};
use crate::random;

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
    /// What is known of the service.
    pub facts: Arc<ServiceFacts>,
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
        let AgentPlanSettings { blobs, inline_context, history, .. } = settings;
        let AgentPlanSettings { environment, permissions, native, facts, .. } = settings;
        let surroundings = SurroundingsCache::new(environment, permissions, native, facts);
        Self { blobs, inline_context, history, surroundings }
    }

    pub(super) fn history_forms(&self) -> BTreeMap<String, &'static str> {
        let learned = self.surroundings.models().all().into_iter();
        learned.filter_map(|(model, facts)| Some((model, facts.history?.name()))).collect()
    }

    pub(super) fn longest_hold(&self) -> Option<Duration> {
        self.surroundings.facts().longest_hold
    }

    /// `host_changes`: how often the host for runs was changed, unless the user named it.
    pub(super) fn plan(
        &self,
        request: &TurnRequest,
        turn: TurnSetup,
        host_changes: Option<u64>,
    ) -> Plan {
        let TurnSetup { model, models: _, conversation_id, kept, setup, owner } = turn;
        let memory = self.surroundings.models();
        Plan {
            signed: memory.signed_items(&owner.scope, &model.id, request),
            scope: owner.scope,
            model,
            conversation_id,
            surroundings: self.surroundings.of(request, &setup),
            limits: self.blobs,
            inline_context: self.inline_context,
            kept,
            history: self.history,
            memory,
            run_seed: random::uuid(),
            host_changes,
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
    let variable = std::env::var("TZ").unwrap_or_default();
    let link = std::fs::read_link("/etc/localtime").unwrap_or_default();
    if let Some(name) = zone_in(&variable).or_else(|| link.to_str().and_then(zone_in)) {
        return name.to_owned();
    }
    // Where the other one is a copy, not a link.
    let file = std::fs::read_to_string("/etc/timezone").unwrap_or_default();
    zone_in(&file).unwrap_or_default().to_owned()
}

/// The name of a zone in a path or in the variable `TZ`.
fn zone_in(text: &str) -> Option<&str> {
    let text = text.trim().trim_start_matches(':');
    let name = text.split_once("zoneinfo/").map_or(text, |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    let is_name = name == "UTC" || (name.contains('/') && !name.starts_with('/'));
    (is_name && name.chars().all(legal)).then_some(name)
}

/// As the backend's own client says it: `linux 6.8.0`.
fn os_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let words = [std::env::consts::OS, release.trim()];
    words.join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_8_the_time_zone_is_the_name_that_the_machine_has() {
        for (text, want) in [
            ("/usr/share/zoneinfo/Europe/Paris", Some("Europe/Paris")),
            (":America/Argentina/Buenos_Aires", Some("America/Argentina/Buenos_Aires")),
            ("../usr/share/zoneinfo/Etc/GMT+3", Some("Etc/GMT+3")),
            ("Asia/Tokyo\n", Some("Asia/Tokyo")),
            ("UTC", Some("UTC")),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("/etc/private-zone", None),
            ("", None),
        ] {
            assert_eq!(zone_in(text), want, "{text}");
        }
    }
}
