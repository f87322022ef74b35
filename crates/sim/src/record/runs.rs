//! What each run cost: bytes in both directions, execs, and how it ended. The newest runs are
//! listed, open ones included.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ibeam_proto::agent::{AgentRunRequest, RequestContext, conversation_action::Action};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    PromptEntry, PromptReport, Records,
    counters::{add, add_many},
};

/// Runs that are listed; older ones are forgotten.
const RUNS_CAP: usize = 512;

/// One run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The number of the run in this simulator, from 1.
    pub run: u64,
    pub conversation: String,
    pub request_id: String,
    /// `run` (HTTP/2) or `run_sse` (HTTP/1.1).
    pub transport: &'static str,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Execs other than the one for the request context.
    pub execs: u64,
    /// Whether it began with a resume action.
    pub resumed: bool,
    /// The host that it was sent to.
    pub host: String,
    /// What the request says about itself.
    pub request: RequestReport,
    /// `open`, `finished`, `cancelled`, `abandoned`, `silent`, `failed`, `cut` or
    /// `refused` (with a status, before the stream).
    pub ended: &'static str,
    /// Why the service refused the history, which it does not tell its client.
    pub refused: String,
}

/// What a request says beside its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestReport {
    /// The model, as the older field names it.
    pub model_details: String,
    pub max_mode: bool,
    /// The number of the mode, in the state.
    pub mode: i32,
    pub conversation_group: String,
    pub run_id: String,
    /// Folders in the context that came with the request.
    pub workspaces: Vec<String>,
    pub time_zone: String,
}

impl RequestReport {
    pub(crate) fn of(request: &AgentRunRequest) -> Self {
        let action = request.action.as_ref().and_then(|action| action.action.as_ref());
        let env = action.and_then(inline_context).and_then(|context| context.env.as_ref());
        let details = request.model_details.as_ref();
        let requested = request.requested_model.as_ref().is_some_and(|model| model.max_mode);
        let state = request.conversation_state.as_ref();
        Self {
            model_details: details.map(|model| model.model_id.clone()).unwrap_or_default(),
            max_mode: requested && details.is_none_or(|model| model.max_mode == Some(true)),
            mode: state.and_then(|state| state.mode).unwrap_or_default(),
            conversation_group: request.conversation_group_id.clone().unwrap_or_default(),
            run_id: request.run_id.clone().unwrap_or_default(),
            workspaces: env.map(|env| env.workspace_paths.clone()).unwrap_or_default(),
            time_zone: env.map(|env| env.time_zone.clone()).unwrap_or_default(),
        }
    }
}

/// The context inside an action.
fn inline_context(action: &Action) -> Option<&RequestContext> {
    match action {
        Action::UserMessageAction(action) => action.request_context.as_ref(),
        Action::ResumeAction(action) => action.request_context.as_ref(),
        _ => None,
    }
}

/// The newest runs.
#[derive(Debug, Default)]
pub(crate) struct RunLedger(Mutex<VecDeque<Arc<RunEntry>>>);

#[derive(Debug)]
struct RunEntry {
    bytes_in: Arc<AtomicU64>,
    bytes_out: AtomicU64,
    execs: AtomicU64,
    /// The rest of the report; the counts in it are not used.
    report: Mutex<RunReport>,
}

impl RunLedger {
    pub(super) fn list(&self) -> Vec<RunReport> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let runs = self.0.lock();
        runs.iter()
            .map(|entry| RunReport {
                bytes_in: read(&entry.bytes_in),
                bytes_out: read(&entry.bytes_out),
                execs: read(&entry.execs),
                ..entry.report.lock().clone()
            })
            .collect()
    }
}

/// A run's entry in the ledger; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RunTally {
    records: Arc<Records>,
    entry: Arc<RunEntry>,
}

impl RunTally {
    /// Opens an entry. `bytes_in` is given when appends have been counted already.
    pub(crate) fn open(
        records: &Arc<Records>,
        report: RunReport,
        bytes_in: Option<Arc<AtomicU64>>,
    ) -> Self {
        let entry = Arc::new(RunEntry {
            bytes_in: bytes_in.unwrap_or_default(),
            bytes_out: AtomicU64::new(0),
            execs: AtomicU64::new(0),
            report: Mutex::new(RunReport { ended: "open", ..report }),
        });
        let mut runs = records.ledger.0.lock();
        if runs.len() >= RUNS_CAP {
            runs.pop_front();
        }
        runs.push_back(Arc::clone(&entry));
        drop(runs);
        Self { records: Arc::clone(records), entry }
    }

    pub(crate) fn heard(&self, bytes: usize) {
        add_many(&self.entry.bytes_in, bytes);
        add_many(&self.records.counters.bytes_in, bytes);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add_many(&self.entry.bytes_out, bytes);
        add_many(&self.records.counters.bytes_out, bytes);
    }

    pub(crate) fn exec(&self) {
        add(&self.entry.execs);
    }

    /// The request has arrived: which conversation it belongs to.
    pub(crate) fn begun(&self, conversation: &str, resumed: bool) {
        self.records.counters.conversation(conversation);
        let mut report = self.entry.report.lock();
        conversation.clone_into(&mut report.conversation);
        report.resumed = resumed;
    }

    pub(crate) fn asked(&self, request: &AgentRunRequest) {
        self.entry.report.lock().request = RequestReport::of(request);
    }

    pub(crate) fn ended(&self, how: &'static str) {
        self.entry.report.lock().ended = how;
    }

    /// Why the run was refused.
    pub(crate) fn refused(&self, reason: String) {
        self.entry.report.lock().refused = reason;
    }

    /// The model has this prompt.
    pub(crate) fn prompted(&self, report: PromptReport) {
        self.records.prompts.add(report);
    }

    /// The model knows one more message.
    pub(crate) fn learned(&self, entry: PromptEntry) {
        let run = self.entry.report.lock().run;
        self.records.prompts.extend(run, entry);
    }
}
