//! What the commands have in common: their options, and the settings these make.

use std::{
    ffi::{OsStr, OsString},
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
    environment, findings_path, load,
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
    /// Record each turn in this folder, for `ibeam replay` and bug reports; texts become
    /// placeholders
    #[arg(long, value_name = "DIR")]
    pub(super) record: Option<String>,
    /// Record texts, too: prompts, answers, files. Such a recording is as private as they are
    #[arg(long)]
    pub(super) record_texts: bool,
}

impl Global {
    pub(super) fn raw(&self) -> RawConfig {
        let mut raw = self.flags().raw();
        for pair in &self.set {
            raw.set_pair(pair);
        }
        raw
    }

    /// The same options for another process of this program, wherever it runs. A secret is
    /// never among them.
    pub(super) fn args(&self) -> Vec<OsString> {
        self.flags().args()
    }

    fn flags(&self) -> Flags<'_> {
        use FlagValue::{File, Switch, Text, Texts};
        Flags(vec![
            ("--config", None, File(self.config.as_deref())),
            ("--profile", Some(SettingKey::Profile), Text(self.profile.as_deref())),
            ("--set", None, Texts(&self.set)),
            ("--log-level", Some(SettingKey::LogLevel), Text(self.log_level.as_deref())),
            ("--log-json", Some(SettingKey::LogJson), Switch(self.log_json)),
            ("--log-file", Some(SettingKey::LogFile), file(self.log_file.as_ref())),
        ])
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
            let (profile, api) = (&config.account.profile, &config.upstream.api);
            config.upstream.findings = findings_path(profile, api, Some(&upstream.switch));
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

    pub(super) fn raw(&self) -> RawConfig {
        self.flags().raw()
    }

    /// As [`Global::args`].
    pub(super) fn args(&self) -> Vec<OsString> {
        let bootstrap = self.bootstrap.map(|time| format!("--bootstrap={}ms", time.as_millis()));
        [self.flags().args(), bootstrap.into_iter().map(OsString::from).collect()].concat()
    }

    fn flags(&self) -> Flags<'_> {
        use FlagValue::{File, Switch, Text, Texts};
        Flags(vec![
            ("--sim", None, Switch(self.sim)),
            ("--scenario", None, File(self.scenario.as_deref())),
            ("--native-tools", None, Switch(self.native_tools)),
            ("--keep-blobs", None, Switch(self.keep_blobs)),
            ("--switch", None, Texts(&self.switch)),
            ("--backend", Some(SettingKey::Backend), Text(self.backend.as_deref())),
            ("--workspace", Some(SettingKey::AgentWorkspace), file(self.workspace.as_ref())),
            ("--api-url", Some(SettingKey::ApiUrl), Text(self.api_url.as_deref())),
            ("--transport", Some(SettingKey::Transport), Text(self.transport.as_deref())),
            ("--ca-file", Some(SettingKey::CaFile), file(self.ca_file.as_ref())),
        ])
    }
}

impl Listening {
    pub(super) fn raw(&self) -> RawConfig {
        let mut raw = self.flags().raw();
        // A flag for one half beats an environment that gives the whole.
        if self.listen.is_empty() && (self.host.is_some() || self.port.is_some()) {
            raw.set(SettingKey::Listen, "", SettingOrigin::Flag("--port".to_owned()));
        }
        raw
    }

    /// As [`Global::args`].
    pub(super) fn args(&self) -> Vec<OsString> {
        self.flags().args()
    }

    fn flags(&self) -> Flags<'_> {
        use FlagValue::{Switch, Text, Texts};
        Flags(vec![
            ("--listen", Some(SettingKey::Listen), Texts(&self.listen)),
            ("--host", Some(SettingKey::Host), Text(self.host.as_deref())),
            ("--port", Some(SettingKey::Port), Text(self.port.as_deref())),
            ("--tls-cert", Some(SettingKey::TlsCert), file(self.tls_cert.as_ref())),
            ("--tls-key", Some(SettingKey::TlsKey), file(self.tls_key.as_ref())),
            ("--cors-origin", Some(SettingKey::CorsOrigins), Texts(&self.cors_origin)),
            ("--idle-exit", Some(SettingKey::IdleExit), Text(self.idle_exit.as_deref())),
            ("--allow-web-search", Some(SettingKey::AllowWebSearch), Switch(self.allow_web_search)),
            ("--allow-web-fetch", Some(SettingKey::AllowWebFetch), Switch(self.allow_web_fetch)),
            ("--record", Some(SettingKey::RecordDir), file(self.record.as_ref())),
            ("--record-texts", Some(SettingKey::RecordTexts), Switch(self.record_texts)),
        ])
    }
}

/// Flags with the values that they were given, and the settings that they change.
struct Flags<'a>(Vec<(&'static str, Option<SettingKey>, FlagValue<'a>)>);

enum FlagValue<'a> {
    Switch(bool),
    Text(Option<&'a str>),
    File(Option<&'a Path>),
    /// The flag may be repeated.
    Texts(&'a [String]),
}

fn file(path: Option<&String>) -> FlagValue<'_> {
    FlagValue::File(path.map(Path::new))
}

impl Flags<'_> {
    fn raw(&self) -> RawConfig {
        let mut raw = RawConfig::default();
        for (flag, key, value) in &self.0 {
            let text = match value {
                FlagValue::Switch(on) => on.then(|| "true".to_owned()),
                FlagValue::Text(text) => text.map(str::to_owned),
                FlagValue::File(path) => path.map(|path| path.display().to_string()),
                FlagValue::Texts(texts) => (!texts.is_empty()).then(|| texts.join(",")),
            };
            if let (Some(key), Some(text)) = (key, text) {
                raw.set(*key, text, SettingOrigin::Flag((*flag).to_owned()));
            }
        }
        raw
    }

    /// Each value is in one word with its flag, so that it may begin with a dash. Paths are
    /// absolute, because the other process may be in another folder.
    fn args(&self) -> Vec<OsString> {
        let mut args = Vec::new();
        for (flag, _, value) in &self.0 {
            let mut add = |value: &OsStr| {
                let mut word = OsString::from(format!("{flag}="));
                word.push(value);
                args.push(word);
            };
            match value {
                FlagValue::Switch(on) => args.extend(on.then(|| flag.into())),
                FlagValue::Text(text) => text.iter().for_each(|text| add(text.as_ref())),
                FlagValue::File(path) => path.iter().for_each(|path| {
                    add(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).as_ref());
                }),
                FlagValue::Texts(texts) => texts.iter().for_each(|text| add(text.as_ref())),
            }
        }
        args
    }
}
