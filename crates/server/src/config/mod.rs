//! The settings of the program: flags before environment before file before defaults.
//!
//! All sources give text ([`RawConfig`]); one function makes typed values of the
//! merged text and reports every problem at once ([`resolve`]).

mod client_version;
mod credentials;
mod dirs;
pub mod fixed;
pub mod key;
mod load;
mod parse;
mod profile;
pub mod raw;
pub mod resolve;
pub mod servers;
mod simulator;

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use ibeam_core::{
    backend::{BackendKind, Needs},
    model::RunModes,
    models::UnknownName,
    peer::agent::HistorySetting,
    retry::Backoff,
};
use secrecy::{ExposeSecret as _, SecretString};

pub use client_version::{CLI_VERSIONS, DEFAULT_CLIENT_VERSION, installed_cli_version};
pub use credentials::CredentialStorage;
pub(crate) use credentials::KEYCHAIN_BUILD;
pub use dirs::{cache_dir, default_path, runs_dir, state_dir};
pub use key::SettingKey;
pub use load::{environment, file_in_use, holds_secret, load};
pub use parse::duration;
pub use profile::{InvalidProfile, Profile};
pub use raw::{Env, RawConfig, SettingOrigin, SettingProblem};
pub use resolve::{Resolution, ShownSetting, resolve};
pub use servers::McpServerSettings;
pub use simulator::{Sim, Simulator, SimulatorError};

use crate::net::{
    connect::Host,
    hosts::{self, Reach},
};

pub const DEFAULT_PORT: u16 = 18741;

/// Everything that can be set, checked and typed.
#[derive(Clone, Debug)]
pub struct Config {
    pub server: ServerConfig,
    pub access: AccessConfig,
    pub account: AccountConfig,
    pub upstream: UpstreamConfig,
    pub log: LogConfig,
    pub models: ModelsConfig,
    pub allow: AllowConfig,
    pub sessions: SessionsConfig,
    pub tools: ToolsConfig,
    pub mcp: McpConfig,
    pub store: StoreConfig,
    pub responses: ResponsesConfig,
    /// Waits between tries; no retries when they are switched off.
    pub retry: Backoff,
    pub clocks: ClocksConfig,
    pub limits: LimitsConfig,
    pub backend: Backend,
    /// The backend that the user named. None: `agent`, or `cli` where only that is signed in.
    pub named_backend: Option<BackendKind>,
    pub cursor_agent: CursorAgent,
    pub simulator: Simulator,
}

/// Where the gateway listens, and how it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    pub listen: Listen,
    /// Further addresses and sockets.
    pub also: Vec<Listen>,
    /// Serve TLS.
    pub tls: Option<TlsFiles>,
    pub websocket: bool,
    /// The gateway ends after this long without a request. Zero: never.
    pub idle_exit: Option<Duration>,
    /// Parameters that would be ignored are refused.
    pub strict: bool,
    /// It is the gateway that `ibeam start` put in the background.
    pub shared: bool,
}

/// Which clients may call.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// What local clients must send, if anything.
    pub api_key: Option<SecretString>,
    /// Where the hashes of further keys are. None: no file was named, and this machine
    /// has no place for one.
    pub keys_file: Option<PathBuf>,
    /// Names besides loopback under which clients may call.
    pub hosts: Vec<String>,
    /// Web origins that may call; `*` stands for all.
    pub cors_origins: Vec<String>,
}

/// The Cursor account that is used.
#[derive(Clone, Debug)]
pub struct AccountConfig {
    pub access_token: Option<SecretString>,
    pub profile: Profile,
    /// Where ibeam's own credentials are kept.
    pub credentials: CredentialStorage,
}

/// How Cursor is reached, and what it learns of this program.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// Serves plain requests, and the runs for which the service names no other host.
    pub api: Host,
    /// The user named that host: it stands for every host of the backend.
    pub named: bool,
    /// With its `cli-` prefix.
    pub client_version: String,
    /// Ghost mode.
    pub privacy: bool,
    pub transport: Transport,
    pub ca_file: Option<PathBuf>,
    /// The request context goes with the first message, unasked.
    pub inline_context: bool,
    /// How a history reaches the model.
    pub history: HistorySetting,
}

