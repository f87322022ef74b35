//! What happens between the request and the model's first word: refusals, the fetch of the
//! history, and the questions about tools.

use std::collections::HashMap;

use bytes::Bytes;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::agent::{
    AgentRunRequest, ConversationStateStructure, ConversationTokenDetails, PreFetchedBlob,
    TurnEndedUpdate, agent_server_message::Message as ToClient, conversation_action::Action,
    interaction_update::Message as Update,
};
use serde_json::Value;

use super::{
    refusals,
    run::SimRun,
    run_io::{RunResult, RunStop, fail},
};
use crate::{
    behaviour::{AllowHeader, HostConfig, MaxRequired, ResumeNeeds, SignedReasoning, ToolsMode},
    blobs::{BlobId, id_of},
    models,
    prompt::{image_blobs, root_checks, validate},
    record::add,
    scenario::Quirk,
};

/// What of a request decides about the run before the model is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestTraits {
    /// `conversation_history` is in the action.
    inline_history: bool,
    /// Tools are declared in the request.
    tools_in_request: bool,
    /// `model_details` is missing.
    details_missing: bool,
    /// Both fields name a model, the newer one with parameters.
    both_models: bool,
}

impl RequestTraits {
    pub(super) fn of(request: &AgentRunRequest) -> Self {
        let action = request.action.as_ref().and_then(|action| action.action.as_ref());
        let parameters = request.requested_model.as_ref().is_some_and(|m| !m.parameters.is_empty());
        let details = request.model_details.as_ref().is_some_and(|m| !m.model_id.is_empty());
        Self {
            inline_history: matches!(
                action,
                Some(Action::UserMessageAction(action)) if action.conversation_history.is_some()
            ),
            tools_in_request: request.mcp_tools.as_ref().is_some_and(|t| !t.mcp_tools.is_empty()),
            details_missing: parameters && !details,
            both_models: parameters && details,
        }
    }
}

impl SimRun {
    /// Refuses a request by the switches that are about it.
    pub(super) fn refuse_by_switch(&self, traits: RequestTraits) -> RunResult {
        let behaviour = self.behaviour();
        if behaviour.error_instant_close.hits(self.number) {
            return Err(RunStop::Closed);
        }
        if let Some(error) = refusals::of_run(behaviour, self.number) {
            return Err(RunStop::Fail(error));
        }
        let model = models::family(&self.prompt.model);
        let needs_max = match behaviour.model_max_required {
            MaxRequired::Off => false,
            MaxRequired::Listed => model.is_some_and(|model| model.max_only),
            MaxRequired::All => true,
        };
        if needs_max && !self.prompt.max_mode {
            return Err(RunStop::Fail(refusals::max_mode_required()));
        }
        if behaviour.model_both_conflict && traits.both_models && self.external_model() {
            return Err(fail(Code::InvalidArgument, "Error"));
        }
        if behaviour.tools_collide_builtin_error
            && self.prompt.tool_names.iter().any(|name| refusals::is_builtin(name))
        {
            return Err(RunStop::Fail(refusals::provider_refused()));
        }
        Ok(())
    }

    /// Whether another company serves the model.
    pub(super) fn external_model(&self) -> bool {
        models::family(&self.prompt.model).is_some_and(|model| model.external())
    }

    /// Fetches all blobs that the state references, and reads the history from them.
    pub(super) async fn gather(&mut self, pushed: Vec<PreFetchedBlob>) -> RunResult {
        let mut blobs = HashMap::new();
        for blob in pushed {
            let id = id_of(&blob.value);
            if id[..] == blob.id[..] {
                blobs.insert(id, blob.value);
            } else {
                self.io.violation("pre-fetched blob under a wrong id");
            }
        }
        self.check_account()?;
        let batch = self.behaviour().roots_fetch;
        if batch {
            let ids = self.prompt.root_batch();
            self.fetch(ids, &mut blobs).await?;
        } else {
            self.fetch(self.prompt.roots(), &mut blobs).await?;
            self.fetch(self.prompt.nested(&blobs), &mut blobs).await?;
            // Images of earlier turns are referenced by their messages.
            let past = self.prompt.past_messages(&blobs);
            let images = past.iter().flat_map(|user| image_blobs(Some(user))).collect();
            self.fetch(images, &mut blobs).await?;
            for user in &past {
                self.check_images(Some(user))?;
            }
        }
        let entries = self.prompt.root_entries(&blobs);
        self.refuse_entries(&entries, &blobs).await?;
        let call_ids = self.prompt.read_history(&entries, &blobs, !batch);
        let any_id = batch || self.has(Quirk::AnyCallIdOk);
        if !any_id && call_ids.iter().any(|id| !validate::good_call_id(id)) {
            // Row 15: no detail, no hint.
            return Err(fail(Code::ResourceExhausted, "Error"));
        }
        self.prompt.custom_prompt_allowed = self.has(Quirk::CustomPromptOk);
        let behaviour = self.io.behaviour.clone();
        self.prompt.settle(&entries, &behaviour);
        Ok(())
    }

