//! Probes: questions about the service that only a run with an account can settle, put to it
//! by ibeam itself. Everything here is pure: what is sent, how the answers are read, and what
//! ibeam does because of them. `docs/probe.md` explains each question.

mod client_probes;
mod content_probes;
mod draft;
mod findings;
mod history_probes;
mod observation;
mod plan;
mod question;
mod run;
mod schedule;
#[cfg(test)]
mod testing;
mod tool_probes;
mod trace;

pub use client_probes::{OLD_VERSION, is_trusted};
pub use draft::ProbeSubject;
pub use findings::{FindingsError, ProbeFinding, ProbeFindings, date_of, forms_by_model};
pub use observation::{ProbeObservation, ProbeVerdict};
pub use plan::{CallAnswer, ProbeCall, ProbeSeen, ProbeStep};
pub use question::{ProbeQuestion, ProbedModels};
pub use run::{ProbeClocks, ProbeHeaders, ProbeMachine, ProbeRun};
pub use schedule::{ProbeItem, schedule};
pub use trace::{ProbeEnd, ProbeFailure, ProbeTrace, RunFigures};
