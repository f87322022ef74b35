//! What came of the steps: the table, slowest first, and the verdict of the run.

use std::time::Duration;

use anyhow::bail;

pub(super) enum StepVerdict {
    Passed,
    Failed(String),
    NotRun(String),
}

/// One line of the table.
pub(super) struct StepRow {
    pub(super) name: &'static str,
    pub(super) verdict: StepVerdict,
    pub(super) took: Duration,
    /// Of the step and all processes that it waited for, in seconds.
    pub(super) cpu: Option<f64>,
    /// From the start of the run.
    pub(super) offset: Duration,
}

impl StepVerdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed(_) => "FAILED",
            Self::NotRun(_) => "NOT RUN",
        }
    }

    /// Empty for a step that passed.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed(why) | Self::NotRun(why) => why,
        }
    }

    /// The opposite of the two above.
    pub(super) fn parse(word: &str, why: &str) -> Option<Self> {
        match word {
            "ok" => Some(Self::Passed),
            "FAILED" => Some(Self::Failed(why.to_owned())),
            "NOT RUN" => Some(Self::NotRun(why.to_owned())),
            _ => None,
        }
    }
}

impl StepRow {
    pub(super) fn empty(name: &'static str, verdict: StepVerdict) -> Self {
        Self { name, verdict, took: Duration::ZERO, cpu: None, offset: Duration::ZERO }
    }
}

/// Prints the table and fails if the run did. Under CI every step must have been run.
pub(super) fn print(mut rows: Vec<StepRow>, total: Duration, ci: bool) -> anyhow::Result<()> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.took));
    print!("{}", table(&rows, total));
    for row in &rows {
        if !row.verdict.why().is_empty() {
            eprintln!("\n{:<8} {}: {}", row.verdict.word(), row.name, row.verdict.why());
        }
    }
    let all = rows.len();
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    let (passed, failed, not_run) = (count("ok"), count("FAILED"), count("NOT RUN"));
    if failed == 0 && not_run > 0 && !ci {
        println!("\nall that could run passed; {not_run} of {all} steps DID NOT RUN");
    }
    println!("\n{passed} passed, {failed} failed, {not_run} skipped");
    if failed > 0 {
        bail!("{failed} of {all} steps failed");
    }
    if not_run > 0 && ci {
        bail!("{not_run} of {all} steps could not be run, and CI requires all of them");
    }
    Ok(())
}

fn table(rows: &[StepRow], total: Duration) -> String {
    let line = |name: &str, result: &str, time: &str, cpu: &str, start: &str| {
        format!("{name:<24}{result:<10}{time:>10}{cpu:>10}{start:>10}\n")
    };
    let mut text = format!("\n{}", line("step", "result", "time", "CPU", "start"));
    for row in rows {
        let cpu = row.cpu.map(|cpu| format!("{cpu:.1} s")).unwrap_or_default();
        let start = format!("+{:.0} s", row.offset.as_secs_f64());
        text += &line(row.name, row.verdict.word(), &seconds(row.took), &cpu, &start);
    }
    let cpu: f64 = rows.iter().filter_map(|row| row.cpu).sum();
    text += &line("total", "", &seconds(total), &format!("{cpu:.1} s"), "");
    text
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
