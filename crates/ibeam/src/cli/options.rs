//! What the commands have in common: their options, and the settings these make.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use ibeam_core::backend::{self, Needs};
use ibeam_sim::{BehaviourChanges, BehaviourError};

use super::{Refusal, USAGE, say};
use crate::telemetry;
use ibeam_server::config::{
    Backend, Config, RawConfig, Resolution, SettingKey, SettingOrigin, SettingProblem, Simulator,
    environment, load,
};

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Read settings from this file instead of the default one
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
    /// Which of your accounts to use, if you keep several [default: default]
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) profile: Option<String>,
    /// Change any setting but a secret one, such as `clocks.turn=1h`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub(super) set: Vec<String>,
    /// error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", global = true)]
    log_level: Option<String>,
    /// Log one JSON object per line
    #[arg(long, global = true)]
    log_json: bool,
    /// Log to this file instead of stderr; it is rotated at 4 MiB
    #[arg(long, value_name = "FILE", global = true)]
    log_file: Option<String>,
}

/// The help of `--backend` where it chooses what answers.
fn backend_help() -> String {
    let choices = backend::CHOICES.replace('`', "");
    format!("The backend: {choices}; with --sim, which of them is simulated")
}

/// The help of `--backend` where it chooses a sign-in.
pub(super) fn sign_in_help() -> String {
    let each = Needs::ALL.map(|needs| {
        let names: Vec<_> = needs.backends().collect();
        format!("{} for {}", names.join(" or "), needs.sign_in())
    });
    format!("Which sign-in: {}", each.join(", "))
}

/// Options of the commands that serve or ask the backend.
#[derive(Debug, Default, Args)]
pub(super) struct UpstreamOptions {
    /// Answer from the built-in simulator; no account needed
    #[arg(long)]
    pub(super) sim: bool,
    /// Run this scenario file (TOML or JSON) in the simulator
    #[arg(long, value_name = "FILE", requires = "sim")]
    scenario: Option<PathBuf>,
    /// Delay each answer of the simulator by this long, such as `6s`
    #[arg(long, value_name = "TIME", requires = "sim", value_parser = ibeam_server::config::duration)]
    bootstrap: Option<Duration>,
    /// Make the simulator try Cursor's own tools before the client's
    #[arg(long, requires = "sim")]
    native_tools: bool,
    /// Make the simulator keep blobs from one stream to the next
    #[arg(long, requires = "sim")]
    keep_blobs: bool,
    /// Set a switch of the simulator, such as `preset=summer`; may be repeated
    /// (`ibeam sim --list-switches`)
    #[arg(long, value_name = "NAME=VALUE", requires = "sim", value_parser = simulator_switch)]
    switch: Vec<String>,
    #[arg(long, value_name = "NAME", help = backend_help())]
    pub(super) backend: Option<String>,
    /// A folder that `cursor-agent` may use besides its own empty one
    #[arg(long, value_name = "DIR")]
    workspace: Option<String>,
    /// Use this origin instead of every Cursor host; not with --sim
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
    /// How to reach Cursor: auto, h2 or h1
    #[arg(long, value_name = "KIND")]
    transport: Option<String>,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
}

/// Checks a switch of the simulator, and keeps it as text.
pub(super) fn simulator_switch(text: &str) -> Result<String, BehaviourError> {
    text.parse::<BehaviourChanges>().map(|_| text.to_owned())
}

/// Options of the commands that listen.
#[derive(Debug, Default, Args)]
pub(super) struct Listening {
    /// Address and port, instead of --host and --port, or `unix:/path` for a socket; may be
    /// repeated
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["host", "port"])]
    pub(super) listen: Vec<String>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub(super) host: Option<String>,
    /// Port to listen on, 0 for a free one [default: 18741]
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<String>,
    /// Serve TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<String>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<String>,
    /// Allow browser pages of this origin to call; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(super) cors_origin: Vec<String>,
    /// Stop after this long without a request, such as `30m` [default: never]
    #[arg(long, value_name = "TIME")]
    pub(super) idle_exit: Option<String>,
    /// Allow models to use Cursor's own web search
    #[arg(long)]
    pub(super) allow_web_search: bool,
    /// Allow models to use Cursor's own page fetch
    #[arg(long)]
    pub(super) allow_web_fetch: bool,
}

