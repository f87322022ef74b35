//! `ibeam doctor`: what is wrong, and which command fixes it.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, builder::styling};
use ibeam_core::backend::Needs;

use super::{
    Global, Listening, Refusal, STYLES, UpstreamOptions, block_on, children, options::Loaded,
    print, say,
};
use crate::{
    doctor::{
        Check, CheckLine, CheckState, DoctorReport, DoctorSubject, audit,
        bundle::{self, BundleContents, Veil},
        examine,
        judge::title,
        secrets::configured,
    },
    telemetry,
};
use ibeam_server::{
    auth::Here,
    clock,
    config::{Backend, Config, environment, file_in_use},
    mcp::config::Places,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Checks settings, disk, files, ports, clients, the sign-in, the network (DNS, proxy, TLS,
HTTP/2), clocks, the model list, one streamed answer and one tool call, with the settings that
`ibeam serve` would use with the same options. The last two use the same code as your clients'
requests, and count as two small requests of your plan; with `--offline` nothing is sent to
Cursor.

Exits with 0 if no check failed, else with 1. The first failed check is the cause: checks that
depend on it are skipped. Below each is the command that fixes it. docs/doctor.md explains every
check.

Examples:
  ibeam doctor
  ibeam doctor --offline                nothing leaves this machine
  ibeam doctor --sim                    check ibeam itself, without an account
  ibeam doctor --model sonnet --backend cli
  ibeam doctor --json | jq -r .cause
  ibeam doctor --bundle                 an archive for a bug report, without secrets")]
pub(super) struct Doctor {
    /// The model to send the test requests to
    #[arg(long, value_name = "MODEL", default_value = "auto")]
    model: String,
    /// Send nothing to the backend
    #[arg(long)]
    offline: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the report, settings, versions and logs to an archive, without secrets
    #[arg(long, value_name = "FILE")]
    bundle: Option<Option<PathBuf>>,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

impl Doctor {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let resolution = global.resolve(self.upstream.raw().or(self.listening.raw()));
        let problems = &resolution.problems;
        if let Some(Some(path)) = &self.bundle
            && path.exists()
        {
            return Err(Refusal::new(format!("{} already exists", path.display()))
                .hint("name another file: `ibeam doctor --bundle FILE`")
                .into());
        }
        let report = match problems.is_empty() {
            false => DoctorReport::of_settings(problems, &self.model, self.offline),
            true => {
                let (mut loaded, warnings) =
                    global.checked(self.listening.raw(), &self.upstream)?;
                if loaded.log_asked {
                    telemetry::init(&loaded.config.log);
                }
                if answered_by_cli(&loaded.config) {
                    loaded.config.named_backend = Some(Needs::CursorAgent.default_backend());
                }
                let token = resolution.shown.iter().find(|shown| shown.name == "access_token");
                let token_from = token.map(|shown| shown.origin.as_str()).unwrap_or_default();
                let warnings = warnings.iter().map(ToString::to_string).collect();
                let file = file_in_use(&environment(), global.config.as_deref());
                let seen = DoctorScreen { loaded, token_from, warnings, file };
                self.examine(&seen)?
            }
        };
        let page = page(&report);
        print(&if self.json { serde_json::to_string_pretty(&report)? } else { page.clone() })?;
        if let Some(path) = &self.bundle {
            self.pack(path.as_deref(), global, &report, &page)?;
        }
        Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn examine(&self, seen: &DoctorScreen<'_>) -> anyhow::Result<DoctorReport> {
        let config = &seen.loaded.config;
        let screen = Screen::new();
        if !self.offline && !matches!(config.backend, Backend::Sim { .. }) && !self.json {
            let model = &self.model;
            say(&format!("Sends two short requests to `{model}`, which count towards your plan."));
        }
        let progress = |check: Check| screen.show(check);
        let subject = DoctorSubject {
            config,
            key_from: &seen.loaded.key_from,
            token_from: seen.token_from,
            warnings: seen.warnings.clone(),
            config_file: seen.file.as_deref(),
            model: &self.model,
            offline: self.offline,
            progress: &progress,
        };
        let report = block_on(async { Ok(examine(&subject).await) });
        screen.clear();
        report
    }

    fn pack(
        &self,
        path: Option<&Path>,
        global: &Global,
        report: &DoctorReport,
        page: &str,
    ) -> anyhow::Result<()> {
        let now = clock::unix_seconds();
        let path = path.map_or_else(
            || PathBuf::from(format!("ibeam-doctor-{}-{now}.tar.gz", clock::date(now))),
            Path::to_path_buf,
        );
        let settings = global.resolve(self.upstream.raw().or(self.listening.raw()));
        let here = Here::of(&settings.config).ok();
        let file = file_in_use(&environment(), global.config.as_deref());
        let audit = audit::audit(&audit::AuditSubject {
            config: &settings.config,
            key_from: &settings.api_key_origin,
            here: here.as_ref(),
            config_file: file.as_deref(),
        });
        let names = [audit.credential.email.clone(), audit.credential.sub.clone()];
        let names = names.into_iter().flatten().chain(account(report));
        let secrets = configured(&settings.config, file.as_deref(), here.as_ref(), &Places::here());
        let veil = Veil::new(here.as_ref().map(Here::home), names).masking(secrets);
        let page = anstream::adapter::strip_str(page).to_string();
        let contents = BundleContents { report, page: &page, settings: &settings, audit };
        let parts = block_on(async { Ok(bundle::parts(contents, &veil).await?) })?;
        bundle::write(&path, &parts, now).map_err(|error| {
            Refusal::new(format!("cannot write {}: {error}", path.display()))
                .hint("name another file: `ibeam doctor --bundle FILE`")
        })?;
        say(&format!(
            "\nWrote {}, readable only by you. Check its content before you share it:",
            path.display()
        ));
        for part in &parts {
            say(&format!("  {:<14} {}", part.name, part.what));
        }
        Ok(())
    }
}

/// What was read before anything is looked at.
struct DoctorScreen<'a> {
    loaded: Loaded,
    token_from: &'a str,
    warnings: Vec<String>,
    file: Option<PathBuf>,
}

/// The account, where only Cursor's CLI knows it.
fn account(report: &DoctorReport) -> Option<String> {
    let line = report.checks.iter().find(|line| line.check == Check::Agent)?;
    line.what.rsplit_once("signed in as ").map(|(_, name)| name.to_owned())
}

/// Whether Cursor's CLI would answer although no backend was chosen, as for `ibeam serve`.
fn answered_by_cli(config: &Config) -> bool {
    let signed_out = config.backend == Backend::Cursor
        && config.named_backend.is_none()
        && config.access_token.is_none()
        && Here::of(config)
            .ok()
            .and_then(|here| here.discover().ok())
            .is_some_and(|discovery| discovery.found.is_none());
    signed_out && children::instead(config).is_some()
}

/// Shows the running check on a terminal.
struct Screen {
    watched: bool,
    shown: Cell<bool>,
}

impl Screen {
    fn new() -> Self {
        Self { watched: io::stderr().is_terminal(), shown: Cell::new(false) }
    }

    fn show(&self, check: Check) {
        if self.watched {
            self.clear();
            let mut out = io::stderr().lock();
            let _ = write!(out, "  … {}", title(check)).and_then(|()| out.flush());
            self.shown.set(true);
        }
    }

    fn clear(&self) {
        if self.shown.replace(false) {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

const YELLOW: styling::Style = styling::AnsiColor::Yellow.on_default().bold();
const GREY: styling::Style = styling::AnsiColor::BrightBlack.on_default();

/// The report for people.
fn page(report: &DoctorReport) -> String {
    let width = report.checks.iter().map(|line| title(line.check).len()).max().unwrap_or(0);
    let mut out: Vec<String> = Vec::new();
    for line in &report.checks {
        out.push(row(line, width));
        if let Some(fix) = &line.fix {
            let cyan = STYLES.get_literal();
            out.push(format!("     {:width$}  fix: {cyan}{fix}{cyan:#}", ""));
        }
    }
    out.push(String::new());
    out.push(verdict(report));
    out.join("\n")
}

fn row(line: &CheckLine, width: usize) -> String {
    let (style, mark) = match line.state {
        CheckState::Ok => (*STYLES.get_header(), "ok  "),
        CheckState::Warn => (YELLOW, "warn"),
        CheckState::Fail => (*STYLES.get_error(), "FAIL"),
        CheckState::Skipped => (GREY, "-   "),
    };
    // Only the mark of what is well is coloured: what is not should stand out.
    let (title, what) = (title(line.check), &line.what);
    match line.state {
        CheckState::Ok => format!("{style}{mark}{style:#} {title:width$}  {what}"),
        CheckState::Warn | CheckState::Fail | CheckState::Skipped => {
            format!("{style}{mark} {title:width$}  {what}{style:#}")
        }
    }
}

fn verdict(report: &DoctorReport) -> String {
    let count = |state| report.checks.iter().filter(|line| line.state == state).count();
    let asked = match report.requests {
        0 => String::new(),
        n => format!(" Sent {n} requests to {}.", report.model),
    };
    match (report.first_red(), count(CheckState::Fail)) {
        (None, _) if count(CheckState::Warn) > 0 => format!("It works, with warnings.{asked}"),
        (None, _) if report.offline => "No problems found offline.".to_owned(),
        (None, _) => format!("No problems found.{asked}"),
        (Some(first), 1) => format!("The cause: {}.", title(first.check)),
        (Some(first), n) => {
            format!("{n} checks failed. Start with the first: {}.", title(first.check))
        }
    }
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
