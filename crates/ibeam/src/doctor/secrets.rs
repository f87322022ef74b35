//! Every secret that the settings of this machine hold, so that a bundle can mask it wherever it
//! got to: a secret need not look like one.

use std::path::Path;

use ibeam_core::redact::settings::secret_arguments;
use ibeam_server::{
    auth::{Credential, KEY_VARIABLE, LocalUser},
    config::{Config, Env, McpServerSettings, RawConfig, SettingKey},
    mcp::config::{SearchPaths, ServerTransport, gather},
};
use secrecy::{ExposeSecret as _, SecretString, zeroize::Zeroizing};

/// A value of this many bytes is masked if it is known to be a secret. Shorter ones occur in
/// every text.
const KNOWN: usize = 4;

/// The same for values that may be one: variables of MCP servers are also words like `debug`.
const POSSIBLE: usize = 6;

/// What a variable's name has in it when its value is a secret.
const NAMES: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"];

/// Collects them. `file` is the file of the settings: what it says may be overridden, and is a
/// secret all the same.
#[must_use]
pub fn configured(
    config: &Config,
    file: Option<&Path>,
    here: Option<&LocalUser>,
    places: &SearchPaths,
) -> Vec<SecretString> {
    let mut found = FoundSecrets::default();
    for secret in [&config.access.api_key, &config.account.access_token].into_iter().flatten() {
        found.known(secret.expose_secret());
    }
    if let Some(path) = file
        && let Ok(text) = std::fs::read_to_string(path).map(Zeroizing::new)
    {
        found.file(&RawConfig::from_toml(&text, path));
    }
    found.environment(&places.env);
    if let Some(here) = here {
        let discovered = here.discover().ok().and_then(|discovery| discovery.found);
        let stored = here.file().load().ok().flatten();
        let found_credential = discovered.map(|found| found.credential);
        for credential in found_credential.iter().chain(&stored) {
            found.credential(credential);
        }
    }
    for server in config.mcp.servers.values() {
        found.server(server);
    }
    for spec in gather(&config.mcp, places).servers {
        if let ServerTransport::Stdio(program) = &spec.way {
            secret_arguments(&program.args).for_each(|value| found.value(value));
        }
        for value in spec.secrets() {
            found.value(value.expose());
        }
    }
    found.0
}

#[derive(Default)]
struct FoundSecrets(Vec<SecretString>);

impl FoundSecrets {
    fn known(&mut self, text: &str) {
        self.add(text, KNOWN);
    }

    /// A value, and what follows its first word: the token of `Bearer …`.
    fn value(&mut self, text: &str) {
        self.add(text, POSSIBLE);
        if let Some((_, rest)) = text.trim().split_once(' ') {
            self.add(rest, POSSIBLE);
        }
    }

    fn add(&mut self, text: &str, least: usize) {
        let text = text.trim();
        if text.len() >= least {
            self.0.push(SecretString::from(text));
        }
    }

    fn file(&mut self, raw: &RawConfig) {
        for key in SettingKey::ALL.iter().filter(|key| key.row().secret) {
            if let Some(found) = raw.get(*key) {
                self.known(&found.text);
            }
        }
        for server in raw.servers.values() {
            self.server(server);
        }
    }

    fn server(&mut self, server: &McpServerSettings) {
        for value in server.env.values().chain(server.headers.values()) {
            self.value(value.expose());
        }
        secret_arguments(&server.args).for_each(|value| self.value(value));
    }

    fn environment(&mut self, env: &Env) {
        for (name, value) in env {
            let upper = name.to_ascii_uppercase();
            if upper == KEY_VARIABLE || NAMES.iter().any(|part| upper.contains(part)) {
                self.value(value);
            }
            // `http://user:password@host`
            if upper.ends_with("_PROXY")
                && let Some((_, rest)) = value.split_once("://")
                && let Some((login, _)) = rest.rsplit_once('@')
            {
                self.known(login.split_once(':').map_or(login, |(_, password)| password));
            }
        }
    }

    fn credential(&mut self, credential: &Credential) {
        let Credential { access_token, refresh_token, api_key, .. } = credential;
        for secret in [access_token, refresh_token, api_key].into_iter().flatten() {
            self.known(secret.expose_secret());
        }
    }
}
