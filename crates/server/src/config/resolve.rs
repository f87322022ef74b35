//! From text to typed values. Every problem is collected, none stops the rest, so
//! that a user fixes a file once.

mod backend;
mod listen;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ibeam_core::{
    models::UnknownName,
    peer::agent::HistorySetting,
    retry::{Backoff, MAX_RUNS},
};
use secrecy::SecretString;
use tracing_subscriber::filter::Targets;

use super::{
    AllowConfig, Backend, ClocksConfig, Config, DEFAULT_CLIENT_VERSION, InvalidProfile,
    LimitsConfig, LogConfig, McpConfig, ModelsConfig, Profile, ResponsesConfig, SessionsConfig,
    Simulator, StoreConfig, ToolsConfig, Transport, fixed, installed_cli_version,
    key::Key,
    parse,
    raw::{Origin, Problem, RawConfig, RawValue},
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
        let key = Key::by_name(self.name);
        if matches!(key, Some(Key::Hosts | Key::CorsOrigins | Key::AgentWorkspaces)) {
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
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// Where the key for clients came from, for those who must be told.
    pub api_key_origin: Origin,
    /// Whether anybody asked for a log.
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
        api_key_origin: raw.get(Key::ApiKey).map_or(Origin::Default, |found| found.origin.clone()),
        log_asked: [Key::LogLevel, Key::LogDebug, Key::LogTiming]
            .iter()
            .any(|key| raw.get(*key).is_some()),
    }
}

struct Resolver<'a> {
    raw: &'a RawConfig,
    problems: Vec<Problem>,
    shown: Vec<ShownSetting>,
}

