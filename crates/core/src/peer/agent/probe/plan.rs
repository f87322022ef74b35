//! From what was seen so far to the next step of a probe, and in the end to its verdict. Pure
//! functions of the traces.

use super::{
    ProbeObservation, ProbeQuestion, ProbeVerdict, client_probes, content_probes,
    draft::ProbeSubject,
    history_probes,
    run::ProbeRun,
    tool_probes,
    trace::{ProbeFailure, ProbeTrace},
};

/// What is to be done next.
#[derive(Debug)]
pub enum ProbeStep {
    Run(Box<ProbeRun>),
    Call(ProbeCall),
}

/// A plain request, which costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeCall {
    /// The usage of the plan.
    Usage,
    /// The addresses for runs.
    Addresses,
}

/// What came of a step.
#[derive(Debug)]
pub enum ProbeSeen {
    Run(Box<ProbeTrace>),
    Called(Result<CallAnswer, ProbeFailure>),
}

/// The answer to a plain request, as far as a probe looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    Usage,
    /// `agentUrl` and `agentnUrl`; empty where there is none.
    Addresses {
        agent: String,
        agentn: String,
    },
}

impl ProbeQuestion {
    /// The next step; `None` when enough was seen.
    #[must_use]
    pub fn next(self, subject: &ProbeSubject, seen: &[ProbeSeen]) -> Option<ProbeStep> {
        let runs = runs(seen);
        let run = match self {
            Self::ResumedPrompt => history_probes::resumed_prompt(subject, &runs),
            Self::RulesShown => history_probes::rules_shown(subject, &runs),
            Self::ResumeNeeds => history_probes::resume_needs(subject, &runs),
            Self::RootLimit => history_probes::root_limit(subject, &runs),
            Self::PartialArguments => tool_probes::partial_arguments(subject, &runs),
            Self::ToolsDeclared => tool_probes::tools_declared(subject, &runs),
            Self::ServerStatus => tool_probes::server_status(subject, &runs),
            Self::RootImages => content_probes::root_images(subject, &runs),
            Self::VersionFloor => client_probes::version_floor(subject, &runs),
            Self::ListedCalls => tool_probes::listed_calls(subject, &runs),
            Self::EmptyToolList => tool_probes::empty_tool_list(subject, &runs),
            Self::UsageCall => return call_once(ProbeCall::Usage, seen),
            Self::AgentAddress if seen.is_empty() => {
                return Some(ProbeStep::Call(ProbeCall::Addresses));
            }
            Self::AgentAddress => client_probes::agent_address(subject, seen, &runs),
            Self::BlobKey => client_probes::blob_key(subject, &runs),
            Self::ReasoningReplay => content_probes::reasoning_replay(subject, &runs),
            Self::BuiltinNames => tool_probes::builtin_names(subject, &runs),
            Self::HeldCall => tool_probes::held_call(subject, &runs),
        };
        run.map(|run| ProbeStep::Run(Box::new(run)))
    }

    /// What all that was seen comes to.
    #[must_use]
    pub fn judge(self, seen: &[ProbeSeen]) -> ProbeVerdict {
        let runs = runs(seen);
        let plain = |observation| (observation, None);
        let (observation, amount) = match self {
            Self::ResumedPrompt => plain(history_probes::judge_resumed_prompt(&runs)),
            Self::RulesShown => plain(history_probes::judge_rules_shown(&runs)),
            Self::ResumeNeeds => plain(history_probes::judge_resume_needs(&runs)),
            Self::RootLimit => history_probes::judge_root_limit(&runs),
            Self::PartialArguments => plain(tool_probes::judge_partial_arguments(&runs)),
            Self::ToolsDeclared => plain(tool_probes::judge_tools_declared(&runs)),
            Self::ServerStatus => plain(tool_probes::judge_server_status(&runs)),
            Self::RootImages => plain(content_probes::judge_root_images(&runs)),
            Self::VersionFloor => plain(client_probes::judge_version_floor(&runs)),
            Self::ListedCalls => tool_probes::judge_listed_calls(&runs),
            Self::EmptyToolList => plain(tool_probes::judge_empty_tool_list(&runs)),
            Self::UsageCall => plain(client_probes::judge_usage_call(seen)),
            Self::AgentAddress => plain(client_probes::judge_agent_address(seen, &runs)),
            Self::BlobKey => plain(client_probes::judge_blob_key(&runs)),
            Self::ReasoningReplay => plain(content_probes::judge_reasoning_replay(&runs)),
            Self::BuiltinNames => plain(tool_probes::judge_builtin_names(&runs)),
            Self::HeldCall => tool_probes::judge_held_call(&runs),
        };
        ProbeVerdict { question: self, observation, amount }
    }
}

/// The traces of the runs, in their order.
pub(super) type Runs<'a> = Vec<&'a ProbeTrace>;

fn runs(seen: &[ProbeSeen]) -> Runs<'_> {
    let mut runs = Vec::with_capacity(seen.len());
    for step in seen {
        if let ProbeSeen::Run(trace) = step {
            runs.push(&**trace);
        }
    }
    runs
}

fn call_once(call: ProbeCall, seen: &[ProbeSeen]) -> Option<ProbeStep> {
    seen.is_empty().then_some(ProbeStep::Call(call))
}

/// The observation of a flag that every run has, or unclear.
pub(super) fn settled(observation: Option<ProbeObservation>) -> ProbeObservation {
    observation.unwrap_or(ProbeObservation::Unclear)
}
