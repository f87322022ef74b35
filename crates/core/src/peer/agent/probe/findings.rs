//! What probes have found out, as it is kept in a file, and what ibeam does because of it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ProbeObservation as Seen, ProbeQuestion, ProbeVerdict, client_probes::OLD_VERSION,
    trace::RunFigures,
};
use crate::{
    models::{AUTO_NAME, AUTO_WIRE_ID},
    peer::agent::{
        forms::HistoryForm,
        service_facts::{AgentHostChoice, ImageShape, McpStatus, ServiceFacts, ToolDeclaration},
    },
};

/// The version of the file.
const VERSION: u64 = 1;
/// So many findings are read; a probe of every question has about twenty.
const MOST: usize = 256;
/// A prompt of fewer entries says too little about a conversation.
const FEWEST_ROOTS: usize = 96;

/// What a probe found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFinding {
    pub verdict: ProbeVerdict,
    /// The model that was asked, where the answer is about models.
    pub model: Option<String>,
    /// When, in seconds since 1970.
    pub at: u64,
    pub client_version: String,
    pub ibeam_version: String,
    pub runs: Vec<RunFigures>,
}

/// All findings of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeFindings(Vec<ProbeFinding>);

/// Why a file of findings is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindingsError {
    #[error("it is not a file of findings")]
    Garbled,
    #[error("it is of version {0}, and this ibeam reads version {VERSION}")]
    Version(u64),
}

/// A finding in the file.
#[derive(Serialize, Deserialize)]
struct FindingRow {
    question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    observation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amount: Option<u32>,
    at: u64,
    client_version: String,
    ibeam_version: String,
    #[serde(default)]
    runs: Vec<RunFigures>,
}

impl ProbeFindings {
    /// Reads a file. Findings of questions that this ibeam does not know are left out.
    ///
    /// # Errors
    /// It is not such a file, or of another version.
    pub fn from_json(text: &str) -> Result<Self, FindingsError> {
        let file: Value = serde_json::from_str(text).map_err(|_| FindingsError::Garbled)?;
        let version = file.get("version").and_then(Value::as_u64);
        match version.ok_or(FindingsError::Garbled)? {
            VERSION => {}
            other => return Err(FindingsError::Version(other)),
        }
        let rows = file.get("findings").and_then(Value::as_array).ok_or(FindingsError::Garbled)?;
        let rows = rows.iter().take(MOST).filter_map(|row| FindingRow::deserialize(row).ok());
        Ok(Self(rows.filter_map(FindingRow::finding).collect()))
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<FindingRow> = self.0.iter().map(ProbeFinding::row).collect();
        let mut text = format!("{:#}", json!({ "version": VERSION, "findings": rows }));
        text.push('\n');
        text
    }

    pub fn iter(&self) -> impl Iterator<Item = &ProbeFinding> {
        self.0.iter()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a finding in the place of an older one. One that settles nothing replaces none.
    pub fn add(&mut self, finding: ProbeFinding) {
        let same = |old: &ProbeFinding| {
            old.verdict.question == finding.verdict.question && old.model == finding.model
        };
        match self.0.iter().position(same) {
            Some(_) if finding.verdict.observation == Seen::Unclear => {}
            Some(at) => {
                self.0.remove(at);
                self.0.push(finding);
            }
            None => self.0.push(finding),
        }
        self.0.sort_by(|a, b| (a.verdict.question, &a.model).cmp(&(b.verdict.question, &b.model)));
    }

    /// When the oldest of them was made.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.0.iter().map(|finding| finding.at).min()
    }

    /// What ibeam goes by.
    #[must_use]
    pub fn facts(&self) -> ServiceFacts {
        let mut facts = ServiceFacts::default();
        for finding in &self.0 {
            finding.apply(&mut facts);
        }
        facts
    }
}

impl FromIterator<ProbeFinding> for ProbeFindings {
    fn from_iter<T: IntoIterator<Item = ProbeFinding>>(findings: T) -> Self {
        let mut all = Self::default();
        findings.into_iter().for_each(|finding| all.add(finding));
        all
    }
}

