//! `ibeam service`: the gateway as a service of the user, started by the system.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use etcetera::BaseStrategy as _;
use serde::Serialize;

use super::{
    Global, Listening, Refusal, UpstreamOptions, block_on, models::align, print, require_account,
    say, service_log,
};
use crate::service::{
    FileOwner, Launchd, Schtasks, ServiceError, ServiceManager, ServiceSpec, ServiceStamp,
    ServiceState, SystemRunner, Systemd, SystemdPaths, carried, install, read, uninstall, unseen,
};
use ibeam_server::{
    config::{Backend, Config, Env, Listen, environment, load},
    keys::{self, KeyPolicy},
    net::probe,
    server,
};

/// The next request starts it again, so it need not wait in memory.
const IDLE_EXIT: &str = "30m";

/// For an answer of the gateway, which is on this machine.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam service install                 the first request starts the gateway from now on
  ibeam service install --dry-run       show what would be written and run
  ibeam service install --backend cli   with options of `ibeam serve`
  ibeam service status
  ibeam service logs -f
  ibeam service uninstall               remove everything that was installed

It is a service of your user, not of the system: systemd on Linux, launchd on macOS, a task
of the Task Scheduler on Windows. It does not see your shell's variables, and no secret
is written into it: put settings into `config.toml`, and sign in with `ibeam login`.")]
pub(super) struct ServiceCommand {
    #[command(subcommand)]
    action: ServiceAction,
}

#[derive(Debug, Subcommand)]
enum ServiceAction {
    /// Install it, with these options of `ibeam serve`; again, to change them
    Install(Box<Install>),
    /// Stop it and remove all that was installed
    Uninstall {
        /// Show what would be removed and run, and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Even if the files were changed since
        #[arg(long)]
        force: bool,
    },
    /// Show whether it is enabled, runs and answers; ends with 1 if something is wrong
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show its log
    Logs {
        /// Follow it as it grows, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        /// How many lines to begin with
        #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
        lines: u32,
    },
}

#[derive(Debug, Args)]
struct Install {
    /// Show what would be written and run, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

impl ServiceCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let manager = manager()?;
        let manager = manager.as_ref();
        match &self.action {
            ServiceAction::Install(wanted) => wanted.run(global, manager),
            ServiceAction::Uninstall { dry_run, force } => remove(manager, *dry_run, *force),
            ServiceAction::Status { json } => status(manager, *json),
            ServiceAction::Logs { follow, lines } => {
                service_log::show(&manager.logs(*follow, *lines), *follow, *lines)
            }
        }
    }
}

impl Install {
    fn run(&self, global: &Global, manager: &dyn ServiceManager) -> anyhow::Result<ExitCode> {
        let env = environment();
        let mut config = self.settings(global, &env)?;
        let service = self.service(global, manager, &config, &env)?;
        if self.dry_run {
            return show(manager, &service);
        }
        if let Some(missing) = manager.missing(&SystemRunner) {
            return Err(missing_manager(missing).into());
        }
        let again = manager.files().iter().any(|path| matches!(read(path), Ok(FileOwner::Ours(_))));
        if !again {
            free(&service)?;
        }
        let files = install(manager, &service, &SystemRunner).map_err(refused)?;
        for file in files {
            say(&format!("Wrote {}", file.display()));
        }
        for step in manager.install(again) {
            say(&format!("Ran   {}", step.line));
        }
        say("");
        for url in service.urls() {
            say(&format!("  Base URL   {}", base_url(&url)));
        }
        say("");
        for note in manager.notes() {
            say(&note);
        }
        if require_account(&mut config).is_err() {
            say("Not signed in to Cursor yet: run `ibeam login`.");
        }
        warn(&service, &env);
        Ok(ExitCode::SUCCESS)
    }

