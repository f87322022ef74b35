//! `ibeam probe`: asks the service the questions that only a run with an account can settle, and
//! keeps the answers where the driver reads them.

mod page;
mod progress;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use ibeam_core::{
    error::TurnError,
    models::AUTO_WIRE_ID,
    peer::agent::probe::{
        ProbeFinding, ProbeFindings, ProbeItem, ProbeObservation, ProbeQuestion, ProbeSubject,
        schedule,
    },
};

use self::progress::ProbeProgress;
use super::{
    Global, INTERRUPTED, Refusal, UpstreamOptions, block_on, consent, print, require_account, say,
};
use ibeam_server::{
    config::{Backend, Config, RawConfig},
    driver::probing::Prober,
    files, findings, random,
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
ibeam was built on what other clients report about Cursor. Some of that is open, and differs from
account to account: this command asks the service itself, with short runs of your plan, and ibeam
goes by the answers from its next start. It first says which models it asks and how many runs that
takes at most, and waits for your consent. docs/probe.md explains each question.

The answers are kept in a file of this profile, and `ibeam doctor` shows how old they are. Probe
again when Cursor or ibeam has changed. Ctrl-C stops the present run and keeps the answers so far.

Examples:
  ibeam probe --list                    the questions, without asking any
  ibeam probe                           ask all of them, after your consent
  ibeam probe --only a,f --model sonnet
  ibeam probe --yes --json              for scripts
  ibeam probe --report probe.json       also write what may be published, for a bug report
  ibeam probe --forget                  remove the answers
  ibeam probe --sim                     ask the simulator; no account needed")]
pub(super) struct Probe {
    /// List the questions and ask none
    #[arg(long, conflicts_with_all = ["forget", "report", "yes"])]
    list: bool,
    /// Remove the stored answers
    #[arg(long, conflicts_with_all = ["only", "model", "report", "long", "yes", "json"])]
    forget: bool,
    /// Ask only these questions, by their letters
    #[arg(long, value_name = "LETTERS", value_delimiter = ',', value_parser = question)]
    only: Vec<ProbeQuestion>,
    /// Ask this model; may be repeated [default: a small one of each family]
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// Do not ask for consent
    #[arg(long, short)]
    yes: bool,
    /// Hold a tool call for 15 minutes instead of 2, for question q
    #[arg(long)]
    long: bool,
    /// Also write a report without texts, ids and names to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

/// How long a call is held: longer than any observation, and as long as a turn is parked.
const HOLD: Duration = Duration::from_secs(120);
const LONG_HOLD: Duration = Duration::from_secs(900);

fn question(letter: &str) -> Result<ProbeQuestion, String> {
    ProbeQuestion::from_letter(letter.trim()).ok_or_else(|| {
        let (first, last) = (ProbeQuestion::ALL.first(), ProbeQuestion::ALL.last());
        let letter = |question: Option<&ProbeQuestion>| question.map_or('?', |q| q.letter());
        format!(
            "the questions are {} to {}; `ibeam probe --list` shows them",
            letter(first),
            letter(last)
        )
    })
}

/// What a whole probe comes to.
struct ProbeOutcome {
    /// Of this probe.
    findings: Vec<ProbeFinding>,
    /// Why it ended early.
    stopped: Option<ProbeStop>,
    client_version: String,
}

enum ProbeStop {
    /// Further runs would fail as well.
    Failed(TurnError),
    Interrupted,
}

impl Probe {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        if self.list {
            return print(&page::questions(&self.questions(), self.json)?)
                .map(|()| ExitCode::SUCCESS);
        }
        let mut config = global.load_quietly(RawConfig::default(), &self.upstream)?;
        let Some(file) = config.upstream.findings.clone() else {
            return Err(Refusal::new("this machine has no folder for what programs remember")
                .hint("set HOME or XDG_STATE_HOME")
                .into());
        };
        if self.forget {
            return forget(&file);
        }
        if let Some(report) = self.report.as_ref().filter(|report| report.exists()) {
            let text = format!("{} already exists", report.display());
            return Err(Refusal::new(text).hint("name another file: `--report FILE`").into());
        }
        // Before the runs, which count towards the plan.
        let folder = self.report.as_deref().and_then(Path::parent);
        if let Some(folder) = folder.filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
            let text = format!("there is no folder {} for the report", folder.display());
            return Err(Refusal::new(text).hint("name another file: `--report FILE`").into());
        }
        require_account(&mut config)?;
        if config.uses_cursor_agent() {
            return Err(Refusal::new("probes need Cursor's API, and this backend does not use it")
                .hint("sign in with `ibeam login`, and leave out `--backend`")
                .into());
        }
        // Question k needs a model that uses Cursor's own tools.
        config.simulator.native_tools = true;
        let outcome = block_on(self.probe(&config, &file))?;
        self.show(&outcome, &file)?;
        match &outcome.stopped {
            None => Ok(ExitCode::SUCCESS),
            Some(ProbeStop::Interrupted) => {
                say("Interrupted. The answers so far are kept.");
                Ok(ExitCode::from(INTERRUPTED))
            }
            Some(ProbeStop::Failed(error)) => {
                Err(Refusal::new(format!("probing was stopped: {}", error.message))
                    .hint("no further run was made, and the answers so far are kept")
                    .into())
            }
        }
    }

    fn questions(&self) -> Vec<ProbeQuestion> {
        let wanted =
            |question: &ProbeQuestion| self.only.is_empty() || self.only.contains(question);
        ProbeQuestion::ALL.into_iter().filter(wanted).collect()
    }

    async fn probe(&self, config: &Config, file: &Path) -> anyhow::Result<ProbeOutcome> {
        let tasks = Tasks::new();
        let sim = match &config.backend {
            Backend::Cursor => None,
            Backend::Sim { scenario } => Some(config.simulator.start(scenario.as_deref())?),
        };
        let prober = Prober::open(config, sim.as_ref(), &tasks);
        let list = prober.models().await?;
        let items = schedule(&self.questions(), &list, &self.model, config.models.unknown)?;
        if sim.is_none() {
            self.consent(&items)?;
        }
        let subject = ProbeSubject {
            environment: prober.environment(),
            seed: random::uuid(),
            hold: if self.long { LONG_HOLD } else { HOLD },
            ..ProbeSubject::default()
        };
        let outcome = self.ask_all(&prober, &items, &subject, file).await;
        tasks.stop();
        outcome
    }

    /// States what it will cost, and asks whether that is wanted.
    fn consent(&self, items: &[ProbeItem]) -> anyhow::Result<()> {
        if !self.yes && !consent::is_interactive() {
            let runs = most_runs(items);
            let text = format!(
                "up to {runs} short run{} would count towards your plan, and there is no terminal \
                 to ask for your consent",
                if runs == 1 { "" } else { "s" }
            );
            let refusal = Refusal::new(text).hint("consent with `--yes`");
            return Err(match self.only.is_empty() {
                true => refusal.hint("or ask one question: `ibeam probe --only p --yes`").into(),
                false => refusal.into(),
            });
        }
        if !self.json || !self.yes {
            say(&costs(items));
        }
        match self.yes || consent::ask("Ask Cursor now? [y/N]")? == Some(true) {
            true => Ok(()),
            false => Err(Refusal::new("nothing was asked").into()),
        }
    }

    async fn ask_all(
        &self,
        prober: &Prober,
        items: &[ProbeItem],
        subject: &ProbeSubject,
        file: &Path,
    ) -> anyhow::Result<ProbeOutcome> {
        let mut stored = findings::read(file).unwrap_or_else(|error| {
            say(&format!("warning: the older answers in {} are dropped: {error}", file.display()));
            ProbeFindings::default()
        });
        let mut outcome = ProbeOutcome {
            findings: Vec::new(),
            stopped: None,
            client_version: prober.client_version().to_owned(),
        };
        let progress = ProbeProgress::new(items.len(), self.json);
        for (number, item) in items.iter().enumerate() {
            let model = item.model.clone().unwrap_or_default();
            let subject = ProbeSubject { model, ..subject.clone() };
            progress.begin(number, item);
            let asking = prober.ask(item, &subject, |run| progress.run(run));
            let probed = tokio::select! {
                probed = asking => probed,
                never = progress.tick() => match never {},
                _ = tokio::signal::ctrl_c() => {
                    outcome.stopped = Some(ProbeStop::Interrupted);
                    break;
                }
            };
            if probed.stop.is_none()
                || probed.finding.verdict.observation != ProbeObservation::Unclear
            {
                stored.add(probed.finding.clone());
                findings::write(file, &stored)?;
            }
            outcome.findings.push(probed.finding);
            if let Some(error) = probed.stop {
                outcome.stopped = Some(ProbeStop::Failed(error));
                break;
            }
        }
        progress.clear();
        Ok(outcome)
    }

    fn show(&self, outcome: &ProbeOutcome, file: &Path) -> anyhow::Result<()> {
        let shown = match self.json {
            true => page::json(outcome, file)?,
            false => page::table(&outcome.findings),
        };
        print(&shown)?;
        if let Some(path) = &self.report {
            let report = page::report(outcome)?;
            files::private::replace(path, &report).map_err(|error| {
                Refusal::new(format!("cannot write the report: {error}"))
                    .hint("name another file: `--report FILE`")
            })?;
            say(&format!("Wrote {}. It has no text, token, id or e-mail.", path.display()));
        }
        if !self.json && !outcome.findings.is_empty() {
            say(&format!(
                "The answers are in {}. A gateway that runs goes by them after a restart.",
                file.display()
            ));
        }
        Ok(())
    }
}

