//! From text to typed values. Every problem is collected, none stops the rest, so
//! that a user fixes a file once.

mod backend;
mod limits;
mod listen;
mod record;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ibeam_core::{
    model::{MODE_WORDS, RunModes},
    models::UnknownName,
    peer::agent::HistorySetting,
    retry::{Backoff, MAX_RUNS},
};
use secrecy::SecretString;
use tracing_subscriber::filter::Targets;

use super::{
    AccessConfig, AccountConfig, AllowConfig, Backend, ClocksConfig, Config,
    DEFAULT_CLIENT_VERSION, InvalidProfile, LogConfig, McpConfig, ModelsConfig, Profile,
    ResponsesConfig, ServerConfig, SessionsConfig, Simulator, StoreConfig, ToolsConfig, Transport,
    UpstreamConfig, fixed, installed_cli_version,
    key::SettingKey,
    parse,
    raw::{RawConfig, RawValue, SettingOrigin, SettingProblem},
};
use crate::net::{connect::Host, hosts};

/// One value as `config show` prints it. Secrets are masked already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    pub name: &'static str,
    pub value: String,
    pub origin: String,
}

impl ShownSetting {
    /// The value for scripts: switches, whole numbers and lists as JSON has them, null
    /// for what is not set. Durations and sizes stay text; a value that cannot be used
    /// does, too.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let key = SettingKey::by_name(self.name);
        if matches!(
            key,
            Some(SettingKey::Hosts | SettingKey::CorsOrigins | SettingKey::AgentWorkspaces)
        ) {
            return parse::list(&self.value).into();
        }
        if self.value.is_empty() {
            return serde_json::Value::Null;
        }
        let default = key.map_or("", |key| key.row().default);
        let typed = if parse::switch(default).is_ok() && default.parse::<u64>().is_err() {
            parse::switch(&self.value).ok().map(Into::into)
        } else if default.parse::<u64>().is_ok() {
            self.value.parse::<u64>().ok().map(Into::into)
        } else {
            None
        };
        typed.unwrap_or_else(|| self.value.as_str().into())
    }
}

/// Everything that came out: a usable configuration if `problems` is empty.
#[derive(Debug)]
pub struct Resolution {
    pub config: Config,
    pub shown: Vec<ShownSetting>,
    pub problems: Vec<SettingProblem>,
    pub warnings: Vec<SettingProblem>,
    /// Where the key for clients came from, for messages.
    pub api_key_origin: SettingOrigin,
    /// Whether a log setting was given.
    pub log_asked: bool,
}

/// Checks and converts. `home` is where an installed CLI is looked for.
#[must_use]
pub fn resolve(raw: &RawConfig, home: Option<&Path>) -> Resolution {
    let mut resolver = Resolver { raw, problems: raw.problems.clone(), shown: Vec::new() };
    let config = resolver.config(home);
    Resolution {
        config,
        shown: resolver.shown,
        problems: resolver.problems,
        warnings: raw.warnings.clone(),
        api_key_origin: raw
            .get(SettingKey::ApiKey)
            .map_or(SettingOrigin::Default, |found| found.origin.clone()),
        log_asked: [SettingKey::LogLevel, SettingKey::LogDebug, SettingKey::LogTiming]
            .iter()
            .any(|key| raw.get(*key).is_some()),
    }
}

struct Resolver<'a> {
    raw: &'a RawConfig,
    problems: Vec<SettingProblem>,
    shown: Vec<ShownSetting>,
}

