//! Looks at everything, one thing after the other, and goes no further on a way that is
//! shut.

mod api;
mod clients;
mod cursor_agent;
mod disk;
mod network;
mod port;
mod turn;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use ibeam_core::{backend::Needs, peer::agent::probe::ProbeFindings};
use tokio::time::Instant;

use super::{
    findings::{AccessFindings, FileFindings, Findings},
    judge::{self, judge},
    report::{Check, CheckLine, Code, DoctorReport},
};
use crate::doctor::audit::{self, AuditProblem, FileLine};
use ibeam_server::{
    auth::LocalUser,
    clock,
    config::{Backend, Config, SettingOrigin, SettingProblem},
    driver::login_command,
    findings, keys,
    mcp::config::{SearchPaths, gather},
    tasks::Tasks,
};

/// What is to be examined.
pub struct DoctorSubject<'a> {
    pub config: &'a Config,
    /// Where the setting `api_key` comes from, and `access_token`.
    pub key_from: &'a SettingOrigin,
    pub token_from: &'a str,
    pub warnings: Vec<String>,
    /// The file of the settings, there or not.
    pub config_file: Option<&'a Path>,
    pub model: &'a str,
    /// Ask nothing of the backend.
    pub offline: bool,
    /// Gets the check that is next.
    pub progress: &'a dyn Fn(Check),
}

impl fmt::Debug for DoctorSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, offline, .. } = self;
        let mut out = f.debug_struct("Subject");
        out.field("model", model).field("offline", offline).finish_non_exhaustive()
    }
}

/// What the gateways of this user say of themselves.
pub(super) async fn healths() -> Vec<serde_json::Value> {
    let mut healths = Vec::new();
    for running in port::running().await {
        healths.extend(port::health(&running.url).await);
    }
    healths
}

/// Looks, and judges.
pub async fn examine(subject: &DoctorSubject<'_>) -> DoctorReport {
    let begun = Instant::now();
    let tasks = Tasks::new();
    let found = look(subject, &tasks).await;
    tasks.stop();
    let checks = judge(&found, clock::unix_seconds());
    let requests = found.asked.as_ref().map_or(0, |asked| asked.requests);
    DoctorReport { requests, ..report(subject.config, subject, checks, begun) }
}

impl DoctorReport {
    /// Where the settings themselves cannot be used, nothing else can be looked at.
    #[must_use]
    pub fn of_settings(problems: &[SettingProblem], model: &str, offline: bool) -> Self {
        let line = |problem: &SettingProblem| {
            CheckLine::fail(Check::Settings, Code::SettingsInvalid, problem.to_string())
                .fix("ibeam config show")
        };
        let mut checks: Vec<CheckLine> = problems.iter().map(line).collect();
        let rest = Check::ALL.iter().filter(|check| **check != Check::Settings);
        let why = format!("skipped because of {}", judge::title(Check::Settings));
        checks.extend(rest.map(|check| CheckLine::skipped(*check, why.clone())));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            ok: false,
            cause: Some(Code::SettingsInvalid),
            backend: "unknown",
            model: model.to_owned(),
            offline,
            requests: 0,
            milliseconds: 0,
            checks,
        }
    }
}

fn report(
    config: &Config,
    subject: &DoctorSubject<'_>,
    checks: Vec<CheckLine>,
    begun: Instant,
) -> DoctorReport {
    let mut report = DoctorReport {
        version: env!("CARGO_PKG_VERSION"),
        ok: false,
        cause: None,
        backend: match (&config.backend, config.backend_kind().needs()) {
            (Backend::Sim { .. }, Needs::Account) => "sim",
            (Backend::Cursor, Needs::Account) | (_, Needs::CursorAgent) => {
                config.backend_kind().name()
            }
        },
        model: subject.model.to_owned(),
        offline: subject.offline,
        requests: 0,
        milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        checks,
    };
    report.cause = report.first_red().and_then(|line| line.code);
    report.ok = report.cause.is_none();
    report
}

