//! Reads the settings of this machine: flags, environment, file.

use std::path::{Path, PathBuf};

use secrecy::zeroize::Zeroizing;

use super::{
    Env, McpServerSettings, RawConfig, Resolution, SettingKey, SettingOrigin,
    dirs::{default_path, findings_path, store_path},
    resolve,
};
use crate::files::others_may_use;

/// Merges all sources and resolves them. `named` is the file of `--config`.
#[must_use]
pub fn load(flags: RawConfig, env: &Env, named: Option<&Path>) -> Resolution {
    let home = etcetera::home_dir().ok();
    let file = match named_file(env, named) {
        Some(path) => read_file(&path, true),
        None => default_path().map_or_else(RawConfig::default, |path| read_file(&path, false)),
    };
    let mut machine = RawConfig::default();
    if let Some(path) = store_path() {
        machine.set(SettingKey::StorePath, path.to_string_lossy(), SettingOrigin::Default);
    }
    if let Some(path) = default_path() {
        let path = path.with_file_name("keys.json");
        machine.set(SettingKey::KeysFile, path.to_string_lossy(), SettingOrigin::Default);
    }
    let raw = flags.or(RawConfig::from_env(env)).or(file).or(machine);
    let mut resolution = resolve(&raw, home.as_deref());
    let config = &mut resolution.config;
    config.upstream.findings = findings_path(&config.account.profile, &config.upstream.api, None);
    resolution
}

/// The file of `--config`, or of the environment, if either names one.
fn named_file(env: &Env, named: Option<&Path>) -> Option<PathBuf> {
    let from_env = || env.get("IBEAM_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.map(Path::to_path_buf).or_else(from_env)
}

/// The file that [`load`] reads, there or not.
#[must_use]
pub fn file_in_use(env: &Env, named: Option<&Path>) -> Option<PathBuf> {
    named_file(env, named).or_else(default_path)
}

/// Whether there is a secret in the file.
pub fn holds_secret(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path).map(Zeroizing::new) else { return false };
    has_secret(&RawConfig::from_toml(&text, path))
}

fn has_secret(raw: &RawConfig) -> bool {
    SettingKey::ALL.iter().any(|key| key.row().secret && raw.get(*key).is_some())
        || raw.servers.values().any(McpServerSettings::holds_secret)
}

/// The environment; variables that are not valid Unicode are left out.
#[must_use]
pub fn environment() -> Env {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn read_file(path: &Path, must_exist: bool) -> RawConfig {
    let origin = || SettingOrigin::File(path.to_path_buf());
    match std::fs::read_to_string(path).map(Zeroizing::new) {
        Ok(text) => {
            let mut raw = RawConfig::from_toml(&text, path);
            if has_secret(&raw) && others_may_use(path) {
                let text = format!(
                    "it contains a secret and other users can read it: chmod 600 {}",
                    path.display()
                );
                raw.warn("config file", origin(), text);
            }
            raw
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            RawConfig::default()
        }
        Err(error) => {
            let mut raw = RawConfig::default();
            let text = format!("{}: cannot be read: {error}", path.display());
            raw.problem("", origin(), text);
            raw
        }
    }
}
