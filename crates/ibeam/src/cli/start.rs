//! `ibeam start`: a gateway in the background, for all programs of the user.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Args;
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::{Global, Refusal, UpstreamOptions, block_on, print, say};
use crate::instance::{self, InstanceError, RunningInstance, WantedInstance};
use ibeam_server::{
    auth::tokens::login_command,
    config::{Config, RawConfig},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam start                           prints the URL of the gateway
  ibeam start --sim                     one that answers without an account
  ibeam start --json | jq -r .key       its key, valid while it runs
  ibeam start --idle-exit 8h            stay for a working day

If one of your gateways is already running, it is used, also if `ibeam up` or `ibeam serve`
started it; it keeps its settings. A new one stops after 30 minutes without a
request, or with `ibeam stop`.")]
pub(super) struct StartCommand {
    #[command(flatten)]
    upstream: UpstreamOptions,
    /// Stop after this long without a request, such as `8h`; 0 for never [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = ibeam_server::config::duration)]
    idle_exit: Option<Duration>,
    /// Print JSON, with the key
    #[arg(long)]
    json: bool,
}

/// Names are an interface: scripts and plugins read them.
#[derive(Serialize)]
struct StartOutput<'a> {
    url: &'a str,
    key: &'a str,
    pid: u32,
    version: &'a str,
    profile: &'a str,
    backend: &'a str,
    sim: bool,
    authenticated: bool,
    started: bool,
}

impl StartCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let config = global.load_quietly(RawConfig::default(), &self.upstream)?;
        let mut extra = Vec::new();
        if let Some(time) = self.idle_exit {
            extra.push(format!("--idle-exit={}ms", time.as_millis()).into());
        }
        let running = ensure(&wanted(global, &self.upstream, &config, extra))?;
        let RunningInstance { url, key, pid, version, profile, backend, .. } = &running;
        if self.json {
            print(&serde_json::to_string(&StartOutput {
                url,
                key: key.expose_secret(),
                pid: *pid,
                version,
                profile,
                backend,
                sim: running.sim,
                authenticated: running.authenticated,
                started: running.started,
            })?)?;
            return Ok(ExitCode::SUCCESS);
        }
        print(url)?;
        for line in words(&running, &config) {
            say(&line);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What people should know of it.
fn words(running: &RunningInstance, config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let pid = running.pid;
    lines.push(match (running.started, running.shared) {
        (true, _) => format!("Started in the background (process {pid}); `ibeam stop` ends it."),
        (false, true) => format!("It was already running (process {pid})."),
        (false, false) => format!(
            "It was already running (process {pid}); `ibeam up` or `ibeam serve` started it."
        ),
    });
    lines.extend(other_version(running));
    if !running.authenticated {
        let login = login_command(&config.profile);
        lines.push(format!(
            "Not signed in to Cursor yet; run `{login}`. The gateway notices the sign-in by itself."
        ));
    }
    lines
}

/// What to say of a gateway of another version.
pub(super) fn other_version(running: &RunningInstance) -> Option<String> {
    let ours = env!("CARGO_PKG_VERSION");
    let theirs = &running.version;
    (theirs != ours).then(|| {
        let stop = if running.shared { "`ibeam stop`" } else { "stop it" };
        format!(
            "It is version {theirs}, and this program is {ours}; {stop} to switch to this version."
        )
    })
}

/// A gateway for these settings, which the flags led to. `extra` are further flags for one
/// that has to be started.
pub(super) fn wanted(
    global: &Global,
    upstream: &UpstreamOptions,
    config: &Config,
    extra: Vec<OsString>,
) -> WantedInstance {
    let args = [global.args(), upstream.args(), extra].concat();
    WantedInstance::new(config, args)
}

/// The options of `ibeam start` by which a client's settings name the same gateway.
pub(super) fn args(global: &Global, upstream: &UpstreamOptions) -> anyhow::Result<Vec<String>> {
    let args = [global.args(), upstream.args()].concat();
    let text = |arg: OsString| {
        arg.into_string().map_err(|arg| {
            let arg = arg.display();
            Refusal::new(format!("{arg} is not valid UTF-8 and cannot be used in settings")).into()
        })
    };
    args.into_iter().map(text).collect()
}

/// The gateway of these settings, if need be a new one.
pub(super) fn ensure(wanted: &WantedInstance) -> anyhow::Result<RunningInstance> {
    let ensured = block_on(async { Ok(instance::ensure(wanted).await) })?;
    if let Ok(RunningInstance { stranger: Some(url), .. }) = &ensured {
        say(&format!(
            "warning: the program at {url} is not your gateway: it does not have the gateway's \
             key. Nothing was sent to it, and another gateway is used."
        ));
    }
    ensured.map_err(|error| match error {
        InstanceError::NotStarted(why) => {
            let why = why.replace('\n', "\n  ");
            let refusal = Refusal::new(format!("the gateway did not start\n  {why}"));
            let hint = "`ibeam serve` with the same options shows its whole output";
            refusal.hint(hint).into()
        }
        error => error.into(),
    })
}
