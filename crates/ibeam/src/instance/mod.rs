//! The gateways that run on this machine: every one of them can be found by the other
//! programs of its user, and one that serves them all is started where none runs.
//!
//! A gateway on a port of this machine writes down where it is, with a key of its own that
//! it makes at each start. So nothing that a program needs to call it is kept in the settings
//! of that program.
//!
//! *Invariant:* the key is in memory and in a file for the user alone; never on a command
//! line, in a log or in an error.

mod error;
mod record;
mod start;

use std::{ffi::OsString, fs::File, io, net::SocketAddr, path::PathBuf, time::Duration};

use ibeam_core::model::ids;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

pub use self::error::{InstanceError, PortOwner, PortTaken};
pub use self::record::Registration;
use self::record::{InstanceEntry, InstanceKind, InstanceRecord, VERSION, living};
pub(crate) use self::start::{DETACH, detach};
pub use self::start::{ensure, ready};
use ibeam_server::{
    api::GatewayService as _,
    app::App,
    auth::KEY_VARIABLE,
    config::{self, Backend, Config, DEFAULT_PORT, Listen},
    files::FileError,
    net::probe::{self, GatewayHealth, ProbeError},
    random,
    server::reachable,
};

/// What the key of a gateway begins with.
pub const PREFIX: &str = "ibi_";

/// The gateway in the background ends after so long without a request.
pub const IDLE_EXIT: Duration = Duration::from_secs(30 * 60);

/// A gateway on this machine that takes longer to answer is in no state to serve.
const PATIENCE: Duration = Duration::from_secs(3);

/// A gateway that fits.
#[derive(Clone, Debug)]
pub struct WantedInstance {
    kind: InstanceKind,
    /// The settings name no backend.
    any_backend: bool,
    /// What a new one is started with, after `serve`.
    args: Vec<OsString>,
    /// The settings name another place for its log.
    logs_elsewhere: bool,
    /// Where a new one is to be. 0: anywhere.
    port: u16,
    /// One on another port does not fit.
    stays: bool,
}

impl WantedInstance {
    /// One with these settings. `args` are the flags that lead to them.
    #[must_use]
    pub fn new(config: &Config, args: Vec<OsString>) -> Self {
        Self {
            kind: kind(config),
            any_backend: config.named_backend.is_none(),
            args,
            logs_elsewhere: config.log.file.is_some(),
            port: port(config),
            stays: false,
        }
    }

    /// One on the port of the settings and on no other: its address is written down by
    /// others, and has to be the same tomorrow.
    #[must_use]
    pub fn on_its_port(self) -> Self {
        Self { stays: true, ..self }
    }

    /// The port of the settings. 0: there is none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn is_at_port(&self, url: &str) -> bool {
        url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()) == Some(self.port)
    }

    fn fits(&self, kind: &InstanceKind) -> bool {
        let InstanceKind { profile, backend, sim, upstream, token } = &self.kind;
        kind.profile == *profile
            && kind.sim == *sim
            && kind.upstream == *upstream
            && kind.token == *token
            && (self.any_backend || kind.backend == *backend)
    }
}

/// A gateway that runs and answers.
#[derive(Clone, Debug)]
pub struct RunningInstance {
    /// Without a slash at its end.
    pub url: String,
    pub key: SecretString,
    pub pid: u32,
    pub version: String,
    pub profile: String,
    /// `agent`, `cli` or `acp`.
    pub backend: String,
    pub sim: bool,
    /// It is in the background, for all.
    pub shared: bool,
    pub authenticated: bool,
    /// Turns that run, and those that wait for their tools.
    pub active: u64,
    pub parked: u64,
    pub uptime: Duration,
    /// It was started for this.
    pub started: bool,
    /// Another program answers at the address of a gateway of the user's, which was passed over.
    pub stranger: Option<String>,
}

/// A gateway that lives, whether it answers or not.
#[derive(Clone)]
pub struct LivingInstance {
    /// Without a slash at its end.
    pub url: String,
    pub pid: u32,
    pub version: String,
    pub profile: String,
    /// `agent`, `cli` or `acp`.
    pub backend: String,
    pub sim: bool,
    /// It is in the background, for all.
    pub shared: bool,
    entry: InstanceEntry,
}

impl From<InstanceEntry> for LivingInstance {
    fn from(entry: InstanceEntry) -> Self {
        let InstanceRecord { url, pid, version, shared, kind, .. } = entry.record.clone();
        let InstanceKind { profile, backend, sim, .. } = kind;
        Self { url, pid, version, profile, backend, sim, shared, entry }
    }
}

impl LivingInstance {
    /// Whether a client of `ibeam run` needs it. See [`hold`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.entry.is_in_use()
    }

    /// None: it does not answer, or something else does.
    pub async fn ask(&self) -> Option<RunningInstance> {
        self.prove().await.ok()
    }

    /// How it is, once it has shown that it is the gateway with that key. Nothing is sent to it
    /// before. (This is a request like any other: a gateway that is about to end for lack of
    /// requests stays.)
    ///
    /// # Errors
    /// It does not answer, or another program answers in its place.
    pub async fn health(&self) -> Result<GatewayHealth, ProbeError> {
        let key = SecretString::from(self.entry.record.key.clone());
        probe::proven_health(&self.url, &key, PATIENCE).await
    }

    async fn prove(&self) -> Result<RunningInstance, ProbeError> {
        let health = self.health().await?;
        let Self { url, pid, version, profile, backend, sim, shared, entry } = self.clone();
        let key = SecretString::from(entry.record.key);
        Ok(RunningInstance {
            authenticated: health.is_authenticated(),
            active: health.sessions.active,
            parked: health.sessions.parked,
            uptime: Duration::from_secs(health.uptime_seconds),
            key,
            profile,
            backend,
            sim,
            started: false,
            stranger: None,
            url,
            pid,
            version,
            shared,
        })
    }

    /// Asks it to end, and waits until it has. False: it has not in that time.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn stop(&self, wait: Duration) -> Result<bool, InstanceError> {
        start::end(self.pid)?;
        let begun = Instant::now();
        while self.entry.is_alive() {
            if begun.elapsed() > wait {
                return Ok(false);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(true)
    }
}