impl Resolver<'_> {
    fn config(&mut self, home: Option<&Path>) -> Config {
        let (first, also) = self.places();
        Config {
            listen: first,
            also,
            tls: self.tls(),
            api_key: self.secret(Key::ApiKey),
            keys_file: self.place(Key::KeysFile),
            hosts: self.list(Key::Hosts),
            cors_origins: self.origins(),
            websocket: self.switch(Key::WebSocket),
            idle_exit: self.idle_exit(),
            strict: self.switch(Key::Strict),
            access_token: self.secret(Key::AccessToken),
            profile: self.profile(),
            credentials: self.value(Key::Credentials, str::parse).unwrap_or_default(),
            api: self.api(),
            client_version: self.client_version(home),
            privacy: self.switch(Key::PrivacyMode),
            transport: self.transport(),
            ca_file: self.path(Key::CaFile),
            log: self.log(),
            models: ModelsConfig {
                cache_ttl: self.duration(Key::ModelsCacheTtl),
                unknown: if self.switch(Key::ModelsPassthrough) {
                    UnknownName::PassThrough
                } else {
                    UnknownName::Refuse
                },
            },
            allow: AllowConfig {
                web_search: self.switch(Key::AllowWebSearch),
                web_fetch: self.switch(Key::AllowWebFetch),
            },
            inline_context: self.switch(Key::InlineContext),
            history: self.history(),
            sessions: self.sessions(),
            tools: ToolsConfig {
                max_repeat: self.value(Key::ToolMaxRepeat, parse::small_count).unwrap_or_default(),
                native: self.switch(Key::ToolNative),
                result_bytes: self.size(Key::ToolResultBytes),
            },
            mcp: McpConfig {
                enabled: self.switch(Key::McpEnabled),
                discover: self.switch(Key::McpDiscover),
                start: self.positive(Key::McpStart),
                servers: self.raw.servers.clone(),
            },
            store: self.store(),
            responses: ResponsesConfig {
                retention: self.duration(Key::ResponsesRetention),
                max: fixed::STORED_RESPONSES,
                bytes: self.size(Key::ResponsesBytes),
            },
            retry: self.retry(),
            clocks: self.clocks(),
            limits: self.limits(),
            backend: Backend::Cursor,
            named_backend: self.named_backend(),
            cursor_agent: self.cursor_agent(),
            simulator: Simulator::default(),
            shared: false,
        }
    }

    // === one value ===

    fn found(&self, key: Key) -> RawValue {
        self.raw.get(key).cloned().unwrap_or_else(|| RawValue {
            text: key.row().default.to_owned().into(),
            origin: Origin::Default,
        })
    }

    fn show(&mut self, key: Key, value: &str, origin: &Origin) {
        let row = key.row();
        let value = if row.secret && !value.is_empty() { "(set)" } else { value };
        let (value, origin) = (value.to_owned(), origin.to_string());
        self.shown.push(ShownSetting { name: row.name, value, origin });
    }

    fn problem(&mut self, key: Key, origin: &Origin, text: impl Into<String>) {
        let subject = key.row().name.to_owned();
        self.problems.push(Problem { subject, origin: origin.clone(), text: text.into() });
    }

    /// Reads one value; a bad one is reported and the default stands in for it.
    fn value<T>(&mut self, key: Key, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
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

    fn duration(&mut self, key: Key) -> Duration {
        self.value(key, parse::duration).unwrap_or_default()
    }

    fn switch(&mut self, key: Key) -> bool {
        self.value(key, parse::switch).unwrap_or_default()
    }

    fn count(&mut self, key: Key) -> usize {
        self.value(key, parse::at_least_one).unwrap_or(1)
    }

    fn size(&mut self, key: Key) -> usize {
        self.value(key, parse::size).unwrap_or_default()
    }

    fn list(&mut self, key: Key) -> Vec<String> {
        self.value(key, |text| Ok(parse::list(text))).unwrap_or_default()
    }

    fn path(&mut self, key: Key) -> Option<PathBuf> {
        self.value(key, |text| match text {
            "" => Ok(None),
            path if Path::new(path).is_file() => Ok(Some(PathBuf::from(path))),
            _ => Err("is not a file".to_owned()),
        })
        .flatten()
    }

    /// A path to something that need not be there.
    fn place(&mut self, key: Key) -> Option<PathBuf> {
        self.value(key, |text| Ok((!text.is_empty()).then(|| PathBuf::from(text)))).flatten()
    }

    fn secret(&mut self, key: Key) -> Option<SecretString> {
        let found = self.found(key);
        self.show(key, found.text.as_str(), &found.origin);
        let text = found.text.trim();
        // Copied from a header, as it happens.
        let text = text.strip_prefix("Bearer ").unwrap_or(text).trim();
        if text.is_empty() {
            return None;
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            self.problem(
                key,
                &found.origin,
                "has a space or another character that is invalid in \
                                              a token",
            );
            return None;
        }
        Some(SecretString::from(text))
    }

    // === values with rules of their own ===

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
        self.value(Key::ApiUrl, read).unwrap_or_else(|| hosts::API.host())
    }

    fn profile(&mut self) -> Profile {
        let read = |text: &str| text.parse().map_err(|bad: InvalidProfile| bad.to_string());
        self.value(Key::Profile, read).unwrap_or_default()
    }

    fn client_version(&mut self, home: Option<&Path>) -> String {
        let mut found = self.found(Key::ClientVersion);
        if found.text.is_empty() {
            found = match home.and_then(installed_cli_version) {
                Some(text) => {
                    RawValue { text: text.into(), origin: Origin::Detected("installed CLI") }
                }
                None => RawValue {
                    text: DEFAULT_CLIENT_VERSION.to_owned().into(),
                    origin: Origin::Default,
                },
            };
        }
        let text = found.text.trim();
        // People leave the prefix out.
        let digit = text.starts_with(|c: char| c.is_ascii_digit());
        let text = if digit { format!("cli-{text}") } else { text.to_owned() };
        self.show(Key::ClientVersion, text.as_str(), &found.origin);
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            self.problem(Key::ClientVersion, &found.origin, "cannot be sent in a header");
            return DEFAULT_CLIENT_VERSION.to_owned();
        }
        text
    }

    fn transport(&mut self) -> Transport {
        self.value(Key::Transport, |text| match text {
            "auto" => Ok(Transport::Auto),
            "h2" | "http2" => Ok(Transport::H2),
            "h1" | "http1" => Ok(Transport::H1),
            _ => Err("must be `auto`, `h2` or `h1`".to_owned()),
        })
        .unwrap_or_default()
    }

    fn history(&mut self) -> HistorySetting {
        self.value(Key::History, |text| {
            HistorySetting::from_name(text).ok_or_else(|| {
                "must be `auto`, `resume-roots`, `user-roots`, `transcript` or `rules-roots`"
                    .to_owned()
            })
        })
        .unwrap_or_default()
    }

    fn idle_exit(&mut self) -> Option<Duration> {
        self.value(Key::IdleExit, |text| match text {
            "" => Ok(None),
            text => parse::duration(text).map(Some),
        })
        .flatten()
    }

    fn origins(&mut self) -> Vec<String> {
        self.value(Key::CorsOrigins, |text| {
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
        let level = self.value(Key::LogLevel, |text| {
            let text = text.to_ascii_lowercase();
            match text.parse::<Targets>() {
                Ok(_) if !bare_words_are_levels(&text) => Err(no_level()),
                Ok(_) => Ok(text),
                Err(_) => Err(no_level()),
            }
        });
        let json = self.switch(Key::LogJson);
        let debug = self.switch(Key::LogDebug);
        let timing = self.switch(Key::LogTiming);
        let named = self.raw.get(Key::LogLevel).is_some();
        let filter = match level {
            Some(level) if named || !debug => level,
            _ => "debug".to_owned(),
        };
        LogConfig { filter, json, timing, file: self.place(Key::LogFile) }
    }

    fn sessions(&mut self) -> SessionsConfig {
        SessionsConfig {
            reuse: self.switch(Key::SessionReuse),
            ttl: self.duration(Key::SessionTtl),
            max_parked: self.value(Key::SessionMax, parse::count).unwrap_or_default(),
            parked_bytes: self.size(Key::SessionBytes),
            buffer: fixed::PARKED_OUTPUT,
            replay: self.duration(Key::SessionReplay),
        }
    }

    fn store(&mut self) -> StoreConfig {
        StoreConfig {
            path: self.place(Key::StorePath),
            enabled: self.switch(Key::StoreEnabled),
            retention: self.duration(Key::StoreRetention),
            bytes: self.size(Key::StoreBytes),
        }
    }

    fn retry(&mut self) -> Backoff {
        let enabled = self.switch(Key::RetryEnabled);
        let retries = self.value(Key::RetryMax, parse::count).unwrap_or_default();
        let base = self.duration(Key::RetryBaseDelay);
        let cap = self.duration(Key::RetryMaxDelay);
        // More than this only makes an outage worse.
        let most = MAX_RUNS - 1;
        let retries = u32::try_from(retries).map_or(most, |retries| retries.min(most));
        Backoff { base, cap, retries: if enabled { retries } else { 0 } }
    }

    fn clocks(&mut self) -> ClocksConfig {
        ClocksConfig {
            connect: self.duration(Key::ClockConnect),
            no_frame: self.duration(Key::ClockNoFrame),
            heartbeats_only: self.duration(Key::ClockHeartbeatsOnly),
            turn: self.duration(Key::ClockTurn),
            heartbeat: fixed::HEARTBEAT,
            cancel_grace: self.duration(Key::ClockCancelGrace),
            client_stall: self.positive(Key::ClockClientStall),
            end_wait: fixed::END_WAIT,
            quiet_end: fixed::QUIET_END,
            tool_batch: fixed::TOOL_BATCH,
            header_grace: self.duration(Key::ClockHeaderGrace),
            keep_alive: self.positive(Key::ClockKeepAlive),
            client_idle: self.positive(Key::ClockClientIdle),
            websocket_idle: self.positive(Key::ClockWebSocketIdle),
            body: self.positive(Key::ClockBody),
            handshake: fixed::HANDSHAKE,
            queue: self.duration(Key::ClockQueue),
            login: self.positive(Key::ClockLogin),
            drain: self.duration(Key::ClockDrain),
        }
    }

    /// For intervals: zero would be a busy loop.
    fn positive(&mut self, key: Key) -> Duration {
        self.value(key, |text| match parse::duration(text)? {
            Duration::ZERO => Err("must be more than zero".to_owned()),
            interval => Ok(interval),
        })
        .unwrap_or(Duration::from_secs(5))
    }

    fn limits(&mut self) -> LimitsConfig {
        LimitsConfig {
            body: self.size(Key::LimitBody),
            bodies: self.size(Key::LimitBodies),
            headers: fixed::REQUEST_HEADERS,
            header_bytes: self.size(Key::LimitHeaderBytes),
            turns: self.count(Key::LimitTurns),
            turns_per_key: self.count(Key::LimitTurnsPerKey),
            reserve: self.value(Key::LimitReserve, parse::count).unwrap_or_default(),
            queue: self.value(Key::LimitQueue, parse::count).unwrap_or_default(),
            connections: self.count(Key::LimitConnections),
            upstream_connections: self.count(Key::LimitUpstream),
            upstream_streams: fixed::UPSTREAM_STREAMS,
            tool_result: self.size(Key::LimitToolResult),
            blobs: self.count(Key::LimitBlobs),
            blob_size: self.size(Key::LimitBlobSize),
            blob_bytes: self.size(Key::LimitBlobBytes),
        }
    }
}

/// The bad value, where repeating it helps and gives nothing away.
fn quotable(key: Key, value: &str) -> Option<String> {
    const LONG: usize = 300;
    let value = value.trim();
    // An address may carry a password.
    let hidden = key.row().secret || value.contains('@');
    // Says itself which item is wrong.
    let named = key == Key::CorsOrigins;
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
