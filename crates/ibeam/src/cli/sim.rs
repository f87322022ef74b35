//! `ibeam sim`: the simulator of Cursor's backend by itself, for other clients of
//! that backend, for tests and for measurements.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use ibeam_sim::{Behaviour, Preset, Sim};

use super::{
    Global, INTERRUPTED, Refusal, UpstreamOptions, block_on, options::simulator_switch, print, say,
};
use ibeam_server::{
    clock,
    config::{self, Simulator, SimulatorError},
    net::tls,
    server::listen,
    shutdown::{Shutdown, Signals},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam sim --port 9100
  curl http://127.0.0.1:9100/sim/stats          what it saw so far, as JSON
  curl http://127.0.0.1:9100/sim/prompts        what its models know
  ibeam sim --switch preset=summer              as the service was until August 2026
  CURSOR_API_URL=http://127.0.0.1:9100 CURSOR_ACCESS_TOKEN=\"$(ibeam sim --token)\" ibeam up
  ibeam sim --port 9100 --tls-cert cert.pem --tls-key key.pem --scenario turns.toml")]
pub(super) struct SimCommand {
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    host: std::net::IpAddr,
    /// Run this scenario (TOML or JSON) instead of the built-in assistant
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Serve TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept any access token
    #[arg(long)]
    any_token: bool,
    /// Keep blobs from one stream to the next, as the real service does for a while
    #[arg(long)]
    keep_blobs: bool,
    /// Delay each answer by this long, such as `6s`
    #[arg(long, value_name = "TIME", value_parser = config::duration)]
    bootstrap: Option<Duration>,
    /// Try Cursor's own tools before the client's
    #[arg(long)]
    native_tools: bool,
    /// Wait this many milliseconds after each piece of an answer
    #[arg(long, value_name = "MS")]
    pace_ms: Option<u64>,
    /// Complete a sign-in only when the button on its page is pressed
    #[arg(long)]
    login_page: bool,
    /// How long issued access tokens are valid, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = config::duration)]
    token_lifetime: Option<Duration>,
    /// Set a switch of the service's behaviour, or `preset=summer`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = simulator_switch)]
    switch: Vec<String>,
    /// Print all switches with their values and meanings, and exit
    #[arg(long)]
    list_switches: bool,
    /// Print the access token that the simulator accepts, and exit
    #[arg(long)]
    token: bool,
}

/// The table of all switches.
fn switches() -> String {
    let mut text = format!("The default preset is {}.\n", Preset::default());
    for row in Behaviour::table() {
        text.push_str(&format!(
            "\n{}: {}\n  values: {}\n  autumn: {}, summer: {}\n",
            row.name, row.meaning, row.values, row.autumn, row.summer
        ));
    }
    text
}

impl SimCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        if self.token {
            print(Sim::TOKEN)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.list_switches {
            print(switches().trim_end())?;
            return Ok(ExitCode::SUCCESS);
        }
        global.load(ibeam_server::config::RawConfig::default(), &UpstreamOptions::default())?;
        if !self.host.is_loopback() && self.tls_cert.is_none() {
            let refusal = Refusal::new("without TLS, the simulator listens only on this machine");
            return Err(refusal.hint("give --tls-cert and --tls-key").into());
        }
        block_on(self.serve())
    }

    async fn serve(&self) -> anyhow::Result<ExitCode> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Some(tls::server_config(chain, key)?),
            _ => None,
        };
        let simulator = Simulator {
            bootstrap: self.bootstrap.unwrap_or_default(),
            native_tools: self.native_tools,
            keep_blobs: self.keep_blobs,
            switches: self.switch.clone(),
        };
        let mut config = match simulator.config(self.scenario.as_deref()) {
            Ok(config) => config,
            Err(SimulatorError::Scenario(error)) => {
                return Err(error).context("cannot use the scenario");
            }
            Err(error) => return Err(error.into()),
        };
        config.epoch = clock::unix_seconds();
        config.sign_in.any_token = self.any_token;
        config.sign_in.token_lifetime = self.token_lifetime;
        if self.login_page {
            config.sign_in.poll_pending = None;
        }
        if let Some(pace) = self.pace_ms {
            config.pace = Duration::from_millis(pace);
        }
        let listener = listen(SocketAddr::new(self.host, self.port)).await?;
        let address = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (shutdown, signals) = (Shutdown::new(), Signals::new()?);
        print(&format!("{scheme}://{address}"))?;
        say("the simulator is running; Ctrl-C stops it");
        let sim = Sim::new(config);
        tokio::select! {
            () = sim.serve(listener, tls, shutdown.token().clone()) => {}
            () = shutdown.aborted() => {}
            () = signals.relay(&shutdown) => {}
        }
        Ok(if shutdown.was_forced() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
    }
}
