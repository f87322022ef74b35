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
    } = record;
    let memory = ModelMemory::default();
    memory.set(&model.id, facts);
    Plan {
        surroundings: Arc::new(Surroundings::new(request, &environment, permissions, native)),
        model,
        conversation_id,
        limits,
        inline_context,
        kept,
        history,
        memory: Arc::new(memory),
    }
}
