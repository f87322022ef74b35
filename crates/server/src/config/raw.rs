//! Settings as text, each with where it came from. Flags, environment and file are
//! three of these; merged, the stronger one wins value by value.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use secrecy::zeroize::Zeroizing;

use super::{
    fixed::REMOVED,
    key::{EnvUnit, INERT, RENAMED, SettingKey, env_name},
    servers::{self, McpServerSettings},
};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Flag(String),
    Env(String),
    File(PathBuf),
    /// Found on this machine, such as the version of an installed program.
    Detected(&'static str),
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Env(name) => write!(f, "env {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Detected(what) => f.write_str(what),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value that is not checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct RawValue {
    pub text: Zeroizing<String>,
    pub origin: SettingOrigin,
}

/// The text may be a secret.
impl fmt::Debug for RawValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawValue").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Something about the settings that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingProblem {
    /// The setting, or what else it is about. Empty: the text says all.
    pub subject: String,
    pub origin: SettingOrigin,
    /// Follows the subject of the sentence: "is not a whole number".
    pub text: String,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            _ if self.subject.is_empty() => f.write_str(&self.text),
            SettingOrigin::Default => write!(f, "`{}` {}", self.subject, self.text),
            origin => write!(f, "`{}` {} (from {origin})", self.subject, self.text),
        }
    }
}

/// The environment, taken once.
pub type Env = BTreeMap<String, String>;

/// What was given, by setting. Nothing is there by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawConfig {
    values: BTreeMap<SettingKey, RawValue>,
    /// The tables of `mcp.servers`.
    pub servers: BTreeMap<String, McpServerSettings>,
    pub problems: Vec<SettingProblem>,
    pub warnings: Vec<SettingProblem>,
}

impl RawConfig {
    pub fn set(&mut self, key: SettingKey, text: impl Into<String>, origin: SettingOrigin) {
        self.values.insert(key, RawValue { text: text.into().into(), origin });
    }

    #[must_use]
    pub fn get(&self, key: SettingKey) -> Option<&RawValue> {
        self.values.get(&key)
    }

    /// `self` where it says something, `weaker` elsewhere.
    #[must_use]
    pub fn or(mut self, weaker: Self) -> Self {
        for (key, found) in weaker.values {
            self.values.entry(key).or_insert(found);
        }
        for (name, server) in weaker.servers {
            self.servers.entry(name).or_insert(server);
        }
        self.problems.extend(weaker.problems);
        self.warnings.extend(weaker.warnings);
        self
    }

    /// `--set clocks.turn=1h`.
    pub fn set_pair(&mut self, pair: &str) {
        let origin = SettingOrigin::Flag("--set".to_owned());
        let Some((name, value)) = pair.split_once('=') else {
            self.problem(pair, origin, "must have the form KEY=VALUE");
            return;
        };
        match self.key(name.trim(), &origin) {
            Some(key) if key.row().secret => self.problem(name.trim(), origin, on_the_line(key)),
            Some(key) => self.set(key, value.trim(), origin),
            None => {}
        }
    }

    /// Reads the variables of the table. An empty variable is one that is not set.
    #[must_use]
    pub fn from_env(env: &Env) -> Self {
        let mut raw = Self::default();
        let given = |name: &str| env.get(name).map(|v| v.trim()).filter(|v| !v.is_empty());
        for &key in SettingKey::ALL {
            for (name, unit) in key.env_names() {
                if let Some(value) = given(&name) {
                    let bare = value.bytes().all(|b| b.is_ascii_digit());
                    let unit = if unit == EnvUnit::Millis && bare { "ms" } else { "" };
                    raw.set(key, format!("{value}{unit}"), SettingOrigin::Env(name));
                    break;
                }
            }
        }
        let renamed =
            RENAMED.iter().map(|(name, key)| (env_name(name), is_now_called(&key.env_name())));
        let removed = REMOVED.iter().map(|(name, why)| (env_name(name), has_no_effect(why)));
        let inert = INERT.iter().map(|(name, why)| ((*name).to_owned(), has_no_effect(why)));
        let notes: BTreeMap<_, _> = renamed.chain(removed).chain(inert).collect();
        for (name, text) in notes.iter().filter(|(name, _)| given(name).is_some()) {
            raw.warn(name, SettingOrigin::Env(name.clone()), text);
        }
        for name in env.keys().filter(|name| name.starts_with("IBEAM_")) {
            let known = SettingKey::ALL.iter().any(|key| key.env_name() == *name);
            if !known && !notes.contains_key(name) && !OTHER_ENV.contains(&name.as_str()) {
                let dotted = name.trim_start_matches("IBEAM_").to_ascii_lowercase();
                let hint = SettingKey::close_to(&dotted).or_else(|| {
                    let (section, rest) = dotted.split_once('_')?;
                    SettingKey::close_to(&format!("{section}.{rest}"))
                });
                let text = match hint {
                    Some(key) => format!("is not a setting; did you mean `{}`?", key.env_name()),
                    None => "is not a setting".to_owned(),
                };
                raw.warn(name, SettingOrigin::Env(name.clone()), text);
            }
        }
        raw
    }

