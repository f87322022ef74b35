//! What the agent asks us. All of it is answered at once: nobody is there to be asked, so
//! a rule decides.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    calls::{AcpCalls, Fields},
    say::{NoAnswer, NoPlan, Nothing, Permission, PermissionOutcome},
};
use crate::codec::jsonrpc::{self, METHOD_NOT_FOUND, RpcId, read, text};

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
            let request: Request<'_> = read(params).unwrap_or_default();
            let outcome = if cancelled {
                PermissionOutcome::Cancelled
            } else {
                choose(policy, calls, &request)
            };
            known(jsonrpc::result(id, &Permission { outcome }))
        }
        "cursor/ask_question" => known(jsonrpc::result(id, &NoAnswer::new())),
        "cursor/create_plan" => known(jsonrpc::result(id, &NoPlan::new())),
        "cursor/update_todos" | "cursor/task" => known(jsonrpc::result(id, &Nothing {})),
        _ => {
            let shown: String = method.chars().take(100).collect();
            let why = format!("ibeam does not support the method `{shown}`");
            AgentReply { line: jsonrpc::error(id, METHOD_NOT_FOUND, &why), known: false }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    tool_call: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Offer<'a> {
    #[serde(borrow)]
    option_id: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
}

/// The request often tells only the id of the call; who is called was said before. A title
/// proves nothing: the model wrote it.
fn choose(policy: ToolPolicy, calls: &AcpCalls, request: &Request<'_>) -> PermissionOutcome {
    let hosted = Fields::read(request.tool_call).is_hosted()
        || Fields::id(request.tool_call).is_some_and(|id| calls.is_hosted(&id));
    let wanted: &[&str] = if hosted || policy.own_tools {
        &["allow_once", "allow_always"]
    } else {
        // Not for good: that would be written into the settings of the user.
        &["reject_once"]
    };
    let offers: Vec<&RawValue> = read(request.options).unwrap_or_default();
    let offers: Vec<Offer<'_>> = offers.into_iter().filter_map(|raw| read(Some(raw))).collect();
    wanted
        .iter()
        .find_map(|wanted| offers.iter().find_map(|offer| offer.named(wanted)))
        .map_or(PermissionOutcome::Cancelled, |option_id| PermissionOutcome::Selected { option_id })
}

impl Offer<'_> {
    /// Its id, if it is of this kind. Where it has no kind, the id is named after it.
    fn named(&self, wanted: &str) -> Option<String> {
        let id = text(self.option_id)?;
        let kind = text(self.kind).unwrap_or_else(|| id.replace('-', "_"));
        (kind == wanted).then_some(id)
    }
}

#[cfg(test)]
#[path = "leave_tests.rs"]
mod tests;
