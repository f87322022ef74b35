//! What the model knows in each run: the newest prompts, with the results and answers that were
//! added to them.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

/// The size of all reported texts together; the oldest prompts are forgotten first.
const BYTES_CAP: usize = 8 * 1024 * 1024;
/// Prompts that are reported at most.
const PROMPTS_CAP: usize = 512;

/// What the model of a run knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptReport {
    /// The number of the run in this simulator, from 1.
    pub run: u64,
    pub conversation: String,
    pub model: String,
    /// `message` or `resume`.
    pub action: &'static str,
    /// The instructions that the model follows, from wherever they came.
    pub instructions: Vec<String>,
    /// The system entries of the prompt.
    pub system: Vec<String>,
    /// The messages, the newest last: of the prompt, and since then of the run.
    pub entries: Vec<PromptEntry>,
    /// How many pieces of the model's earlier reasoning are in it.
    pub reasoning: usize,
    /// The client's tools that the model can call.
    pub tools: Vec<String>,
}

/// One message of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptEntry {
    pub role: String,
    pub text: String,
    /// Of a result: the tool's name.
    pub tool: Option<String>,
}

impl PromptReport {
    fn size(&self) -> usize {
        let texts = self.instructions.iter().chain(&self.system).chain(&self.tools);
        texts.map(String::len).sum::<usize>()
            + self.entries.iter().map(PromptEntry::size).sum::<usize>()
    }
}

impl PromptEntry {
    fn size(&self) -> usize {
        self.role.len() + self.text.len() + self.tool.as_ref().map_or(0, String::len)
    }
}

/// The newest prompts, ordered by when their runs reached the model.
#[derive(Debug, Default)]
pub(crate) struct PromptLedger(Mutex<PromptQueue>);

#[derive(Debug, Default)]
struct PromptQueue {
    prompts: VecDeque<PromptReport>,
    bytes: usize,
}

impl PromptLedger {
    pub(super) fn list(&self) -> Vec<PromptReport> {
        self.0.lock().prompts.iter().cloned().collect()
    }

    pub(super) fn add(&self, report: PromptReport) {
        let mut queue = self.0.lock();
        queue.bytes += report.size();
        queue.prompts.push_back(report);
        queue.shrink();
    }

    /// Adds a message to the prompt of a run, if that is still listed.
    pub(super) fn extend(&self, run: u64, entry: PromptEntry) {
        let mut queue = self.0.lock();
        let size = entry.size();
        let found = queue.prompts.iter_mut().rev().find(|prompt| prompt.run == run);
        let Some(prompt) = found else { return };
        prompt.entries.push(entry);
        queue.bytes += size;
        queue.shrink();
    }
}

impl PromptQueue {
    fn shrink(&mut self) {
        while self.bytes > BYTES_CAP || self.prompts.len() > PROMPTS_CAP {
            let Some(oldest) = self.prompts.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.size());
        }
    }
}

#[cfg(test)]
#[path = "prompts_tests.rs"]
mod tests;
