//! The plan of a turn, for recordings: what is shared among turns is made again from the request.

use std::sync::Arc;

use super::{Environment, ModelMemory, Plan, Surroundings};
use crate::{model::TurnRequest, peer::AgentPlanRecord};

pub(super) fn record(plan: &Plan) -> AgentPlanRecord {
    let around = &plan.surroundings;
    let env = around.context.env.clone().unwrap_or_default();
    AgentPlanRecord {
        model: plan.model.clone(),
        conversation_id: plan.conversation_id.clone(),
        environment: Environment {
            os_version: env.os_version,
            shell: env.shell,
            time_zone: env.time_zone,
            workspace_paths: env.workspace_paths,
        },
        permissions: around.permissions,
        native: !around.equipment.is_empty(),
        limits: plan.limits,
        inline_context: plan.inline_context,
        kept: plan.kept.clone(),
        history: plan.history,
        facts: plan.memory.of(&plan.model.id),
        signed: plan.signed.clone(),
        service: Arc::clone(&around.facts),
        run_seed: plan.run_seed.clone(),
        host_changes: plan.host_changes,
    }
}

pub(super) fn plan(record: AgentPlanRecord, request: &TurnRequest) -> Plan {
    let AgentPlanRecord {
        model,
        conversation_id,
        environment,
        permissions,
        native,
        limits,
        inline_context,
        kept,
        history,
        facts,
        signed,
        service,
        run_seed,
        host_changes,
    } = record;
    // The folder that the request names comes first in the recording, and again from the request.
    let mut environment = environment;
    if request.hints.workspace.as_ref() == environment.workspace_paths.first() {
        environment.workspace_paths.drain(..1.min(environment.workspace_paths.len()));
    }
    let memory = ModelMemory::default();
    memory.set(&model.id, facts);
    Plan {
        surroundings: Arc::new(Surroundings::informed(
            request,
            &environment,
            permissions,
            native,
            &service,
        )),
        model,
        conversation_id,
        limits,
        inline_context,
        kept,
        history,
        memory: Arc::new(memory),
        signed,
        scope: [0; 32],
        run_seed,
        host_changes,
    }
}