impl FindingRow {
    fn finding(self) -> Option<ProbeFinding> {
        Some(ProbeFinding {
            verdict: ProbeVerdict {
                question: ProbeQuestion::from_letter(&self.question)?,
                observation: Seen::from_name(&self.observation)?,
                amount: self.amount,
            },
            model: self.model,
            at: self.at,
            client_version: self.client_version,
            ibeam_version: self.ibeam_version,
            runs: self.runs,
        })
    }
}

impl ProbeFinding {
    fn row(&self) -> FindingRow {
        FindingRow {
            question: self.verdict.question.to_string(),
            model: self.model.clone(),
            observation: self.verdict.observation.name().to_owned(),
            amount: self.verdict.amount,
            at: self.at,
            client_version: self.client_version.clone(),
            ibeam_version: self.ibeam_version.clone(),
            runs: self.runs.clone(),
        }
    }

    /// The form of a history that works with the model.
    fn form(&self) -> Option<HistoryForm> {
        match self.verdict.observation {
            Seen::PromptAlone | Seen::PromptAmongOthers => Some(HistoryForm::ResumeRoots),
            Seen::RulesEntryOnly => Some(HistoryForm::UserRoots),
            Seen::NeitherForm => Some(HistoryForm::Transcript),
            _ => None,
        }
    }

    /// The number of entries that a prompt may have.
    fn roots(&self) -> Option<usize> {
        let accepted = usize::try_from(self.verdict.amount?).ok()?;
        (self.verdict.observation == Seen::RootsAccepted).then(|| accepted.max(FEWEST_ROOTS))
    }

    /// How long a call may wait: less than what lost the stream.
    fn hold(&self) -> Option<Duration> {
        let lost = self.verdict.amount.filter(|_| self.verdict.observation == Seen::CallLost)?;
        Some(Duration::from_secs(u64::from(lost) * 9 / 10))
    }

    fn apply(&self, facts: &mut ServiceFacts) {
        if let (Some(form), Some(model)) = (self.form(), &self.model) {
            facts.history.insert(model.clone(), form);
        }
        if let Some(roots) = self.roots() {
            facts.max_roots = roots;
        }
        if let Some(hold) = self.hold() {
            facts.longest_hold = Some(hold);
        }
        match self.verdict.observation {
            Seen::RulesNever => facts.rules_lost = true,
            Seen::MetaHarmful => facts.declaration = ToolDeclaration::NotForMeta,
            Seen::DoubleStalls => facts.declaration = ToolDeclaration::OnlyForMeta,
            Seen::StatusReady => facts.mcp_status = McpStatus::Ready,
            Seen::StatusAbsent => facts.mcp_status = McpStatus::Absent,
            Seen::ImagesDataUrl => facts.image_shape = ImageShape::DataUrl,
            Seen::OldVersionRefused => facts.refused_version = Some(date_of(OLD_VERSION)),
            Seen::EmptyIgnored => facts.empty_list_ignored = true,
            Seen::AgentAnswers => facts.agent_host = Some(AgentHostChoice::Agent),
            Seen::AgentnAnswers => facts.agent_host = Some(AgentHostChoice::Agentn),
            Seen::KeyNeeded => facts.needs_blob_key = true,
            Seen::NamesFree => facts.aliases_builtins = false,
            Seen::ReasoningRefused => facts.refuses_reasoning = true,
            Seen::ListedBeforeStarted | Seen::ListedBetween | Seen::ListedAfterExecs => {
                facts.listed_without_refused = self.verdict.amount == Some(0);
            }
            _ => {}
        }
    }

    /// The model under the name that people use.
    #[must_use]
    pub fn shown_model(&self) -> Option<&str> {
        self.model.as_deref().map(|model| if model == AUTO_WIRE_ID { AUTO_NAME } else { model })
    }