impl UpstreamConfig {
    /// Whether the service chooses the host for runs.
    #[must_use]
    pub fn follows_service(&self) -> bool {
        !self.named && self.api == hosts::API.host()
    }

    /// Where connections may go.
    #[must_use]
    pub fn reach(&self) -> Reach {
        Reach::of(&self.api, self.follows_service())
    }
}

/// An address or a socket that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Listen {
    /// The address, if this is not a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.address().map(|address| address.ip())
    }

    /// Whether only this machine can call.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.ip().is_none_or(|ip| ip.is_loopback())
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Other machines can reach this address, and clients need no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to listen on {0} without an API key: anyone who can reach this machine could use \
     your account"
)]
pub struct UnprotectedListen(pub Listen);

/// What TLS is served with, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What answers requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    #[default]
    Cursor,
    /// The simulator, in this process.
    Sim { scenario: Option<PathBuf> },
}

/// Cursor's CLI, where it runs the turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorAgent {
    /// None: it is looked for.
    pub bin: Option<PathBuf>,
    /// None: an empty folder for each.
    pub workspace: Option<PathBuf>,
    /// What clients may ask for.
    pub workspaces: Vec<PathBuf>,
    pub own_tools: bool,
    /// Processes at once.
    pub children: usize,
    /// Processes that wait for a turn.
    pub warm: usize,
    pub idle: Duration,
    pub auth_timeout: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// HTTP/2, and HTTP/1.1 where that is refused.
    #[default]
    Auto,
    H2,
    H1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// In the syntax of `tracing_subscriber::filter::Targets`.
    pub filter: String,
    pub json: bool,
    pub timing: bool,
    /// None: stderr.
    pub file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelsConfig {
    pub cache_ttl: Duration,
    pub unknown: UnknownName,
    /// For requests that name none.
    pub modes: RunModes,
}

/// Powers that a user grants the backend's own tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowConfig {
    pub web_search: bool,
    pub web_fetch: bool,
}

/// Turns that outlive a request: parked while the client's tools work, or finished and
/// kept for a client that asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionsConfig {
    /// Off: no turn is parked, no stored conversation continued.
    pub reuse: bool,
    /// A parked turn waits for its results.
    pub ttl: Duration,
    pub max_parked: usize,
    /// Bytes of all parked turns together.
    pub parked_bytes: usize,
    /// Bytes of output that one parked turn may hold back.
    pub buffer: usize,
    /// A finished answer is kept for a retry.
    pub replay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolsConfig {
    /// Identical calls with identical outcomes that pass. 0: all.
    pub max_repeat: u32,
    /// The backend's own tools are handed to the client's equivalents.
    pub native: bool,
    /// Text of one result that a child gets.
    pub result_bytes: usize,
}

/// MCP servers that the user has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    /// Off: none is started.
    pub enabled: bool,
    /// Whether other programs' files are read.
    pub discover: bool,
    /// For one to start and list its tools.
    pub start: Duration,
    pub servers: BTreeMap<String, McpServerSettings>,
}

/// Where and how long conversations are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// None: no file was named, and this machine has no place for one.
    pub path: Option<PathBuf>,
    /// Off: in memory only, whatever the path.
    pub enabled: bool,
    pub retention: Duration,
    pub bytes: usize,
}

impl StoreConfig {
    /// The file to use, if any.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.enabled)
    }
}

