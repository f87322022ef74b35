//! `ibeam stop`: ends the gateway in the background.

use std::{process::ExitCode, time::Duration};

use clap::Args;

use super::{Global, Refusal, UpstreamOptions, block_on, say};
use crate::instance::{self, LivingInstance};
use ibeam_server::config::RawConfig;

/// Beyond what it may take to finish its requests.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam stop
  ibeam stop --profile work             only that of this account
  ibeam stop --sim                      only that of the simulator
  ibeam stop 18741                      one of several, by what `ibeam status` shows of it:
                                        its URL, its port or its process
  ibeam stop --all                      also those of `ibeam up` and `ibeam serve`

Running requests get up to `clocks.drain` to finish.")]
pub(super) struct StopCommand {
    /// Only this one, no matter how it was started: its URL, port or process id
    #[arg(value_name = "GATEWAY", conflicts_with = "all")]
    which: Option<String>,
    /// All your gateways, not only those in the background
    #[arg(long)]
    all: bool,
    /// Only those that run the simulator
    #[arg(long)]
    sim: bool,
}

impl StopCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let config = global.load_quietly(RawConfig::default(), &UpstreamOptions::default())?;
        let meant = |one: &LivingInstance| {
            let profile = global.profile.as_deref();
            let named = match &self.which {
                Some(which) => is_named(one, which),
                None => self.all || one.shared,
            };
            named && (!self.sim || one.sim) && profile.is_none_or(|name| name == one.profile)
        };
        let all: Vec<LivingInstance> = instance::all().into_iter().filter(meant).collect();
        if let (true, Some(which)) = (all.is_empty(), &self.which) {
            let refusal = Refusal::new(format!("none of your gateways is `{which}`"));
            return Err(refusal.hint("`ibeam status` shows them").into());
        }
        if all.is_empty() {
            let place = if self.all { "" } else { " in the background" };
            say(&format!("None of your gateways is running{place}."));
        }
        let mut left = Vec::new();
        for one in &all {
            let (pid, url) = (one.pid, &one.url);
            // Where its port is another machine's or container's, so is its number.
            let answers = block_on(async { Ok(one.ask().await.is_some()) })?;
            if answers && block_on(async { Ok(one.stop(config.clocks.drain + GRACE).await?) })? {
                say(&format!("Stopped {url} (process {pid})."));
            } else {
                left.push((pid, url));
            }
        }
        let Some((pid, url)) = left.first() else { return Ok(ExitCode::SUCCESS) };
        Err(Refusal::new(format!("the gateway at {url} does not stop"))
            .hint(format!("if process {pid} is an ibeam of yours: `kill -9 {pid}`"))
            .into())
    }
}

/// By what `ibeam status` shows of it.
fn is_named(one: &LivingInstance, which: &str) -> bool {
    let url = which.trim_end_matches('/').trim_end_matches("/v1");
    let port = one.url.rsplit_once(':').map(|(_, port)| port);
    one.url == url || port == Some(which) || one.pid.to_string() == which
}