    /// As the service will see them: without the variables of this shell.
    fn settings(&self, global: &Global, env: &Env) -> anyhow::Result<Config> {
        let flags = self.upstream.raw().or(self.listening.raw()).or(global.raw());
        let resolution = load(flags, &Env::new(), named_file(global, env).as_deref());
        if !resolution.problems.is_empty() {
            return Err(Refusal::invalid(&resolution.problems).into());
        }
        let mut config = resolution.config;
        if self.upstream.sim {
            config.backend = Backend::Sim { scenario: None };
        }
        let policy = keys::policy(config.keys_file.as_deref())
            .map_err(|error| super::keys::refused(&error))?;
        config.check_serving(policy == KeyPolicy::Keys).map_err(|why| {
            Refusal::new(why.to_string())
                .hint("create a key for each client with `ibeam keys add NAME`")
        })?;
        for place in config.places() {
            lasting(place)?;
        }
        Ok(config)
    }

    fn service(
        &self,
        global: &Global,
        manager: &dyn ServiceManager,
        config: &Config,
        env: &Env,
    ) -> anyhow::Result<ServiceSpec> {
        let mut args: Vec<OsString> = vec!["serve".into(), "--unattended".into()];
        args.extend(global.args());
        // The variable that names it stays here.
        if let (None, Some(file)) = (&global.config, named_file(global, env)) {
            args.push(format!("--config={}", std::path::absolute(file)?.display()).into());
        }
        if let Some(log) = manager.log_file().filter(|_| config.log.file.is_none()) {
            args.extend(["--log-file".into(), log.into()]);
        }
        args.extend(self.listening.args());
        if manager.starts_on_demand() && config.idle_exit.is_none() {
            args.push(format!("--idle-exit={IDLE_EXIT}").into());
        }
        args.extend(self.upstream.args());
        Ok(ServiceSpec {
            program: text(program()?.into_os_string())?,
            args: args.into_iter().map(text).collect::<Result<_, _>>()?,
            env: carried(env),
            places: config.places().cloned().collect(),
            tls: config.tls.is_some(),
            drain: config.clocks.drain,
        })
    }
}

/// The file with the settings, where it is not in the usual place.
fn named_file(global: &Global, env: &Env) -> Option<PathBuf> {
    let from_env = || env.get("IBEAM_CONFIG").filter(|file| !file.is_empty()).map(PathBuf::from);
    global.config.clone().or_else(from_env)
}

/// What is installed is text.
fn text(word: OsString) -> Result<String, Refusal> {
    word.into_string().map_err(|word| {
        let text = format!("{} cannot be part of a service", word.display());
        Refusal::new(text).hint("use names that are valid UTF-8")
    })
}

/// Whether the system starts the gateway.
pub(super) fn is_installed() -> bool {
    let is_ours =
        |path: &PathBuf| matches!(read(path), Ok(FileOwner::Ours(_) | FileOwner::Changed));
    manager().is_ok_and(|manager| manager.files().iter().any(is_ours))
}

/// What starts services here.
fn manager() -> anyhow::Result<Box<dyn ServiceManager>> {
    let dirs = etcetera::choose_base_strategy()?;
    let env = environment();
    Ok(if cfg!(target_os = "linux") {
        Box::new(Systemd::new(&dirs.config_dir(), SystemdPaths::here()))
    } else if cfg!(target_os = "macos") {
        Box::new(Launchd::new(dirs.home_dir(), user()))
    } else if cfg!(windows) {
        let value = |name: &str| env.get(name).map(String::as_str).unwrap_or_default();
        let local = match value("LOCALAPPDATA") {
            "" => dirs.home_dir().join("AppData").join("Local"),
            path => PathBuf::from(path),
        };
        let user = match value("USERDOMAIN") {
            "" => value("USERNAME").to_owned(),
            domain => format!("{domain}\\{}", value("USERNAME")),
        };
        Box::new(Schtasks::new(&local, &user))
    } else {
        let text = "ibeam cannot install services on this system";
        let hint = "make its service manager run `ibeam serve --unattended`";
        return Err(Refusal::new(text).hint(hint).into());
    })
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(not(unix))]
fn user() -> u32 {
    0
}

