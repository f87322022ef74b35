use super::super::{
    ProbeCall, ProbeFailure,
    ProbeQuestion::{self, AgentAddress, BlobKey, UsageCall, VersionFloor},
    ProbeStep, ProbeTrace,
    testing::{ended, failed, judge, next, out_of_quota, said, subject},
};
use super::*;
use crate::{
    codec::connect::{Code, ConnectError, CursorError},
    peer::LinkError,
};

#[test]
fn question_i_sends_an_old_version() {
    let run = next(VersionFloor, &[]).unwrap();
    assert_eq!(run.headers.client_version, Some(OLD_VERSION));
    assert!(!run.headers.is_usual());
    let outdated = CursorError {
        kind: ibeam_proto::aiserver::ErrorKind::ErrorOutdatedClient,
        ..CursorError::default()
    };
    let error = ConnectError::new(Code::FailedPrecondition, "Error");
    let outdated = failed(&ConnectError { detail: Some(Box::new(outdated)), ..error });
    for (run, want) in [
        (said("OK"), "old-version-accepted"),
        (outdated, "old-version-refused"),
        (out_of_quota(), "unclear"),
        (ended(super::super::ProbeEnd::Lost), "unclear"),
    ] {
        assert_eq!(judge(VersionFloor, std::slice::from_ref(&run)).0, want, "{run:?}");
    }
}

fn call(status: u16, code: Option<Code>) -> ProbeSeen {
    let error = code.map(|code| ConnectError::new(code, "words"));
    let error = LinkError::Status { status, error, retry_after: None };
    ProbeSeen::Called(Err(ProbeFailure::of_link(&error)))
}

fn verdict(question: ProbeQuestion, seen: &[ProbeSeen]) -> &'static str {
    question.judge(seen).observation.name()
}

#[test]
fn question_l_asks_once_and_costs_no_run() {
    let step = UsageCall.next(&subject(), &[]);
    assert!(matches!(step, Some(ProbeStep::Call(ProbeCall::Usage))));
    let answered = || ProbeSeen::Called(Ok(CallAnswer::Usage));
    assert!(UsageCall.next(&subject(), &[answered()]).is_none());
    for (seen, want) in [
        (answered(), "usage-available"),
        (call(403, Some(Code::PermissionDenied)), "usage-unavailable"),
        (call(401, None), "usage-unavailable"),
        (call(401, Some(Code::Unauthenticated)), "usage-unavailable"),
        (call(500, None), "unclear"),
        (call(404, Some(Code::Unimplemented)), "unclear"),
    ] {
        assert_eq!(verdict(UsageCall, std::slice::from_ref(&seen)), want, "{seen:?}");
    }
}

impl Clone for ProbeSeen {
    fn clone(&self) -> Self {
        match self {
            Self::Run(trace) => Self::Run(trace.clone()),
            Self::Called(answer) => Self::Called(answer.clone()),
        }
    }
}

fn addresses(agent: &str, agentn: &str) -> ProbeSeen {
    let (agent, agentn) = (agent.to_owned(), agentn.to_owned());
    ProbeSeen::Called(Ok(CallAnswer::Addresses { agent, agentn }))
}

const AGENT: &str = "https://agent.global.api5.cursor.sh";
const AGENTN: &str = "https://agentn.global.api5.cursor.sh/";

#[test]
fn question_m_asks_each_address_of_the_service_and_no_other() {
    let host = |seen: &[ProbeSeen]| match AgentAddress.next(&subject(), seen)? {
        ProbeStep::Run(run) => run.headers.host.clone(),
        ProbeStep::Call(call) => Some(format!("{call:?}")),
    };
    let run = |trace: ProbeTrace| ProbeSeen::Run(Box::new(trace));
    let both = || addresses(AGENT, AGENTN);
    assert_eq!(host(&[]).as_deref(), Some("Addresses"));
    assert_eq!(host(&[both()]).as_deref(), Some(AGENT));
    let second = host(&[both(), run(said("OK"))]);
    assert_eq!(second.as_deref(), Some("https://agentn.global.api5.cursor.sh"));
    assert_eq!(host(&[both(), run(said("OK")), run(said("OK"))]), None);
    for foreign in [
        "http://agent.api5.cursor.sh",
        "https://cursor.sh.evil.test",
        "https://evil.test/x.cursor.sh",
        "https://user@a.cursor.sh",
        "https://agent.cursor.sh:8443",
        "",
    ] {
        assert!(!is_trusted(foreign), "{foreign}");
        assert_eq!(host(&[addresses(foreign, "")]), None, "{foreign}");
    }

    let (ok, no) = (|| run(said("OK")), || run(failed(&ConnectError::new(Code::Internal, "x"))));
    for (seen, want) in [
        (vec![both(), ok(), ok()], "both-answer"),
        (vec![both(), ok(), no()], "agent-answers"),
        (vec![both(), no(), ok()], "agentn-answers"),
        (vec![both(), no(), no()], "neither-answers"),
        (vec![addresses("", AGENTN), ok()], "agentn-answers"),
        (vec![addresses("", "")], "addresses-absent"),
        (vec![both(), ok()], "unclear"),
        (vec![call(500, None)], "unclear"),
        (vec![], "unclear"),
    ] {
        assert_eq!(verdict(AgentAddress, &seen), want, "{seen:?}");
    }
}

#[test]
fn question_n_makes_the_same_run_with_and_without_a_key() {
    assert_eq!(next(BlobKey, &[]).unwrap().headers.blob_key, Some(true));
    assert_eq!(next(BlobKey, &[said("OK")]).unwrap().headers.blob_key, Some(false));
    assert!(next(BlobKey, &[said("OK"), said("OK")]).is_none());
    let no = || failed(&ConnectError::new(Code::InvalidArgument, "key"));
    for (runs, want) in [
        (vec![said("OK"), said("OK")], "key-ignored"),
        (vec![no(), said("OK")], "key-refused"),
        (vec![said("OK"), no()], "key-needed"),
        (vec![no(), no()], "unclear"),
        (vec![said("OK"), ended(super::super::ProbeEnd::Silent)], "unclear"),
    ] {
        assert_eq!(judge(BlobKey, &runs).0, want, "{runs:?}");
    }
}
