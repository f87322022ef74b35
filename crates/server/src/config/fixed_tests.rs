//! Former names of settings: those that were renamed and those that became constants.

use std::{collections::BTreeSet, path::Path};

use super::REMOVED;
use crate::config::{
    Env, RawConfig, SettingKey,
    key::{RENAMED, env_name},
    resolve,
};

fn variables(pairs: &[(&str, &str)]) -> Env {
    pairs.iter().map(|(name, value)| (env_name(name), (*value).to_owned())).collect()
}

/// The same setting from each of the three places that know names.
fn sources(name: &str, value: &str) -> [RawConfig; 3] {
    let mut flag = RawConfig::default();
    flag.set_pair(&format!("{name}={value}"));
    let file = RawConfig::from_toml(&format!("{name} = '{value}'"), Path::new("config.toml"));
    [flag, RawConfig::from_env(&variables(&[(name, value)])), file]
}

#[test]
fn former_name_works_with_one_warning() {
    for &(former, key) in RENAMED {
        for raw in sources(former, "7") {
            assert_eq!(raw.get(key).unwrap().text.as_str(), "7", "{former}");
            assert_eq!(raw.problems, [], "{former}");
            let [warning] = raw.warnings.as_slice() else { panic!("{former}: {raw:?}") };
            let warning = warning.to_string();
            let (name, variable) = (key.row().name, key.env_name());
            let now = [format!("is now called `{name}`"), format!("is now called `{variable}`")];
            assert!(now.iter().any(|now| warning.contains(now)), "{warning}");
        }
    }
}

#[test]
fn new_name_beats_the_former_one() {
    let both = [("hosts", "old"), ("allowed_hosts", "new")];
    for text in ["hosts = 'old'\nallowed_hosts = 'new'", "allowed_hosts = 'new'\nhosts = 'old'"] {
        let raw = RawConfig::from_toml(text, Path::new("config.toml"));
        assert_eq!(resolve(&raw, None).config.access.hosts, ["new"], "{text}");
        assert_eq!(raw.warnings.len(), 1, "{text}");
    }
    let raw = RawConfig::from_env(&variables(&both));
    assert_eq!(resolve(&raw, None).config.access.hosts, ["new"]);
    assert_eq!(raw.warnings.len(), 1);
}

#[test]
fn removed_setting_is_accepted_with_a_warning() {
    for (former, why) in REMOVED {
        for raw in sources(former, "7s") {
            assert_eq!(raw.problems, [], "{former}");
            let [warning] = raw.warnings.as_slice() else { panic!("{former}: {raw:?}") };
            assert!(warning.to_string().contains(&format!("has no effect: {why}")), "{warning}");
        }
    }
}

#[test]
fn former_names_are_documented_and_unused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let renamed = RENAMED
        .iter()
        .map(|(former, key)| format!("| `{former}` | is now called `{}` |", key.row().name));
    let removed = REMOVED.iter().map(|(former, why)| format!("| `{former}` | {why} |"));
    for line in renamed.chain(removed) {
        assert!(text.contains(&line), "docs/configuration.md lacks:\n{line}");
    }
    let today: BTreeSet<_> = SettingKey::ALL.iter().map(|key| key.row().name).collect();
    let former = RENAMED.iter().map(|(name, _)| name).chain(REMOVED.iter().map(|(name, _)| name));
    assert_eq!(former.filter(|name| today.contains(*name)).count(), 0);
}
