//! Requests of the agent. All are answered at once: there is no user to ask, so
//! a rule decides.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    calls::{AcpCalls, CallFields},
    requests::{NoAnswer, NoImage, NoPlan, Permission, PermissionOutcome},
};
use crate::codec::jsonrpc::{self, EmptyObject, METHOD_NOT_FOUND, Members, RpcId};

/// What the agent may do without being asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Its own tools, which read and change the machine it runs on. The tools that are
    /// hosted for it are always allowed: they only reach the client.
    pub own_tools: bool,
}

/// The answer to a request of the agent's, and whether we knew it.
pub(super) struct AgentReply {
    pub(super) line: Bytes,
    pub(super) known: bool,
}

pub(super) fn reply(
    policy: ToolPolicy,
    cancelled: bool,
    calls: &AcpCalls,
    id: &RpcId,
    method: &str,
    params: Option<&RawValue>,
) -> AgentReply {
    let known = |line| AgentReply { line, known: true };
    match method {
        "session/request_permission" => {
            let params = Members::of(params).unwrap_or_default();
            let outcome = if cancelled {
                PermissionOutcome::Cancelled
            } else {
                choose(policy, calls, &params)
            };
            known(jsonrpc::result(id, &Permission { outcome }))
        }
        "cursor/ask_question" => known(jsonrpc::result(id, &NoAnswer::new())),
        "cursor/create_plan" => known(jsonrpc::result(id, &NoPlan::new())),
        "cursor/generate_image" => known(jsonrpc::result(id, &NoImage::new())),
        "cursor/update_todos" | "cursor/task" => known(jsonrpc::result(id, &EmptyObject {})),
        _ => {
            let shown: String = method.chars().take(100).collect();
            let why = format!("ibeam does not support the method `{shown}`");
            AgentReply { line: jsonrpc::error(id, METHOD_NOT_FOUND, &why), known: false }
        }
    }
}

/// The request often has only the id of the call; earlier updates have its tool. A title
/// proves nothing: the model wrote it.
fn choose(policy: ToolPolicy, calls: &AcpCalls, params: &Members<'_>) -> PermissionOutcome {
    let call = CallFields::read(params.get("toolCall"));
    let hosted = call.is_hosted() || call.id().is_some_and(|id| calls.is_hosted(&id));
    let wanted: &[&str] = if hosted || policy.own_tools {
        &["allow_once", "allow_always"]
    } else {
        // Not for good: that would be written into the settings of the user.
        &["reject_once"]
    };
    let offers: Vec<Members<'_>> = params.objects("options").collect();
    wanted
        .iter()
        .find_map(|wanted| offers.iter().find_map(|offer| option_id(offer, wanted)))
        .map_or(PermissionOutcome::Cancelled, |option_id| PermissionOutcome::Selected { option_id })
}

/// The id of this option, if it is of the wanted kind. Where it has no kind, the id is named after
/// it.
fn option_id(option: &Members<'_>, wanted: &str) -> Option<String> {
    let id = option.text("optionId")?;
    let kind = option.text("kind").unwrap_or_else(|| id.replace('-', "_"));
    (kind == wanted).then_some(id)
}

#[cfg(test)]
#[path = "permission_tests.rs"]
mod tests;