    /// Reads a TOML file's text. `path` is only for messages.
    #[must_use]
    pub fn from_toml(text: &str, path: &Path) -> Self {
        let mut raw = Self::default();
        let origin = SettingOrigin::File(path.to_path_buf());
        match text.parse::<toml::Table>() {
            Ok(table) => raw.add_table("", &table, &origin),
            Err(error) => {
                // Without the quoted line: it may hold a token.
                let line = error.span().map_or(0, |span| {
                    text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1
                });
                let text = format!("{}:{line}: {}", path.display(), error.message());
                raw.problem("", origin, text);
            }
        }
        raw
    }

    fn add_table(&mut self, prefix: &str, table: &toml::Table, origin: &SettingOrigin) {
        for (name, value) in table {
            let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            if name == SERVERS {
                self.add_servers(value, origin);
                continue;
            }
            if let toml::Value::Table(inner) = value {
                self.add_table(&name, inner, origin);
                continue;
            }
            let Some(key) = self.key(&name, origin) else { continue };
            match toml_text(value) {
                // A former name counts less than the present one, wherever in the file it is.
                Some(_) if key.row().name != name && self.get(key).is_some() => {}
                Some(text) => self.set(key, text, origin.clone()),
                None => self.problem(&name, origin.clone(), "must be text, a number or a list"),
            }
        }
    }

    /// The setting of this name, or of this former name. A name that sets nothing is reported.
    fn key(&mut self, name: &str, origin: &SettingOrigin) -> Option<SettingKey> {
        if let Some(key) = SettingKey::by_name(name) {
            return Some(key);
        }
        if let Some((_, key)) = RENAMED.iter().find(|(former, _)| *former == name) {
            self.warn(name, origin.clone(), is_now_called(key.row().name));
            return Some(*key);
        }
        match REMOVED.iter().find(|(former, _)| *former == name) {
            Some((_, why)) => self.warn(name, origin.clone(), has_no_effect(why)),
            None => self.problem(name, origin.clone(), unknown(name)),
        }
        None
    }

    fn add_servers(&mut self, value: &toml::Value, origin: &SettingOrigin) {
        match (value, origin) {
            (toml::Value::Table(tables), SettingOrigin::File(path)) => {
                self.servers = servers::read(self, tables, path);
            }
            _ => self.problem(SERVERS, origin.clone(), "must be tables: `[mcp.servers.NAME]`"),
        }
    }

    pub fn problem(&mut self, subject: &str, origin: SettingOrigin, text: impl Into<String>) {
        let subject = subject.to_owned();
        self.problems.push(SettingProblem { subject, origin, text: text.into() });
    }

    pub fn warn(&mut self, subject: &str, origin: SettingOrigin, text: impl Into<String>) {
        let subject = subject.to_owned();
        self.warnings.push(SettingProblem { subject, origin, text: text.into() });
    }
}

/// What has tables with names of the user's choice.
const SERVERS: &str = "mcp.servers";

/// Variables of ours that are not settings. The last two are for the simulated `cursor-agent`.
const OTHER_ENV: [&str; 4] =
    ["IBEAM_BIN", "IBEAM_CONFIG", "IBEAM_FAKE_AGENT", "IBEAM_FAKE_AGENT_HOME"];

/// Every user of a machine can list the command lines of its programs.
fn on_the_line(key: SettingKey) -> String {
    format!(
        "is a secret, and other users can read a command line; set {} or the file's `{}` instead",
        key.env_name(),
        key.row().name
    )
}

fn is_now_called(name: &str) -> String {
    format!("is now called `{name}`; the old name still works")
}

fn has_no_effect(why: &str) -> String {
    format!("has no effect: {why}")
}

fn unknown(name: &str) -> String {
    match SettingKey::close_to(name) {
        Some(key) => format!("is not a setting; did you mean `{}`?", key.row().name),
        None => "is not a setting; `ibeam config show` lists them all".to_owned(),
    }
}

fn toml_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(on.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(toml_text).collect();
            Some(items?.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