    /// What ibeam does from now on, for people; `None`: nothing changes.
    #[must_use]
    pub fn effect(&self) -> Option<String> {
        let model = self.shown_model().unwrap_or_default();
        if let Some(form) = self.form() {
            return Some(format!("`history = auto` rebuilds for {model} as `{}`", form.name()));
        }
        if let Some(roots) = self.roots() {
            return Some(format!("histories have at most {roots} entries"));
        }
        if let Some(hold) = self.hold() {
            return Some(format!("a parked turn waits for at most {} s", hold.as_secs()));
        }
        let text = match self.verdict.observation {
            Seen::RulesNever => "the system prompt is an entry of the prompt from the start",
            Seen::MetaHarmful => "tools are declared without `mcp_meta_tool_options`",
            Seen::DoubleStalls => "tools are declared in `mcp_meta_tool_options` only",
            Seen::StatusReady => "MCP servers are reported as `ready`",
            Seen::StatusAbsent => "MCP servers are reported without a status",
            Seen::ImagesDataUrl => "images of the history are sent as data URLs",
            Seen::OldVersionRefused => "a client version as old as that is not sent",
            Seen::EmptyIgnored => "without tools, the list names those of clients",
            Seen::AgentAnswers => "runs go to `agentUrl`",
            Seen::AgentnAnswers => "runs go to `agentnUrl`",
            Seen::KeyNeeded => "runs have a key for the encryption of blobs",
            Seen::NamesFree => "tools with the names of built-in ones keep them",
            Seen::ReasoningRefused => "reasoning is left out of rebuilt histories",
            Seen::ListedBeforeStarted | Seen::ListedBetween | Seen::ListedAfterExecs
                if self.verdict.amount == Some(0) =>
            {
                "refused calls are not awaited among the listed ones"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// The observation for people, with its number.
    #[must_use]
    pub fn observed(&self) -> String {
        let text = self.verdict.observation.text();
        match (self.verdict.observation, self.verdict.amount) {
            (Seen::RootsAccepted, Some(0)) => "not even 150 entries are accepted".to_owned(),
            (Seen::RootsAccepted, Some(count)) => format!("{count} entries are accepted"),
            (Seen::CallHeld, Some(seconds)) => format!("a call waited {seconds} s for its result"),
            (Seen::CallLost, Some(seconds)) => format!("the stream was lost after {seconds} s"),
            (_, Some(0)) => format!("{text}; it leaves out refused calls"),
            (_, Some(_)) => format!("{text}; it counts refused calls"),
            (_, None) => text.to_owned(),
        }
    }

    /// What may be published: no text, no id, and no name that a user made up.
    #[must_use]
    pub fn published(&self) -> Value {
        let public = |text: &str| {
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
            let known = (1..=48).contains(&text.len()) && text.chars().all(legal);
            if known { text.to_owned() } else { "other".to_owned() }
        };
        let version = match is_build(&self.client_version) {
            true => self.client_version.as_str(),
            false => "other",
        };
        let mut row = json!({
            "question": self.verdict.question.to_string(),
            "observation": self.verdict.observation.name(),
            "client_version": version,
            "ibeam_version": self.ibeam_version,
            "runs": self.runs,
        });
        if let Some(row) = row.as_object_mut() {
            row.extend(self.verdict.amount.map(|amount| ("amount".to_owned(), json!(amount))));
            let model = self.model.as_deref().map(public);
            row.extend(model.map(|model| ("model".to_owned(), json!(model))));
        }
        row
    }
}

/// What was found for each model, for overviews.
#[must_use]
pub fn forms_by_model(findings: &ProbeFindings) -> BTreeMap<String, &'static str> {
    let facts = findings.facts();
    facts.history.into_iter().map(|(model, form)| (model, form.name())).collect()
}

/// The date in `cli-2026.01.09-231024f`.
#[must_use]
pub fn date_of(version: &str) -> String {
    let build = version.strip_prefix("cli-").unwrap_or(version);
    build.split('-').next().unwrap_or_default().to_owned()
}

/// Whether a client version is that of a build, such as `cli-2026.08.11-e8db854`.
fn is_build(version: &str) -> bool {
    let Some((date, commit)) = version.strip_prefix("cli-").and_then(|v| v.split_once('-')) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    date.len() == 10
        && date.split('.').count() == 3
        && date.split('.').all(digits)
        && (7..=16).contains(&commit.len())
        && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
