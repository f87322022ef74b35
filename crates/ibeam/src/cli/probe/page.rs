//! What `ibeam probe` prints and writes.

use std::path::Path;

use ibeam_core::peer::agent::probe::{ProbeFinding, ProbeQuestion, ProbedModels};
use serde_json::json;

use super::{
    super::{models::align, screen},
    ProbeOutcome, ProbeStop,
};

/// The questions, without answers.
pub(super) fn questions(questions: &[ProbeQuestion], as_json: bool) -> anyhow::Result<String> {
    let asks = |question: &ProbeQuestion| match question.asks() {
        ProbedModels::EachFamily => "one model of each family",
        ProbedModels::AnyOne => "one model",
        ProbedModels::External => "one model of another company",
        ProbedModels::Thinking => "one model that thinks",
        ProbedModels::NoModel => "no model",
    };
    if as_json {
        let rows: Vec<_> = questions
            .iter()
            .map(|question| {
                json!({
                    "question": question.to_string(),
                    "text": question.text(),
                    "asks": asks(question),
                    "most_runs": question.most_runs(),
                })
            })
            .collect();
        return Ok(serde_json::to_string_pretty(&rows)?);
    }
    let mut table = vec![["", "QUESTION", "ASKS", "RUNS"].map(str::to_owned)];
    table.extend(questions.iter().map(|question| {
        let runs = question.most_runs().to_string();
        [question.to_string(), question.text().to_owned(), asks(question).to_owned(), runs]
    }));
    Ok(align(&table))
}

/// What ibeam does because of a finding.
fn effect(finding: &ProbeFinding) -> String {
    finding.effect().unwrap_or_else(|| "nothing changes".to_owned())
}

fn model(finding: &ProbeFinding) -> String {
    finding.shown_model().unwrap_or_default().to_owned()
}

/// A table, or blocks where a table does not fit the terminal.
pub(super) fn table(findings: &[ProbeFinding]) -> String {
    let mut rows = vec![["", "MODEL", "OBSERVED", "FROM NOW ON"].map(str::to_owned)];
    rows.extend(findings.iter().map(|finding| {
        let letter = finding.verdict.question.to_string();
        [letter, model(finding), finding.observed(), effect(finding)]
    }));
    let table = align(&rows);
    let width = table.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    match screen::columns_of_stdout() {
        Some(columns) if columns < width => blocks(findings),
        _ => table,
    }
}

fn blocks(findings: &[ProbeFinding]) -> String {
    let block = |finding: &ProbeFinding| {
        let question = finding.verdict.question;
        let model = finding.shown_model().map(|model| format!(" ({model})"));
        format!(
            "{question}  {}{}\n   observed:    {}\n   from now on: {}",
            question.text(),
            model.unwrap_or_default(),
            finding.observed(),
            effect(finding)
        )
    };
    findings.iter().map(block).collect::<Vec<_>>().join("\n")
}

pub(super) fn json(outcome: &ProbeOutcome, file: &Path) -> anyhow::Result<String> {
    let findings: Vec<_> = outcome
        .findings
        .iter()
        .map(|finding| {
            json!({
                "question": finding.verdict.question.to_string(),
                "text": finding.verdict.question.text(),
                "model": finding.model,
                "observation": finding.verdict.observation.name(),
                "amount": finding.verdict.amount,
                "observed": finding.observed(),
                "effect": finding.effect(),
                "runs": finding.runs,
            })
        })
        .collect();
    let stopped = outcome.stopped.as_ref().map(|stop| match stop {
        ProbeStop::Failed(error) => error.message.clone(),
        ProbeStop::Interrupted => "interrupted".into(),
    });
    Ok(serde_json::to_string_pretty(&json!({
        "ibeam_version": env!("CARGO_PKG_VERSION"),
        "client_version": outcome.client_version,
        "findings": findings,
        "stopped": stopped,
        "file": file,
    }))?)
}

/// What may be published: letters, observations, counts, times, codes and versions.
pub(super) fn report(outcome: &ProbeOutcome) -> anyhow::Result<String> {
    let findings: Vec<_> = outcome.findings.iter().map(ProbeFinding::published).collect();
    let stopped = outcome.stopped.as_ref().map(|stop| match stop {
        ProbeStop::Failed(error) => error.code.row().code,
        ProbeStop::Interrupted => "interrupted",
    });
    let mut text = serde_json::to_string_pretty(&json!({
        "report": "ibeam probe",
        "version": 1,
        "ibeam_version": env!("CARGO_PKG_VERSION"),
        "findings": findings,
        "stopped": stopped,
    }))?;
    text.push('\n');
    Ok(text)
}
