//! The gateway whose address `ibeam setup` writes down: one that is there tomorrow, too.

use secrecy::SecretString;

use crate::{
    cli::{Global, Refusal, UpstreamOptions, block_on, require_account, say, service, start, up},
    clients::ClientSpec,
    instance::{self, InstanceError, PortOwner, PortTaken, RunningInstance, WantedInstance},
};
use ibeam_server::{
    config::{Config, DEFAULT_PORT, Listen},
    server::reachable,
};

/// Clients that start the gateway themselves, at any address. `env` is for programs of all
/// kinds, and its page explains the gateway.
const BY_THEMSELVES: &str = "opencode";
const ANY: &str = "env";

/// Where a gateway was found.
pub(super) struct ClientAddress {
    pub(super) url: String,
    /// The key that this program itself sends. None: the gateway is not running.
    pub(super) key: Option<SecretString>,
}

impl From<RunningInstance> for ClientAddress {
    fn from(running: RunningInstance) -> Self {
        Self { url: running.url, key: Some(running.key) }
    }
}

/// The gateway of this machine. `--dry-run` and `--no-verify` do not need a running one.
pub(super) fn local(
    client: &ClientSpec,
    (global, upstream): (&Global, &UpstreamOptions),
    config: &mut Config,
    must_run: bool,
) -> anyhow::Result<ClientAddress> {
    let mut wanted = start::wanted(global, upstream, config, Vec::new());
    if client.name != BY_THEMSELVES {
        lasting(&wanted)?;
        wanted = wanted.on_its_port();
    }
    if !must_run {
        return match block_on(async { Ok(instance::ready(&wanted).await) })? {
            Ok(Some(running)) => Ok(running.into()),
            // It is the user's own, and they may have it otherwise by then.
            Ok(None) | Err(PortTaken { by: PortOwner::Own(_), .. }) => {
                Ok(ClientAddress { url: usual(config)?, key: None })
            }
            Err(_) if client.name == BY_THEMSELVES => {
                Ok(ClientAddress { url: usual(config)?, key: None })
            }
            Err(taken) => Err(refused(&taken).into()),
        };
    }
    if let Err(refused) = require_account(config) {
        up::login_first(config, refused)?;
    }
    let running = start::ensure(&wanted).map_err(|error| match error.downcast() {
        Ok(InstanceError::PortTaken(taken)) => refused(&taken).into(),
        Ok(error) => error.into(),
        Err(error) => error,
    })?;
    start::other_version(&running).inspect(|line| say(line));
    Ok(running.into())
}

/// The settings of a client outlive a port of the system's choice.
fn lasting(wanted: &WantedInstance) -> anyhow::Result<()> {
    if wanted.port() != 0 {
        return Ok(());
    }
    let text = "a client needs a fixed port; port 0 is a different one each time";
    Err(Refusal::new(text)
        .hint(format!("choose one: `--set port={DEFAULT_PORT}`, or `port` in config.toml"))
        .into())
}

/// Where a gateway with these settings would be.
fn usual(config: &Config) -> anyhow::Result<String> {
    match &config.listen {
        Listen::Tcp(address) => Ok(format!("http://{}", reachable(*address))),
        Listen::Unix(_) => {
            Err(Refusal::new("clients cannot use a gateway that listens only on a Unix socket")
                .hint("give it a port too, as in `--set listen=127.0.0.1:18741,unix:/path`")
                .into())
        }
    }
}

fn refused(PortTaken { port, by }: &PortTaken) -> Refusal {
    let url = format!("http://127.0.0.1:{port}");
    let (what, first) = match by {
        PortOwner::Own(one) => {
            let instance::LivingInstance { url, pid, profile, .. } = &**one;
            let sim = if one.sim { ", the simulator" } else { "" };
            (
                format!(
                    "your gateway at {url} (process {pid}, profile {profile}{sim}) has other \
                     settings than this client would get"
                ),
                format!("end it: `ibeam stop {pid}`"),
            )
        }
        PortOwner::Gateway(version) => (
            format!(
                "ibeam {version} is at {url}, but it is not one of your gateways: it belongs to \
                 another user or serves the network"
            ),
            format!("to use that one: `--url {url}`"),
        ),
        PortOwner::Stranger => (
            format!(
                "the program at {url} is not your gateway: it does not have the gateway's key. \
                 Nothing was sent to it"
            ),
            "`ibeam doctor` shows which program it is, if the system permits".to_owned(),
        ),
        PortOwner::Other => (
            format!("another program uses port {port}, where the client would look for ibeam"),
            "`ibeam doctor` shows which one, if the system permits".to_owned(),
        ),
    };
    Refusal::new(format!("{what}; nothing was changed"))
        .hint(first)
        .hint(
            "or give ibeam another port, in config.toml (`port = 18742`) or by `--set port=18742`, also to `ibeam start`",
        )
        .hint("with `ibeam service install`, no other program can take that port")
}

/// What to know of the gateway after a setup. None: the system keeps its port, or the client
/// starts it and checks who answers.
pub(super) fn last_words(client: &ClientSpec, url: &str, sim: bool) -> Option<String> {
    if [BY_THEMSELVES, ANY].contains(&client.name) || service::is_installed() {
        return None;
    }
    let sim = if sim { " --sim" } else { "" };
    let stays = |one: &instance::LivingInstance| one.url == url && !one.shared;
    let start = match instance::all().iter().any(stays) {
        true => String::new(),
        false => format!(
            "It needs a running gateway, which stops when idle: `ibeam start{sim}` starts it.\n"
        ),
    };
    Some(format!(
        "{start}The client always calls {url}. While no gateway runs there, any other user of this \
         machine can take that port and read what the client sends. `ibeam service install{sim}` \
         reserves the port, and starts the gateway when it is needed."
    ))
}