/// This program, by the name that stays when it is updated: package managers put a link to
/// the version of the day into the path.
fn program() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let own = this.canonicalize()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = this.file_name().unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let same = |candidate: &PathBuf| candidate.canonicalize().is_ok_and(|path| path == own);
    Ok(in_path.filter(|candidate| candidate.is_absolute()).find(same).unwrap_or(own))
}

/// A service is found where it was yesterday.
fn lasting(place: &Listen) -> anyhow::Result<()> {
    match place {
        Listen::Tcp(address) if address.port() == 0 => {
            Err(Refusal::new("a service needs a fixed port; port 0 is a different one each time")
                .hint("choose one with `--port`; the default is 18741")
                .into())
        }
        Listen::Unix(path) if !path.is_absolute() => {
            let text = format!("a service needs the absolute path of its socket, not {place}");
            Err(Refusal::new(text).hint("such as `--listen unix:$HOME/ibeam.sock`").into())
        }
        Listen::Tcp(_) | Listen::Unix(_) => Ok(()),
    }
}

/// Whether its ports are free.
fn free(service: &ServiceSpec) -> anyhow::Result<()> {
    let ports = service.places.iter().filter_map(|place| match place {
        Listen::Tcp(address) => Some(*address),
        Listen::Unix(_) => None,
    });
    let ports: Vec<_> = ports.collect();
    block_on(async {
        for port in ports {
            server::listen(port).await?;
        }
        Ok(())
    })
}

fn show(manager: &dyn ServiceManager, service: &ServiceSpec) -> anyhow::Result<ExitCode> {
    let stamp = ServiceStamp { folders: 0, urls: service.urls() };
    for draft in manager.drafts(service) {
        say(&format!("Would write {}:", draft.path.display()));
        print(&draft.text(&stamp))?;
    }
    let again = manager.files().iter().any(|path| path.exists());
    for step in manager.install(again) {
        say(&format!("Would run {}", step.line));
    }
    warn(service, &environment());
    Ok(ExitCode::SUCCESS)
}

fn warn(service: &ServiceSpec, env: &Env) {
    for note in unseen(env) {
        say(&format!("warning: {note}"));
    }
    let parts: Vec<_> = Path::new(&service.program).iter().collect();
    if parts.iter().any(|part| *part == "target" || *part == "_npx") {
        say(&format!(
            "warning: {} is in a temporary folder; install ibeam permanently, then install the \
             service again",
            service.program
        ));
    }
}