    /// Refuses the history. That comes late: everything was fetched, and nothing was used.
    async fn refuse_entries(
        &mut self,
        entries: &[Value],
        blobs: &HashMap<BlobId, Bytes>,
    ) -> RunResult {
        let behaviour = self.io.behaviour.clone();
        if self.prompt.resume
            && behaviour.roots_empty_slots_57
            && root_checks::has_empty_slot(entries)
        {
            self.io.tally.refused("an empty system or user entry".to_owned());
            return Err(RunStop::Fail(refusals::provider_refused()));
        }
        let turns = self.prompt.turn_wrappers(blobs);
        // In the service's own conversations its signatures are good.
        let foreign = turns.iter().all(|turn| turn.request_id.is_none());
        let reasoning = match behaviour.reasoning_signed {
            SignedReasoning::Accepted if foreign => {
                root_checks::refuse_reasoning(entries, &self.prompt.model)
            }
            SignedReasoning::Refused if foreign => root_checks::refuse_all_reasoning(entries),
            SignedReasoning::Off | SignedReasoning::Accepted | SignedReasoning::Refused => None,
        };
        if let Some(reason) = reasoning {
            self.io.tally.refused(reason.to_owned());
            return Err(RunStop::Fail(refusals::provider_refused()));
        }
        let reason = match behaviour.error_late_invalid.hits(self.number) {
            true => Some("the switch `error.late_invalid`".to_owned()),
            false => root_checks::refuse(entries, &turns, self.external_model(), &behaviour),
        };
        let Some(reason) = reason else { return Ok(()) };
        tracing::debug!(reason, "history refused");
        self.io.tally.refused(reason);
        let unused = ConversationStateStructure {
            token_details: Some(ConversationTokenDetails::default()),
            ..self.prompt.state.clone()
        };
        self.io.emit(ToClient::ConversationCheckpointUpdate(Box::new(unused))).await?;
        Err(fail(Code::InvalidArgument, "Error"))
    }

    /// Whether the run ends at once, with nothing but its end.
    pub(super) fn is_empty_turn(&self, traits: RequestTraits) -> bool {
        let behaviour = self.behaviour();
        self.has(Quirk::EmptyTurn)
            || (self.has(Quirk::EmptyResume) && self.prompt.resume && !self.http1)
            || (behaviour.roots_resume_needs_turn
                && self.prompt.resume
                && self.prompt.state.turns.is_empty())
            || (self.prompt.resume && self.lacks_field())
            || (behaviour.model_details_missing_empty && traits.details_missing)
    }

    /// Whether the state lacks a field that the switch asks for.
    fn lacks_field(&self) -> bool {
        let state = &self.prompt.state;
        match self.behaviour().roots_resume_needs {
            ResumeNeeds::Nothing => false,
            ResumeNeeds::Mode => state.mode.is_none(),
            ResumeNeeds::AgentType => state.mode.is_none() || state.agent_type.is_none(),
        }
    }

    pub(super) async fn end_empty_turn(&mut self) -> RunResult {
        self.io.turn_over = true;
        self.io.update(Update::TurnEnded(TurnEndedUpdate::default())).await?;
        self.io.end(None).await
    }

    /// Stalls and questions that come before the model's first word.
    pub(super) async fn before_model(&mut self, traits: RequestTraits) -> RunResult {
        let behaviour = self.io.behaviour.clone();
        if traits.inline_history
            && let Some(stall) = behaviour.history_inline7
        {
            self.io.sleep(stall).await?;
        }
        if behaviour.tools_double_declare_stall
            && traits.tools_in_request
            && self.prompt.tools_in_context
        {
            return self.io.heartbeats_only().await;
        }
        self.apply_allow_header()?;
        Box::pin(self.ask_mcp_state(true)).await?;
        self.io.tally.prompted(self.prompt.report(self.number));
        add(&self.sim().counters().bootstraps);
        let latency = behaviour.latency_first_output.unwrap_or_default();
        self.io.sleep(self.sim().config.bootstrap + latency).await
    }

    /// Applies the header with the allowed tools to the tools of the client.
    fn apply_allow_header(&mut self) -> RunResult {
        let behaviour = self.io.behaviour.clone();
        let Some(list) = &self.headers.allowed_tools else { return Ok(()) };
        if behaviour.tools_allow_header == AllowHeader::Lenient {
            return Ok(());
        }
        if self.headers.tools_unlisted() {
            self.io.violation("an append without the header with the allowed tools");
            return Ok(());
        }
        let has = |name: &str| list.split(',').any(|allowed| allowed.trim() == name);
        if !has("mcp_tool_call") {
            self.prompt.tools.clear();
        } else if behaviour.tools_mode != ToolsMode::Direct && !has("get_mcp_tools_tool_call") {
            return Err(RunStop::Fail(ConnectError::new(
                Code::Internal,
                "Required tool GET_MCP_TOOLS not found in allTools",
            )));
        }
        Ok(())
    }
}

/// The addresses that `GetServerConfig` gives: agent, then agentn; one of them may be empty.
pub(crate) fn agent_urls(config: HostConfig) -> Option<(&'static str, &'static str)> {
    const AGENT: &str = "https://agent.global.api5.cursor.sh";
    const AGENTN: &str = "https://agentn.global.api5.cursor.sh";
    match config {
        HostConfig::Both => Some((AGENT, AGENTN)),
        HostConfig::Agent => Some((AGENT, "")),
        HostConfig::Agentn => Some(("", AGENTN)),
        HostConfig::Absent => None,
    }
}