impl Global {
    pub(super) fn raw(&self) -> RawConfig {
        let mut raw = RawConfig::default();
        for pair in &self.set {
            raw.set_pair(pair);
        }
        set(&mut raw, SettingKey::Profile, "--profile", self.profile.as_deref());
        set(&mut raw, SettingKey::LogLevel, "--log-level", self.log_level.as_deref());
        set(&mut raw, SettingKey::LogFile, "--log-file", self.log_file.as_deref());
        set(&mut raw, SettingKey::LogJson, "--log-json", self.log_json.then_some("true"));
        raw
    }

    /// The same options for another process of this program, wherever it runs. A secret is
    /// never among them.
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args = FlagList::default();
        args.path("--config", self.config.as_deref());
        args.text("--profile", self.profile.as_deref());
        for pair in &self.set {
            args.text("--set", Some(pair));
        }
        args.text("--log-level", self.log_level.as_deref());
        args.switch("--log-json", self.log_json);
        args.path("--log-file", self.log_file.as_deref().map(Path::new));
        args.0
    }

    pub(super) fn resolve(&self, flags: RawConfig) -> Resolution {
        load(flags.or(self.raw()), &environment(), self.config.as_deref())
    }

    /// The settings of a command that serves. Starts logging.
    pub(super) fn load(
        &self,
        flags: RawConfig,
        upstream: &UpstreamOptions,
    ) -> anyhow::Result<Loaded> {
        let (loaded, warnings) = self.checked(flags, upstream)?;
        telemetry::init(&loaded.config.log);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(loaded)
    }

    /// The settings of a command that answers and ends. What goes wrong is reported once, as
    /// its error, and logged only if a log was asked for.
    pub(super) fn load_quietly(
        &self,
        flags: RawConfig,
        upstream: &UpstreamOptions,
    ) -> anyhow::Result<Config> {
        let (loaded, warnings) = self.checked(flags, upstream)?;
        if loaded.log_asked {
            telemetry::init(&loaded.config.log);
        }
        for warning in &warnings {
            say(&format!("warning: {warning}"));
        }
        Ok(loaded.config)
    }

    /// The settings, or all that is wrong with them.
    pub(super) fn checked(
        &self,
        flags: RawConfig,
        upstream: &UpstreamOptions,
    ) -> anyhow::Result<(Loaded, Vec<SettingProblem>)> {
        if upstream.sim
            && let Some(found) = upstream.raw().or(self.raw()).get(SettingKey::ApiUrl)
        {
            let text =
                format!("`--sim` contacts no host, so `api_url` ({}) has no effect", found.origin);
            let refusal = Refusal { code: USAGE, ..Refusal::new(text) };
            let hint = "leave one of them out; `ibeam sim` starts a simulator with an address";
            return Err(refusal.hint(hint).into());
        }
        let resolution = self.resolve(upstream.raw().or(flags));
        if !resolution.problems.is_empty() {
            return Err(Refusal::invalid(&resolution.problems).into());
        }
        let mut config = resolution.config;
        if upstream.sim {
            config.backend = Backend::Sim { scenario: upstream.scenario.clone() };
            config.simulator = Simulator {
                bootstrap: upstream.bootstrap.unwrap_or_default(),
                native_tools: upstream.native_tools,
                keep_blobs: upstream.keep_blobs,
                switches: upstream.switch.clone(),
            };
        }
        let (key_from, log_asked) = (resolution.api_key_origin, resolution.log_asked);
        Ok((Loaded { config, key_from, log_asked }, resolution.warnings))
    }
}

/// Settings that can be used.
pub(super) struct Loaded {
    pub(super) config: Config,
    /// Where the key for clients came from.
    pub(super) key_from: SettingOrigin,
    pub(super) log_asked: bool,
}

impl UpstreamOptions {
    /// For commands that have no other of these options.
    pub(super) fn through(backend: Option<&String>) -> Self {
        Self { backend: backend.cloned(), ..Self::default() }
    }

