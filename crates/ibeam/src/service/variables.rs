//! Which variables of this shell a service would miss. It does not get them: they may hold
//! secrets, and what is in a service's file can be read by others.

use ibeam_server::{
    auth::KEY_VARIABLE,
    config::{Env, Key},
};

/// Where programs and files are found. They hold no secret, and without them the service
/// would look elsewhere than the command that installed it.
const CARRIED: [&str; 5] =
    ["PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

const PROXIES: [&str; 3] = ["HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// What the service gets.
pub(crate) fn carried(env: &Env) -> Vec<(String, String)> {
    let given = |name: &&str| {
        let value = env.get(*name).filter(|value| !value.is_empty())?;
        Some(((*name).to_owned(), value.clone()))
    };
    CARRIED.iter().filter_map(given).collect()
}

/// What is set here and means something to ibeam, each with what to do about it. Names only:
/// never a value.
pub(crate) fn unseen(env: &Env) -> Vec<String> {
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.trim().is_empty());
    let mut notes = Vec::new();
    if is_set(KEY_VARIABLE) {
        notes.push(format!(
            "{KEY_VARIABLE} is set here, and the service does not see it: sign in with `ibeam login`"
        ));
    }
    for key in Key::ALL {
        let row = key.row();
        for (name, _) in key.env_names().filter(|(name, _)| is_set(name)) {
            let private = if row.secret { " (of mode 600)" } else { "" };
            notes.push(format!(
                "{name} is set here, and the service does not see it: put `{}` into \
                 `config.toml`{private}",
                row.name
            ));
        }
    }
    for name in PROXIES {
        if is_set(name) || is_set(&name.to_ascii_lowercase()) {
            notes.push(format!(
                "{name} is set here, and the service does not see it: give it to all your services, \
                 see docs/service.md"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_folder_variables_are_carried() {
        let env = env(&[
            ("PATH", "/a:/b"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", ""),
            ("CURSOR_ACCESS_TOKEN", "secret"),
            ("IBEAM_PORT", "1"),
        ]);
        let want = [("PATH", "/a:/b"), ("XDG_CONFIG_HOME", "/c")];
        assert_eq!(carried(&env), want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn missing_variables_are_named_without_values() {
        let secret = "thisIsTheSecretItself";
        let env = env(&[
            ("CURSOR_ACCESS_TOKEN", secret),
            ("CURSOR_API_KEY", secret),
            ("IBEAM_API_KEY", secret),
            ("PORT", "8080"),
            ("https_proxy", secret),
            ("IBEAM_HOST", " "),
            ("EDITOR", "vi"),
        ]);
        let notes = unseen(&env).join("\n");
        for part in [
            "CURSOR_API_KEY is set here, and the service does not see it: sign in",
            "CURSOR_ACCESS_TOKEN is set here, and the service does not see it: put `access_token`",
            "IBEAM_API_KEY is set here, and the service does not see it: put `api_key`",
            "PORT is set here, and the service does not see it: put `port` into `config.toml`\n",
            "HTTPS_PROXY is set here",
        ] {
            assert!(notes.contains(part), "{part} in {notes}");
        }
        assert!(!notes.contains(secret), "{notes}");
        assert!(!notes.contains("IBEAM_HOST") && !notes.contains("EDITOR"), "{notes}");
    }
}