/// Limits of stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesConfig {
    /// Zero: nothing.
    pub retention: Duration,
    pub max: usize,
    pub bytes: usize,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClocksConfig {
    pub connect: Duration,
    /// Nothing at all from upstream.
    pub no_frame: Duration,
    /// Heartbeats, and nothing else.
    pub heartbeats_only: Duration,
    pub turn: Duration,
    /// Between our heartbeats.
    pub heartbeat: Duration,
    /// From a client's leaving to the cancel upstream.
    pub cancel_grace: Duration,
    /// A client that does not read.
    pub client_stall: Duration,
    /// For late frames after `turn_ended`.
    pub end_wait: Duration,
    /// Heartbeats only, after the answer was stored: it is complete.
    pub quiet_end: Duration,
    /// For further tool calls of the same batch.
    pub tool_batch: Duration,
    /// For a turn's first event, before the response's headers go out.
    pub header_grace: Duration,
    /// Silence before a comment on an event stream.
    pub keep_alive: Duration,
    /// A client's connection without a request.
    pub client_idle: Duration,
    /// A WebSocket without a request.
    pub websocket_idle: Duration,
    /// A request body may pause.
    pub body: Duration,
    /// For TLS with a client.
    pub handshake: Duration,
    /// A request waits for a free turn.
    pub queue: Duration,
    /// For the user to sign in with the browser.
    pub login: Duration,
    pub drain: Duration,
}

/// How much there may be of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Bytes.
    pub body: usize,
    /// Bytes of all bodies that are being read.
    pub bodies: usize,
    /// Of one request.
    pub headers: usize,
    /// Bytes of all headers of a request.
    pub header_bytes: usize,
    /// Turns that generate with a client attached.
    pub turns: usize,
    /// Those of one key, unless it has a limit of its own.
    pub turns_per_key: usize,
    /// Beyond `turns`, for requests that bring tool results.
    pub reserve: usize,
    /// Requests that wait for one.
    pub queue: usize,
    /// Bytes of one tool result.
    pub tool_result: usize,
    pub connections: usize,
    pub upstream_connections: usize,
    /// Per upstream connection.
    pub upstream_streams: usize,
    /// Per turn.
    pub blobs: usize,
    /// Bytes.
    pub blob_size: usize,
    /// Bytes of all blobs of a turn.
    pub blob_bytes: usize,
}

impl Default for Config {
    /// The table's defaults, untouched by this machine.
    fn default() -> Self {
        resolve(&RawConfig::default(), None).config
    }
}

impl Config {
    /// What must hold before anything listens. `keys`: whether there are any in the file.
    ///
    /// # Errors
    /// Says why serving would be unsafe.
    pub fn check_serving(&self, keys: bool) -> Result<(), UnprotectedListen> {
        match self.exposed() {
            Some(place) if self.access.api_key.is_none() && !keys => {
                Err(UnprotectedListen(place.clone()))
            }
            _ => Ok(()),
        }
    }

    /// The backend that runs turns.
    #[must_use]
    pub fn backend_kind(&self) -> BackendKind {
        self.named_backend.unwrap_or(Needs::Account.default_backend())
    }

    /// Whether Cursor's CLI runs the turns.
    #[must_use]
    pub fn uses_cursor_agent(&self) -> bool {
        self.backend_kind().needs() == Needs::CursorAgent
    }

    /// Every address and socket that clients connect to.
    pub fn places(&self) -> impl Iterator<Item = &Listen> {
        std::iter::once(&self.server.listen).chain(&self.server.also)
    }

    /// The first of them that other machines can reach.
    #[must_use]
    pub fn exposed(&self) -> Option<&Listen> {
        self.places().find(|place| !place.is_local())
    }

    /// What can be served, but should not be. `key_needed`: clients need one.
    #[must_use]
    pub fn weak_points(&self, key_needed: bool) -> Vec<&'static str> {
        let mut found = Vec::new();
        let length = self.access.api_key.as_ref().map(|key| key.expose_secret().chars().count());
        if self.exposed().is_some() && length.is_some_and(|length| length < KEY_LENGTH) {
            found.push(
                "`api_key` has fewer than 16 characters and can be guessed from other machines; \
                 make it longer, or use `ibeam keys add NAME` in its place",
            );
        }
        if !key_needed && self.access.cors_origins.iter().any(|origin| origin == "*") {
            found.push(
                "every web page may call (`cors_origins` has `*`), and no key is needed; \
                 `ibeam keys add NAME` changes that",
            );
        }
        found
    }
}

/// A shorter key can be guessed with enough time.
const KEY_LENGTH: usize = 16;

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