async fn look(subject: &DoctorSubject<'_>, tasks: &Tasks) -> Findings {
    let config = subject.config;
    let tell = subject.progress;
    let here = LocalUser::of(config).ok();
    tell(Check::Disk);
    let folders = disk::look(config, here.as_ref());
    tell(Check::Files);
    let files = files(subject, here.as_ref());
    let access = access(config);
    tell(Check::Port);
    let ports = port::look(config).await;
    let running = port::running().await;
    tell(Check::Clients);
    let clients = clients::look().await;
    let mut found = Findings {
        warnings: subject.warnings.clone(),
        unapproved: unapproved(config),
        config_file: subject.config_file.filter(|path| path.exists()).map(Path::to_path_buf),
        folders,
        files,
        access,
        ports,
        running,
        clients,
        probes: probes(config),
        api: None,
        cursor_agent: None,
        client_version: config.upstream.client_version.clone(),
        login: login_command(config),
        asked: None,
        model: subject.model.to_owned(),
    };
    let open = match (config.backend_kind().needs(), &config.backend) {
        (Needs::CursorAgent, _) => {
            tell(Check::Agent);
            let program = cursor_agent::look(config, subject.offline, tasks).await;
            let open = cursor_agent::is_open(&program);
            found.cursor_agent = Some(program);
            open
        }
        (Needs::Account, Backend::Sim { .. }) => true,
        (Needs::Account, Backend::Cursor) => {
            let api = api::look(subject, here.as_ref(), tasks).await;
            let open = api::is_open(&api);
            found.api = Some(api);
            open
        }
    };
    if !subject.offline {
        found.asked = Some(match open {
            true => turn::ask(subject, tasks).await,
            false => Default::default(),
        });
    }
    found
}

/// What probes found out, where the backend goes by it.
fn probes(config: &Config) -> Option<Result<ProbeFindings, String>> {
    let path = config.upstream.findings.as_deref().filter(|_| !config.uses_cursor_agent())?;
    Some(findings::read(path).map_err(|error| format!("{}: {error}", path.display())))
}

fn unapproved(config: &Config) -> Vec<(PathBuf, String)> {
    if !config.mcp.enabled {
        return Vec::new();
    }
    let files = gather(&config.mcp, &SearchPaths::here()).unapproved;
    files.into_iter().map(|file| (file.path.clone(), file.command())).collect()
}

fn files(subject: &DoctorSubject<'_>, here: Option<&LocalUser>) -> FileFindings {
    let DoctorSubject { config, key_from, config_file, .. } = subject;
    let report =
        audit::audit(&audit::AuditSubject { config, key_from, here, config_file: *config_file });
    let there = report.files.iter().filter(|line| line.there).count();
    let fault = |line: FileLine| line.problem;
    FileFindings { looked_at: there, faults: report.files.into_iter().filter_map(fault).collect() }
}

fn access(config: &Config) -> AccessFindings {
    let policy = keys::policy(config.access.keys_file.as_deref());
    let key_needed = match &policy {
        Ok(policy) => Ok(config.access.api_key.is_some() || *policy != keys::KeyPolicy::Open),
        // That others may read it is said with the files.
        Err(keys::KeyFileError::Open(_)) => Ok(true),
        Err(error) => {
            let what = format!("{}: {}", ibeam_server::net::chain(error), error.hint());
            Err(AuditProblem { what, fix: None })
        }
    };
    let mut weak = Vec::new();
    weak.extend(
        config
            .check_serving(matches!(policy, Ok(keys::KeyPolicy::Keys)))
            .err()
            .map(|error| error.to_string()),
    );
    let needed = *key_needed.as_ref().unwrap_or(&true);
    weak.extend(config.weak_points(needed).into_iter().map(str::to_owned));
    AccessFindings { key_needed, weak }
}
