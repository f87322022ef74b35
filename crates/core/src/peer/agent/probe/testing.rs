//! Traces for tests, and the messages of a run as the service sees them.

use bytes::Bytes;
use ibeam_proto::{
    Wire as _,
    agent::{AgentClientMessage, AgentRunRequest, agent_client_message},
};
use serde_json::Value;

use super::{
    ProbeEnd, ProbeFailure, ProbeQuestion, ProbeRun, ProbeSeen, ProbeStep, ProbeSubject,
    ProbeTrace, trace::CallNotice,
};
use crate::{
    codec::connect::{Code, ConnectError, CursorError},
    models::ModelPick,
};

pub(super) fn subject() -> ProbeSubject {
    ProbeSubject {
        model: ModelPick { id: "default".into(), ..ModelPick::default() },
        seed: "seed".into(),
        hold: std::time::Duration::from_secs(120),
        ..ProbeSubject::default()
    }
}

/// The run that comes next after these traces.
pub(super) fn next(question: ProbeQuestion, seen: &[ProbeTrace]) -> Option<ProbeRun> {
    match question.next(&subject(), &steps(seen))? {
        ProbeStep::Run(run) => Some(*run),
        ProbeStep::Call(call) => panic!("{call:?}"),
    }
}

pub(super) fn steps(seen: &[ProbeTrace]) -> Vec<ProbeSeen> {
    seen.iter().map(|trace| ProbeSeen::Run(Box::new(trace.clone()))).collect()
}

pub(super) fn judge(question: ProbeQuestion, seen: &[ProbeTrace]) -> (&'static str, Option<u32>) {
    let verdict = question.judge(&steps(seen));
    assert_eq!(verdict.question, question);
    (verdict.observation.name(), verdict.amount)
}

/// A run that answered with this text.
pub(super) fn said(text: &str) -> ProbeTrace {
    ProbeTrace { text: text.into(), end: ProbeEnd::Answered, ..ProbeTrace::default() }
}

pub(super) fn ended(end: ProbeEnd) -> ProbeTrace {
    ProbeTrace { end, ..ProbeTrace::default() }
}

/// A run in which the tool was called.
pub(super) fn called() -> ProbeTrace {
    let notices = vec![CallNotice::Partial(false), CallNotice::Started, CallNotice::Exec];
    ProbeTrace { notices, ..said("amber") }
}

pub(super) fn failed(error: &ConnectError) -> ProbeTrace {
    ended(ProbeEnd::Failed(Box::new(ProbeFailure::of_connect(error))))
}

/// The provider refuses the prompt.
pub(super) fn refused() -> ProbeTrace {
    let detail = CursorError {
        kind: ibeam_proto::aiserver::ErrorKind::ErrorProviderError,
        title: "Provider Error".into(),
        additional_info: [("providerStatusCode".to_owned(), "400".to_owned())].into(),
        ..CursorError::default()
    };
    let error = ConnectError::new(Code::ResourceExhausted, "Error");
    failed(&ConnectError { detail: Some(Box::new(detail)), ..error })
}

pub(super) fn out_of_quota() -> ProbeTrace {
    failed(&ConnectError::new(Code::ResourceExhausted, "You have reached your usage limit"))
}

pub(super) fn request(run: &ProbeRun) -> AgentRunRequest {
    match message(&run.first).message {
        Some(agent_client_message::Message::RunRequest(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// What is in the frame.
pub(super) fn message(frame: &Bytes) -> AgentClientMessage {
    AgentClientMessage::from_wire(frame.slice(5..)).unwrap()
}

/// The entries of the prompt that a run brings.
pub(super) fn entries(run: &ProbeRun) -> Vec<Value> {
    let state = request(run).conversation_state.unwrap();
    let ids = state.root_prompt_messages_json.iter();
    ids.map(|id| serde_json::from_slice(&run.blobs.get(id).unwrap()).unwrap()).collect()
}

pub(super) fn is_resume(run: &ProbeRun) -> bool {
    use ibeam_proto::agent::conversation_action::Action;
    let action = request(run).action.unwrap().action.unwrap();
    matches!(action, Action::ResumeAction(_))
}
