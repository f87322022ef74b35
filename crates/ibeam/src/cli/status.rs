//! `ibeam status`: the gateways that run.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::{block_on, models::align, print, print_json, say, start::other_version};
use crate::instance::{self, LivingInstance, RunningInstance};

#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 when none is running.

Examples:
  ibeam status
  ibeam status --json | jq -r '.[].url'")]
pub(super) struct StatusCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Names are an interface: scripts read them.
#[derive(Serialize)]
struct StatusOutput {
    url: String,
    pid: u32,
    version: String,
    profile: String,
    backend: String,
    sim: bool,
    shared: bool,
    answers: bool,
    authenticated: bool,
    active: u64,
    parked: u64,
    uptime_seconds: u64,
}

impl StatusCommand {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let all = block_on(async {
            let mut all = Vec::new();
            for one in instance::all() {
                let running = one.ask().await;
                all.push((one, running));
            }
            Ok(all)
        })?;
        let mut found = Vec::new();
        for (one, running) in &all {
            found.push(StatusOutput::of(one, running.as_ref()));
        }
        if self.json {
            print_json(&found)?;
        } else if found.is_empty() {
            say("None of your gateways is running; `ibeam start` starts one.");
        } else {
            print(&table(&found))?;
            for other in all.iter().filter_map(|(_, running)| other_version(running.as_ref()?)) {
                say(&other);
            }
        }
        Ok(if found.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl StatusOutput {
    fn of(one: &LivingInstance, running: Option<&RunningInstance>) -> Self {
        Self {
            url: one.url.clone(),
            pid: one.pid,
            version: one.version.clone(),
            profile: one.profile.clone(),
            backend: one.backend.clone(),
            sim: one.sim,
            shared: one.shared,
            answers: running.is_some(),
            authenticated: running.is_some_and(|running| running.authenticated),
            active: running.map_or(0, |running| running.active),
            parked: running.map_or(0, |running| running.parked),
            uptime_seconds: running.map_or(0, |running| running.uptime.as_secs()),
        }
    }

    fn state(&self) -> String {
        match self {
            Self { answers: false, .. } => "does not answer".to_owned(),
            Self { authenticated: false, .. } => "not signed in".to_owned(),
            Self { active: 0, parked: 0, .. } => "idle".to_owned(),
            Self { active, parked, .. } => format!("{active} running, {parked} parked"),
        }
    }
}

fn table(found: &[StatusOutput]) -> String {
    let head = ["URL", "PROFILE", "BACKEND", "STARTED BY", "UP", "STATE", "PID"];
    let mut table = vec![head.map(str::to_owned)];
    for one in found {
        table.push([
            one.url.clone(),
            one.profile.clone(),
            if one.sim { format!("{} (sim)", one.backend) } else { one.backend.clone() },
            if one.shared { "start" } else { "up, serve" }.to_owned(),
            time(one.uptime_seconds),
            one.state(),
            one.pid.to_string(),
        ]);
    }
    align(&table)
}

fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}