fn forget(file: &Path) -> anyhow::Result<ExitCode> {
    let removed = findings::forget(file)
        .map_err(|error| Refusal::new(format!("cannot remove {}: {error}", file.display())))?;
    say(&match removed {
        true => {
            format!("Removed {}. A gateway that runs forgets it after a restart.", file.display())
        }
        false => "There are no answers to forget.".to_owned(),
    });
    Ok(ExitCode::SUCCESS)
}

fn most_runs(items: &[ProbeItem]) -> u32 {
    items.iter().map(|item| item.question.most_runs()).sum()
}

/// What a probe costs, for people.
fn costs(items: &[ProbeItem]) -> String {
    let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
    for item in items {
        if let Some(model) = item.model.as_ref().filter(|_| item.question.most_runs() > 0) {
            *runs.entry(&model.id).or_default() += item.question.most_runs();
        }
    }
    let questions =
        items.iter().map(|item| item.question).collect::<std::collections::BTreeSet<_>>();
    let mut lines = vec![format!(
        "{} to Cursor, in at most {}:",
        count(questions.len(), "question"),
        count(usize::try_from(most_runs(items)).unwrap_or(usize::MAX), "short run")
    )];
    for (model, runs) in runs {
        let name = if model == AUTO_WIRE_ID { "auto" } else { model };
        let runs = count(usize::try_from(runs).unwrap_or(usize::MAX), "run");
        lines.push(format!("  {name:<24} {runs}"));
    }
    lines.push(
        "They count towards your plan. Each run reads Cursor's own prompt of about 10,000 to 30,000 \
         tokens\nand writes a few words. With a large model that costs some cents, with auto, \
         Composer and small\nmodels less."
            .to_owned(),
    );
    lines.join("\n")
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
