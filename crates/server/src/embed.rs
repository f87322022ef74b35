//! A gateway inside another program, started and stopped from Rust.

use std::{
    borrow::Cow,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinHandle;

use crate::{
    app::App,
    config::{
        Backend, Config, Listen, RawConfig, SettingKey, SettingOrigin, SettingProblem, environment,
        findings_path, load, resolve,
    },
    net,
    server::{Server, StartError, url},
    shutdown::Shutdown,
    tasks::Tasks,
};

/// How long the last tasks may take after the server has ended.
const LAST_TASKS: Duration = Duration::from_secs(3);

/// The entry point: see [`Gateway::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ibeam_server::GatewayError> {
/// let gateway = ibeam_server::Gateway::builder().simulator().start().await?;
/// // Any client for the APIs of OpenAI or Anthropic can use it now.
/// assert!(gateway.url().starts_with("http://127.0.0.1:"));
/// gateway.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gateway;

impl Gateway {
    /// A gateway for the account that is signed in on this machine (`ibeam login`), on a free
    /// port of 127.0.0.1, with the defaults of every other setting.
    #[must_use]
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }
}

/// The settings of a gateway. [`GatewayBuilder::start`] checks the values.
#[derive(Clone, Debug, Default)]
pub struct GatewayBuilder {
    given: RawConfig,
    simulator: Option<Simulated>,
    of_the_user: bool,
}

#[derive(Clone, Debug, Default)]
struct Simulated {
    scenario: Option<PathBuf>,
}

impl GatewayBuilder {
    /// Answers come from the simulator; no account is needed, and nothing leaves the machine.
    #[must_use]
    pub fn simulator(mut self) -> Self {
        self.simulator.get_or_insert_default();
        self
    }

    /// Answers come from the simulator, which plays this scenario file (TOML or JSON).
    #[must_use]
    pub fn scenario(mut self, file: impl Into<PathBuf>) -> Self {
        self.simulator = Some(Simulated { scenario: Some(file.into()) });
        self
    }

    /// Uses this profile's account instead of the one called `default`.
    #[must_use]
    pub fn profile(self, name: &str) -> Self {
        self.value(SettingKey::Profile, "profile", name)
    }

    /// Uses this access token instead of the sign-in of this machine. It is never renewed.
    #[must_use]
    pub fn access_token(self, token: &str) -> Self {
        self.value(SettingKey::AccessToken, "access_token", token)
    }

    /// `agent`, `cli` or `acp`. The default is Cursor's own API.
    #[must_use]
    pub fn backend(self, name: &str) -> Self {
        self.value(SettingKey::Backend, "backend", name)
    }

    /// The port to listen on. 0, the default, means any free port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.value(SettingKey::Port, "port", &port.to_string())
    }

    /// The address to listen on, 127.0.0.1 by default. Other machines can only connect with a key.
    #[must_use]
    pub fn host(self, address: IpAddr) -> Self {
        self.value(SettingKey::Host, "host", &address.to_string())
    }

    /// The key that clients must send. By default no key is checked.
    #[must_use]
    pub fn api_key(self, key: &str) -> Self {
        self.value(SettingKey::ApiKey, "api_key", key)
    }

    /// Any other setting, by its name in `docs/configuration.md`: `set("clocks.turn", "1h")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.given.set_pair(&format!("{name}={value}"));
        self
    }

    /// Also reads the user's own settings, that is, the environment and `config.toml`, as `ibeam
    /// serve` does. Settings of this builder take precedence.
    #[must_use]
    pub fn user_settings(mut self) -> Self {
        self.of_the_user = true;
        self
    }

    fn value(mut self, key: SettingKey, method: &str, value: &str) -> Self {
        self.given.set(key, value, SettingOrigin::Flag(method.to_owned()));
        self
    }

    /// Binds the port and starts to serve on the caller's runtime. It also serves when the user is
    /// not signed in; clients then get an error (see [`Running::is_signed_in`]).
    ///
    /// # Errors
    /// A setting is invalid, serving would be unsafe, or the port is in use.
    pub async fn start(self) -> Result<Running, GatewayError> {
        let config = self.config()?;
        let end = End { shutdown: Shutdown::new(), tasks: Tasks::new() };
        // If this is dropped half-way, so is `end`, and nothing is left.
        let server = Server::bind(config, &end.tasks).await.map_err(GatewayError::Start)?;
        let places = server.places().map_err(GatewayError::Address)?;
        let url = places.first().map(|place| url(place, server.is_tls())).unwrap_or_default();
        let app = Arc::clone(server.app());
        let server = end.tasks.spawn("server", server.run(end.shutdown.clone()));
        Ok(Running { url, places, app, server: Some(server), end })
    }

    fn config(self) -> Result<Config, GatewayError> {
        let resolution = if self.of_the_user {
            load(self.given, &environment(), None)
        } else {
            let mut usual = RawConfig::default();
            usual.set(SettingKey::Port, "0", SettingOrigin::Default);
            resolve(&self.given.or(usual), None)
        };
        if !resolution.problems.is_empty() {
            return Err(GatewayError::Settings(resolution.problems));
        }
        let mut config = resolution.config;
        if let Some(Simulated { scenario }) = self.simulator {
            if config.uses_cursor_agent() {
                return Err(GatewayError::SimulatedChild);
            }
            config.backend = Backend::Sim { scenario };
        }
        config.upstream.findings = findings(&config, self.of_the_user);
        Ok(config)
    }
}