    /// As [`Global::args`].
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args = FlagList::default();
        args.switch("--sim", self.sim);
        args.path("--scenario", self.scenario.as_deref());
        let bootstrap = self.bootstrap.map(|time| format!("{}ms", time.as_millis()));
        args.text("--bootstrap", bootstrap.as_deref());
        args.switch("--native-tools", self.native_tools);
        args.switch("--keep-blobs", self.keep_blobs);
        args.text("--backend", self.backend.as_deref());
        args.path("--workspace", self.workspace.as_deref().map(Path::new));
        args.text("--api-url", self.api_url.as_deref());
        args.text("--transport", self.transport.as_deref());
        args.path("--ca-file", self.ca_file.as_deref().map(Path::new));
        args.0
    }

    pub(super) fn raw(&self) -> RawConfig {
        let mut raw = RawConfig::default();
        set(&mut raw, SettingKey::ApiUrl, "--api-url", self.api_url.as_deref());
        set(&mut raw, SettingKey::Backend, "--backend", self.backend.as_deref());
        set(&mut raw, SettingKey::AgentWorkspace, "--workspace", self.workspace.as_deref());
        set(&mut raw, SettingKey::Transport, "--transport", self.transport.as_deref());
        set(&mut raw, SettingKey::CaFile, "--ca-file", self.ca_file.as_deref());
        raw
    }
}

impl Listening {
    /// As [`Global::args`].
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args = FlagList::default();
        for place in &self.listen {
            args.text("--listen", Some(place));
        }
        args.text("--host", self.host.as_deref());
        args.text("--port", self.port.as_deref());
        args.path("--tls-cert", self.tls_cert.as_deref().map(Path::new));
        args.path("--tls-key", self.tls_key.as_deref().map(Path::new));
        for origin in &self.cors_origin {
            args.text("--cors-origin", Some(origin));
        }
        args.text("--idle-exit", self.idle_exit.as_deref());
        args.switch("--allow-web-search", self.allow_web_search);
        args.switch("--allow-web-fetch", self.allow_web_fetch);
        args.0
    }

    pub(super) fn raw(&self) -> RawConfig {
        let mut raw = RawConfig::default();
        set(&mut raw, SettingKey::Host, "--host", self.host.as_deref());
        set(&mut raw, SettingKey::Port, "--port", self.port.as_deref());
        let places = self.listen.join(",");
        let places = (!places.is_empty()).then_some(places.as_str());
        set(&mut raw, SettingKey::Listen, "--listen", places);
        // A flag for one half beats an environment that gives the whole.
        if self.listen.is_empty() && (self.host.is_some() || self.port.is_some()) {
            set(&mut raw, SettingKey::Listen, "--port", Some(""));
        }
        set(&mut raw, SettingKey::TlsCert, "--tls-cert", self.tls_cert.as_deref());
        set(&mut raw, SettingKey::TlsKey, "--tls-key", self.tls_key.as_deref());
        let origins = self.cors_origin.join(",");
        let origins = (!origins.is_empty()).then_some(origins.as_str());
        set(&mut raw, SettingKey::CorsOrigins, "--cors-origin", origins);
        set(&mut raw, SettingKey::IdleExit, "--idle-exit", self.idle_exit.as_deref());
        let on = |flag: bool| flag.then_some("true");
        set(&mut raw, SettingKey::AllowWebSearch, "--allow-web-search", on(self.allow_web_search));
        set(&mut raw, SettingKey::AllowWebFetch, "--allow-web-fetch", on(self.allow_web_fetch));
        raw
    }
}

/// A command line in the making.
#[derive(Default)]
struct FlagList(Vec<OsString>);

impl FlagList {
    fn switch(&mut self, flag: &str, on: bool) {
        self.0.extend(on.then(|| flag.into()));
    }

    /// In one word, so that a value may begin with a dash.
    fn text(&mut self, flag: &str, value: Option<&str>) {
        self.0.extend(value.map(|value| format!("{flag}={value}").into()));
    }

    /// The other process may be in another folder.
    fn path(&mut self, flag: &str, path: Option<&Path>) {
        let Some(path) = path else { return };
        let mut word = OsString::from(format!("{flag}="));
        word.push(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()));
        self.0.push(word);
    }
}

pub(super) fn set(raw: &mut RawConfig, key: SettingKey, flag: &str, value: Option<&str>) {
    if let Some(value) = value {
        raw.set(key, value, SettingOrigin::Flag(flag.to_owned()));
    }
}
