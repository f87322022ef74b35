//! Where this machine keeps the files of ibeam.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use ibeam_core::model::ids::uuid_from_content;

use super::Profile;
use crate::net::{connect::Host, hosts::API};

/// `config.toml` in the platform's place for settings.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let dirs = etcetera::choose_base_strategy().ok()?;
    Some(dirs.config_dir().join("ibeam").join("config.toml"))
}

/// Where things may be kept that can be fetched again.
#[must_use]
pub fn cache_dir() -> Option<PathBuf> {
    let dirs = etcetera::choose_base_strategy().ok()?;
    Some(dirs.cache_dir().join("ibeam"))
}

/// Where `cursor-agent` has its folders while it runs.
#[must_use]
pub fn runs_dir() -> Option<PathBuf> {
    cache_dir().map(|cache| cache.join("runs"))
}

/// The platform's place for what a program remembers. Not the cache: what is in it cannot
/// be fetched again.
#[must_use]
pub fn state_dir() -> Option<PathBuf> {
    let dirs = etcetera::choose_base_strategy().ok()?;
    Some(dirs.state_dir().unwrap_or_else(|| dirs.data_dir()).join("ibeam"))
}

/// What probes have found out with this account at this service. `sim`: the switches of the
/// simulator, which is another service with each set of them.
#[must_use]
pub fn findings_path(profile: &Profile, api: &Host, sim: Option<&[String]>) -> Option<PathBuf> {
    let name = if let Some(switches) = sim {
        match switches {
            [] => "findings-sim.json".to_owned(),
            switches => {
                let switches = switches.join("\n");
                format!("findings-sim-{}.json", uuid_from_content([switches.as_bytes()]))
            }
        }
    } else if *api == API.host() {
        format!("findings-{profile}.json")
    } else {
        let host = uuid_from_content([b"findings".as_slice(), api.authority.as_str().as_bytes()]);
        format!("findings-{profile}-{host}.json")
    };
    state_dir().map(|dir| dir.join(name))
}

pub(super) fn store_path() -> Option<PathBuf> {
    state_dir().map(|dir| dir.join("store.db"))
}