impl Resolver<'_> {
    fn config(&mut self, home: Option<&Path>) -> Config {
        Config {
            server: self.server(),
            access: AccessConfig {
                api_key: self.secret(SettingKey::ApiKey),
                keys_file: self.place(SettingKey::KeysFile),
                hosts: self.list(SettingKey::Hosts),
                cors_origins: self.origins(),
            },
            account: AccountConfig {
                access_token: self.secret(SettingKey::AccessToken),
                profile: self.profile(),
                credentials: self.value(SettingKey::Credentials, str::parse).unwrap_or_default(),
            },
            upstream: UpstreamConfig {
                named: self.found(SettingKey::ApiUrl).origin != SettingOrigin::Default,
                api: self.api(),
                client_version: self.client_version(home),
                privacy: self.switch(SettingKey::PrivacyMode),
                transport: self.transport(),
                ca_file: self.path(SettingKey::CaFile),
                inline_context: self.switch(SettingKey::InlineContext),
                history: self.history(),
                findings: None,
            },
            log: self.log(),
            record: self.record(),
            models: ModelsConfig {
                cache_ttl: self.duration(SettingKey::ModelsCacheTtl),
                unknown: if self.switch(SettingKey::ModelsPassthrough) {
                    UnknownName::PassThrough
                } else {
                    UnknownName::Refuse
                },
                modes: self.modes(),
            },
            allow: AllowConfig {
                web_search: self.switch(SettingKey::AllowWebSearch),
                web_fetch: self.switch(SettingKey::AllowWebFetch),
            },
            sessions: self.sessions(),
            tools: ToolsConfig {
                max_repeat: self
                    .value(SettingKey::ToolMaxRepeat, parse::small_count)
                    .unwrap_or_default(),
                native: self.switch(SettingKey::ToolNative),
                result_bytes: self.size(SettingKey::ToolResultBytes),
            },
            mcp: McpConfig {
                enabled: self.switch(SettingKey::McpEnabled),
                discover: self.switch(SettingKey::McpDiscover),
                start: self.positive(SettingKey::McpStart),
                servers: self.raw.servers.clone(),
            },
            store: self.store(),
            responses: ResponsesConfig {
                retention: self.duration(SettingKey::ResponsesRetention),
                max: fixed::STORED_RESPONSES,
                bytes: self.size(SettingKey::ResponsesBytes),
            },
            retry: self.retry(),
            clocks: self.clocks(),
            limits: self.limits(),
            backend: Backend::Cursor,
            named_backend: self.named_backend(),
            cursor_agent: self.cursor_agent(),
            simulator: Simulator::default(),
        }
    }

    // === one value ===

    fn found(&self, key: SettingKey) -> RawValue {
        self.raw.get(key).cloned().unwrap_or_else(|| RawValue {
            text: key.row().default.to_owned().into(),
            origin: SettingOrigin::Default,
        })
    }

    fn show(&mut self, key: SettingKey, value: &str, origin: &SettingOrigin) {
        let row = key.row();
        let value = if row.secret && !value.is_empty() { "(set)" } else { value };
        let (value, origin) = (value.to_owned(), origin.to_string());
        self.shown.push(ShownSetting { name: row.name, value, origin });
    }

    fn problem(&mut self, key: SettingKey, origin: &SettingOrigin, text: impl Into<String>) {
        let subject = key.row().name.to_owned();
        self.problems.push(SettingProblem { subject, origin: origin.clone(), text: text.into() });
    }

    /// Reads one value; a bad one is reported and the default stands in for it.
    fn value<T>(&mut self, key: SettingKey, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let found = self.found(key);
        self.show(key, found.text.as_str(), &found.origin);
        match read(&found.text) {
            Ok(value) => Some(value),
            Err(text) => {
                let text = match quotable(key, &found.text) {
                    Some(value) => format!("{text}: `{value}`"),
                    None => text,
                };
                self.problem(key, &found.origin, text);
                read(key.row().default).ok()
            }
        }
    }

    fn duration(&mut self, key: SettingKey) -> Duration {
        self.value(key, parse::duration).unwrap_or_default()
    }

    fn switch(&mut self, key: SettingKey) -> bool {
        self.value(key, parse::switch).unwrap_or_default()
    }

    fn count(&mut self, key: SettingKey) -> usize {
        self.value(key, parse::at_least_one).unwrap_or(1)
    }

    fn size(&mut self, key: SettingKey) -> usize {
        self.value(key, parse::size).unwrap_or_default()
    }

    fn list(&mut self, key: SettingKey) -> Vec<String> {
        self.value(key, |text| Ok(parse::list(text))).unwrap_or_default()
    }

    fn path(&mut self, key: SettingKey) -> Option<PathBuf> {
        self.value(key, |text| match text {
            "" => Ok(None),
            path if Path::new(path).is_file() => Ok(Some(PathBuf::from(path))),
            _ => Err("is not a file".to_owned()),
        })
        .flatten()
    }

    /// A path to something that need not be there.
    fn place(&mut self, key: SettingKey) -> Option<PathBuf> {
        self.value(key, |text| Ok((!text.is_empty()).then(|| PathBuf::from(text)))).flatten()
    }

    fn secret(&mut self, key: SettingKey) -> Option<SecretString> {
        let found = self.found(key);
        self.show(key, found.text.as_str(), &found.origin);
        let text = found.text.trim();
        // Copied from a header, as it happens.
        let text = text.strip_prefix("Bearer ").unwrap_or(text).trim();
        if text.is_empty() {
            return None;
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            let text = "has a space or another character that is invalid in a token";
            self.problem(key, &found.origin, text);
            return None;
        }
        Some(SecretString::from(text))
    }

    // === values with rules of their own ===

    fn server(&mut self) -> ServerConfig {
        let (listen, also) = self.places();
        ServerConfig {
            listen,
            also,
            tls: self.tls(),
            websocket: self.switch(SettingKey::WebSocket),
            idle_exit: self.idle_exit(),
            strict: self.switch(SettingKey::Strict),
            shared: false,
        }
    }

    fn api(&mut self) -> Host {
        let read = |text: &str| {
            let host = Host::parse(text.trim_end_matches('/')).map_err(|_| {
                "is not an origin such as `https://host` or `http://127.0.0.1:1234`".to_owned()
            })?;
            if host.is_tls() || host.is_loopback() {
                Ok(host)
            } else {
                Err("is plain http to another machine, which would show your token to the network"
                    .to_owned())
            }
        };
        self.value(SettingKey::ApiUrl, read).unwrap_or_else(|| hosts::API.host())
    }

    fn profile(&mut self) -> Profile {
        let read = |text: &str| text.parse().map_err(|bad: InvalidProfile| bad.to_string());
        self.value(SettingKey::Profile, read).unwrap_or_default()
    }

    fn client_version(&mut self, home: Option<&Path>) -> String {
        let mut found = self.found(SettingKey::ClientVersion);
        if found.text.is_empty() {
            found = match home.and_then(installed_cli_version) {
                Some(text) => {
                    RawValue { text: text.into(), origin: SettingOrigin::Detected("installed CLI") }
                }
                None => RawValue {
                    text: DEFAULT_CLIENT_VERSION.to_owned().into(),
                    origin: SettingOrigin::Default,
                },
            };
        }
        let text = found.text.trim();
        // People leave the prefix out.
        let digit = text.starts_with(|c: char| c.is_ascii_digit());
        let text = if digit { format!("cli-{text}") } else { text.to_owned() };
        self.show(SettingKey::ClientVersion, text.as_str(), &found.origin);
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            self.problem(SettingKey::ClientVersion, &found.origin, "cannot be sent in a header");
            return DEFAULT_CLIENT_VERSION.to_owned();
        }
        text
    }

    fn modes(&mut self) -> RunModes {
        self.value(SettingKey::ModelsMode, |text| {
            RunModes::parse(text).ok_or_else(|| format!("must have {MODE_WORDS}"))
        })
        .unwrap_or_default()
    }

    fn transport(&mut self) -> Transport {
        self.value(SettingKey::Transport, |text| match text {
            "auto" => Ok(Transport::Auto),
            "h2" | "http2" => Ok(Transport::H2),
            "h1" | "http1" => Ok(Transport::H1),
            _ => Err("must be `auto`, `h2` or `h1`".to_owned()),
        })
        .unwrap_or_default()
    }

    fn history(&mut self) -> HistorySetting {
        self.value(SettingKey::History, |text| {
            HistorySetting::from_name(text).ok_or_else(|| {
                "must be `auto`, `resume-roots`, `user-roots`, `transcript` or `rules-roots`"
                    .to_owned()
            })
        })
        .unwrap_or_default()
    }

    fn idle_exit(&mut self) -> Option<Duration> {
        self.value(SettingKey::IdleExit, |text| match text {
            "" => Ok(None),
            text => parse::duration(text).map(Some),
        })
        .flatten()
    }

    fn origins(&mut self) -> Vec<String> {
        self.value(SettingKey::CorsOrigins, |text| {
            let origins = parse::list(text);
            match origins.iter().find(|origin| !is_origin(origin)) {
                Some(bad) => {
                    Err(format!("has `{bad}`, which is not an origin such as `https://host`"))
                }
                None => Ok(origins),
            }
        })
        .unwrap_or_default()
    }

    fn log(&mut self) -> LogConfig {
        let level = self.value(SettingKey::LogLevel, |text| {
            let text = text.to_ascii_lowercase();
            match text.parse::<Targets>() {
                Ok(_) if !bare_words_are_levels(&text) => Err(no_level()),
                Ok(_) => Ok(text),
                Err(_) => Err(no_level()),
            }
        });
        let json = self.switch(SettingKey::LogJson);
        let debug = self.switch(SettingKey::LogDebug);
        let timing = self.switch(SettingKey::LogTiming);
        let named = self.raw.get(SettingKey::LogLevel).is_some();
        let filter = match level {
            Some(level) if named || !debug => level,
            _ => "debug".to_owned(),
        };
        LogConfig { filter, json, timing, file: self.place(SettingKey::LogFile) }
    }

    fn sessions(&mut self) -> SessionsConfig {
        SessionsConfig {
            reuse: self.switch(SettingKey::SessionReuse),
            ttl: self.duration(SettingKey::SessionTtl),
            max_parked: self.value(SettingKey::SessionMax, parse::count).unwrap_or_default(),
            parked_bytes: self.size(SettingKey::SessionBytes),
            buffer: fixed::PARKED_OUTPUT,
            replay: self.duration(SettingKey::SessionReplay),
        }
    }

    fn store(&mut self) -> StoreConfig {
        StoreConfig {
            path: self.place(SettingKey::StorePath),
            enabled: self.switch(SettingKey::StoreEnabled),
            retention: self.duration(SettingKey::StoreRetention),
            bytes: self.size(SettingKey::StoreBytes),
        }
    }

    fn retry(&mut self) -> Backoff {
        let enabled = self.switch(SettingKey::RetryEnabled);
        let retries = self.value(SettingKey::RetryMax, parse::count).unwrap_or_default();
        let base = self.duration(SettingKey::RetryBaseDelay);
        let cap = self.duration(SettingKey::RetryMaxDelay);
        // More than this only makes an outage worse.
        let most = MAX_RUNS - 1;
        let retries = u32::try_from(retries).map_or(most, |retries| retries.min(most));
        Backoff { base, cap, retries: if enabled { retries } else { 0 } }
    }

    fn clocks(&mut self) -> ClocksConfig {
        ClocksConfig {
            connect: self.duration(SettingKey::ClockConnect),
            no_frame: self.duration(SettingKey::ClockNoFrame),
            heartbeats_only: self.duration(SettingKey::ClockHeartbeatsOnly),
            turn: self.duration(SettingKey::ClockTurn),
            heartbeat: fixed::HEARTBEAT,
            cancel_grace: self.duration(SettingKey::ClockCancelGrace),
            client_stall: self.positive(SettingKey::ClockClientStall),
            end_wait: fixed::END_WAIT,
            quiet_end: fixed::QUIET_END,
            tool_batch: fixed::TOOL_BATCH,
            header_grace: self.duration(SettingKey::ClockHeaderGrace),
            keep_alive: self.positive(SettingKey::ClockKeepAlive),
            client_idle: self.positive(SettingKey::ClockClientIdle),
            websocket_idle: self.positive(SettingKey::ClockWebSocketIdle),
            body: self.positive(SettingKey::ClockBody),
            handshake: fixed::HANDSHAKE,
            queue: self.duration(SettingKey::ClockQueue),
            login: self.positive(SettingKey::ClockLogin),
            drain: self.duration(SettingKey::ClockDrain),
        }
    }

    /// For intervals: zero would be a busy loop.
    fn positive(&mut self, key: SettingKey) -> Duration {
        self.value(key, |text| match parse::duration(text)? {
            Duration::ZERO => Err("must be more than zero".to_owned()),
            interval => Ok(interval),
        })
        .unwrap_or(Duration::from_secs(5))
    }
}

/// The bad value, where repeating it helps and gives nothing away.
fn quotable(key: SettingKey, value: &str) -> Option<String> {
    const LONG: usize = 300;
    let value = value.trim();
    // An address may carry a password.
    let hidden = key.row().secret || value.contains('@');
    // Says itself which item is wrong.
    let named = key == SettingKey::CorsOrigins;
    (!hidden && !named && !value.is_empty() && value.len() <= LONG)
        .then(|| value.escape_debug().to_string())
}

/// A word alone names a target for the parser, and so would turn all logs off.
fn bare_words_are_levels(text: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let mut words = text.split(',').map(str::trim).filter(|word| !word.contains('='));
    words.all(|word| word.is_empty() || levels.contains(&word))
}

fn no_level() -> String {
    "must be `error`, `warn`, `info`, `debug`, `trace`, `off` or `target=level`".to_owned()
}

/// As a browser writes it: scheme and host, nothing after.
fn is_origin(text: &str) -> bool {
    text == "*" || Host::parse(text).is_ok()
}