fn remove(manager: &dyn ServiceManager, dry_run: bool, force: bool) -> anyhow::Result<ExitCode> {
    if dry_run {
        let (first, last) = manager.uninstall();
        for step in &first {
            say(&format!("Would run {}", step.line));
        }
        for file in manager.files().iter().filter(|file| file.exists()) {
            say(&format!("Would remove {}", file.display()));
        }
        for step in &last {
            say(&format!("Would run {}", step.line));
        }
        return Ok(ExitCode::SUCCESS);
    }
    for file in uninstall(manager, &SystemRunner, force).map_err(refused)? {
        say(&format!("Removed {}", file.display()));
    }
    if let Some(log) = manager.log_file().filter(|log| log.exists()) {
        say(&format!("Its log stays: {}", log.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// For scripts.
#[derive(Debug, Default, Serialize)]
struct ServiceReport {
    manager: &'static str,
    installed: bool,
    enabled: bool,
    running: bool,
    /// The system listens, and the first request starts it.
    waiting: bool,
    pid: Option<u32>,
    urls: Vec<String>,
    /// None: it does not run, or cannot be asked.
    healthy: Option<bool>,
    version: Option<String>,
    backend: Option<String>,
    authenticated: Option<bool>,
    files: Vec<PathBuf>,
    problems: Vec<String>,
}

fn status(manager: &dyn ServiceManager, json: bool) -> anyhow::Result<ExitCode> {
    let report = report(manager)?;
    print(&if json { serde_json::to_string_pretty(&report)? } else { page(&report) })?;
    let well = report.installed && report.problems.is_empty();
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(manager: &dyn ServiceManager) -> anyhow::Result<ServiceReport> {
    let mut report = ServiceReport { manager: manager.name(), ..ServiceReport::default() };
    for path in manager.files() {
        match read(&path) {
            Ok(FileOwner::Missing) => continue,
            Ok(FileOwner::Ours(stamp)) => report.urls = stamp.urls,
            Ok(FileOwner::Changed) => {
                let text = format!("{} was changed after the installation", path.display());
                report.problems.push(text);
            }
            Ok(FileOwner::Foreign) => {
                report.problems.push(format!("{} was not written by ibeam", path.display()));
            }
            Err(error) => report.problems.push(format!("{}: {error}", path.display())),
        }
        report.files.push(path);
    }
    report.installed = !report.files.is_empty();
    if !report.installed {
        return Ok(report);
    }
    let ServiceState { enabled, running, waiting, pid, trouble } = manager.state(&SystemRunner);
    report.enabled = enabled;
    report.waiting = waiting;
    report.pid = pid;
    report.problems.extend(trouble);
    // A question would start one that waits.
    let may_ask = running.unwrap_or(true);
    report.running = running.unwrap_or(false);
    if let (true, Some(url)) = (may_ask, report.urls.first().cloned()) {
        match block_on(async { Ok(probe::health(&url, PATIENCE).await) })? {
            Ok(health) => {
                report.running = true;
                report.authenticated = Some(health.is_authenticated());
                report.healthy = Some(health.status != "error");
                report.version = Some(health.version);
                report.backend = Some(health.backend);
            }
            Err(_) if url.starts_with("https") => {}
            Err(why) => {
                report.healthy = Some(false);
                report.problems.push(format!("{url} does not answer: {why}"));
            }
        }
    }
    if !report.running && !report.waiting && report.problems.is_empty() {
        let text = "it is not running; `ibeam service install` starts it again";
        report.problems.push(text.to_owned());
    }
    if report.authenticated == Some(false) {
        report.problems.push("not signed in to Cursor; run `ibeam login`".to_owned());
    }
    Ok(report)
}

fn page(report: &ServiceReport) -> String {
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    if !report.installed {
        return "The service is not installed; `ibeam service install` installs it.".to_owned();
    }
    let running = match (report.running, report.pid, report.waiting) {
        (true, Some(pid), _) => format!("yes, as process {pid}"),
        (true, None, _) => "yes".to_owned(),
        (false, _, true) => "no; the first request starts it".to_owned(),
        (false, _, false) => "no".to_owned(),
    };
    let healthy = match (report.healthy, &report.version, &report.backend) {
        (Some(true), Some(version), Some(backend)) => format!("yes: ibeam {version}, {backend}"),
        (Some(well), _, _) => yes(well),
        (None, ..) => "not asked".to_owned(),
    };
    let files: Vec<_> = report.files.iter().map(|file| file.display().to_string()).collect();
    let mut lines = align(&[
        ["Service".to_owned(), format!("of {}", report.manager)],
        ["Enabled".to_owned(), yes(report.enabled)],
        ["Running".to_owned(), running],
        ["Listens on".to_owned(), report.urls.join(", ")],
        ["Healthy".to_owned(), healthy],
        ["Files".to_owned(), files.join(", ")],
    ]);
    for problem in &report.problems {
        lines.push_str(&format!("\nproblem: {problem}"));
    }
    lines
}

fn base_url(url: &str) -> String {
    if url.starts_with("unix:") { url.to_owned() } else { format!("{url}/v1") }
}

fn missing_manager((what, ways): (String, Vec<String>)) -> Refusal {
    ways.into_iter().fold(Refusal::new(what), Refusal::hint)
}

fn refused(failed: ServiceError) -> Refusal {
    failed.hints.into_iter().fold(Refusal::new(failed.what), Refusal::hint)
}