/// What `ibeam probe` has found out with the account that answers. A simulator has an account only
/// where the user's own settings count.
fn findings(config: &Config, of_the_user: bool) -> Option<PathBuf> {
    let is_simulated = matches!(config.backend, Backend::Sim { .. });
    if is_simulated && !of_the_user {
        return None;
    }
    let switches = is_simulated.then_some(&config.simulator.switches[..]);
    findings_path(&config.account.profile, &config.upstream.api, switches)
}

/// A running gateway. Dropping it ends it at once, in the background: running turns end with an
/// error that their clients can read. [`Running::stop`] lets them finish.
#[derive(Debug)]
pub struct Running {
    url: String,
    places: Vec<Listen>,
    app: Arc<App>,
    server: Option<JoinHandle<()>>,
    end: End,
}

impl Running {
    /// The URL: `http://127.0.0.1:18741`. This is the base URL for clients of Anthropic's API.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The base URL for clients of OpenAI's API: the URL with `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.url)
    }

    /// The address, if it listens on a port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.places.iter().find_map(Listen::address)
    }

    /// Whether there is an account to answer with.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.app.signed_in()
    }

    /// Accepts nothing new, lets running turns finish (limited by `clocks.drain`), and returns when
    /// the port is closed and everything has ended.
    pub async fn stop(mut self) {
        self.end.shutdown.drain();
        if let Some(server) = self.server.take() {
            // It cannot have been cancelled, and a panic is in the log.
            let _ = server.await;
        }
        self.end.tasks.join_within(LAST_TASKS).await;
    }
}

/// Ends everything that was started when it is dropped.
#[derive(Debug)]
struct End {
    shutdown: Shutdown,
    tasks: Tasks,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shutdown.abort();
        self.tasks.stop();
    }
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Invalid settings.
    #[error("{}", joined(.0))]
    Settings(Vec<SettingProblem>),
    /// `cursor-agent` is simulated by the program `ibeam`, and this is another program.
    #[error("only the program `ibeam` can simulate `cursor-agent`")]
    SimulatedChild,
    /// The server did not start. The text has every cause.
    #[error("{}", net::chain(.0))]
    Start(StartError),
    /// The system did not report the address of the listener.
    #[error("{0}")]
    Address(io::Error),
}

impl GatewayError {
    /// How to fix it, if that is known. The text is for users of the command line.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Start(error) => error.hint(),
            Self::Settings(_) | Self::SimulatedChild | Self::Address(_) => None,
        }
    }
}

fn joined(problems: &[SettingProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(builder: GatewayBuilder) -> Option<String> {
        let path = builder.config().unwrap().upstream.findings?;
        assert_eq!(path.parent(), crate::config::state_dir().as_deref());
        Some(path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn findings_of_a_probe_are_those_of_the_account_that_answers() {
        let builder = Gateway::builder;
        assert_eq!(file(builder()).as_deref(), Some("findings-default.json"));
        assert_eq!(file(builder().profile("work")).as_deref(), Some("findings-work.json"));
        let other = file(builder().set("api_url", "https://cursor.example")).unwrap();
        assert!(other.starts_with("findings-default-"), "another service: {other}");
        assert_eq!(file(builder().simulator()), None);
        assert_eq!(findings(&builder().simulator().config().unwrap(), true), {
            crate::config::state_dir().map(|folder| folder.join("findings-sim.json"))
        });
    }
}