impl std::fmt::Debug for LivingInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivingInstance").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Where the files of all gateways are. None: this machine has no place for them.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    config::state_dir().map(|state| state.join("instances"))
}

/// Where the gateway in the background writes its log.
#[must_use]
pub fn log_file() -> Option<PathBuf> {
    config::state_dir().map(|state| state.join("gateway.log"))
}

/// Keeps a gateway in the background from ending for want of requests, for as long as the
/// file is open, in whatever process. None: it is not there any more.
///
/// # Errors
/// The system does not lock the file.
pub fn hold(running: &RunningInstance) -> io::Result<Option<File>> {
    living_of(running).map(|one| one.entry.hold()).transpose()
}

fn living_of(running: &RunningInstance) -> Option<LivingInstance> {
    all().into_iter().find(|one| one.url == running.url && one.pid == running.pid)
}

/// All gateways of this user.
#[must_use]
pub fn all() -> Vec<LivingInstance> {
    let entries = folder().map(|folder| living(&folder)).unwrap_or_default();
    let mut all: Vec<LivingInstance> = entries.into_iter().map(Into::into).collect();
    // This version's first, and of them the one for all.
    all.sort_by_key(|one| (one.version != OURS, !one.shared, one.pid));
    all
}

/// A gateway that fits and answers.
pub async fn find(wanted: &WantedInstance) -> Option<RunningInstance> {
    search(wanted).await.ok()
}

/// The same, or the address of one in whose place another program answers.
async fn search(wanted: &WantedInstance) -> Result<RunningInstance, Option<String>> {
    let mut stranger = None;
    let mut all = all();
    // Of one version, that on the port of the settings comes first.
    all.sort_by_key(|one| (one.version != OURS, !wanted.is_at_port(&one.url)));
    for one in all {
        if wanted.fits(&one.entry.record.kind) && (!wanted.stays || wanted.is_at_port(&one.url)) {
            match one.prove().await {
                Ok(running) => return Ok(RunningInstance { stranger, ..running }),
                Err(ProbeError::Stranger) => stranger = Some(one.url),
                Err(_) => {}
            }
        }
    }
    Err(stranger)
}

/// The gateway of this user at that address, if it proves that it is.
pub async fn proven_at(address: SocketAddr) -> Option<RunningInstance> {
    let url = format!("http://{}", reachable(address));
    all().into_iter().find(|one| one.url == url)?.ask().await
}

const OURS: &str = env!("CARGO_PKG_VERSION");

/// Lets the other programs of the user find this gateway, for as long as the value lives.
/// None: it is on none of this machine's ports without TLS.
///
/// # Errors
/// The files cannot be written.
pub fn register(
    app: &App,
    places: &[Listen],
    tls: bool,
) -> Result<Option<Registration>, FileError> {
    let local = places.iter().find_map(|place| match place {
        Listen::Tcp(address) if address.ip().is_loopback() && !tls => Some(address),
        Listen::Tcp(_) | Listen::Unix(_) => None,
    });
    let (Some(address), Some(folder)) = (local, folder()) else { return Ok(None) };
    let key = SecretString::from(format!("{PREFIX}{}", ids::hex(&random::bytes::<32>())));
    let config = app.config();
    let record = InstanceRecord {
        v: VERSION,
        url: format!("http://{address}"),
        key: key.expose_secret().to_owned(),
        pid: std::process::id(),
        version: OURS.to_owned(),
        shared: config.server.shared,
        kind: kind(config),
    };
    app.settings().keys.admit(&key, &address.to_string());
    Registration::new(&folder, &record).map(Some)
}

/// Settings of the gateway for all: on one port of this machine and nowhere else, whatever
/// the settings say of others.
pub fn share(config: &mut Config) {
    config.server.listen = start::local(port(config)).into();
    config.server.also.clear();
    config.server.tls = None;
    config.server.idle_exit.get_or_insert(IDLE_EXIT);
    config.server.shared = true;
}

fn port(config: &Config) -> u16 {
    match &config.server.listen {
        Listen::Tcp(address) => address.port(),
        Listen::Unix(_) => DEFAULT_PORT,
    }
}

fn kind(config: &Config) -> InstanceKind {
    let simulator = &config.simulator;
    let upstream = match &config.backend {
        Backend::Cursor => config.upstream.api.to_string(),
        Backend::Sim { scenario } => {
            let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
            let scenario = scenario.as_ref().map(whole).unwrap_or_default();
            format!("{} {simulator:?}", scenario.display())
        }
    };
    let sim = matches!(config.backend, Backend::Sim { .. });
    InstanceKind {
        profile: config.account.profile.to_string(),
        backend: config.backend_kind().name().to_owned(),
        sim,
        upstream,
        token: if sim { None } else { token(config) },
    }
}

/// Two gateways with the same profile are not the same if the environment of one has a
/// credential that comes first.
fn token(config: &Config) -> Option<String> {
    let own = config.account.access_token.clone();
    let key = || std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    let secret = own.or_else(|| key().map(SecretString::from))?;
    let hash = Sha256::new().chain_update(b"ibeam instance\0").chain_update(secret.expose_secret());
    Some(ids::hex(hash.finalize().get(..8)?))
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
