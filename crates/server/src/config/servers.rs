//! `[mcp.servers.NAME]`: the only settings with names that the user chooses. They are tables and
//! not in the list of settings.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use secrecy::zeroize::Zeroizing;

use super::{
    parse,
    raw::{RawConfig, SettingOrigin},
};

/// A call that takes longer is cancelled.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer output is cut.
pub const CALL_OUTPUT: usize = 256 << 10;
/// More than anyone configures on purpose.
pub const MAX_SERVERS: usize = 32;

/// A text that may be a secret: it is neither shown nor logged.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HiddenText(Zeroizing<String>);

impl HiddenText {
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for HiddenText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A server as its table has it, not yet expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerSettings {
    /// With neither a command nor a URL, another program's file has to have them.
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, HiddenText>,
    pub cwd: Option<PathBuf>,
    pub url: Option<String>,
    pub headers: BTreeMap<String, HiddenText>,
    /// Its tools are offered to models and not only listed.
    pub offer: bool,
    /// Which of them. `*`: all.
    pub allow: Vec<String>,
    pub timeout: Duration,
    pub output: usize,
    /// The file it is from.
    pub file: PathBuf,
}

impl McpServerSettings {
    fn new(file: &Path) -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            offer: false,
            allow: Vec::new(),
            timeout: CALL_TIMEOUT,
            output: CALL_OUTPUT,
            file: file.to_path_buf(),
        }
    }

    /// Whether something in it may be a secret. A reference to a variable is not.
    #[must_use]
    pub fn holds_secret(&self) -> bool {
        let mut values = self.env.values().chain(self.headers.values());
        values.any(|value| !value.expose().contains("${"))
    }
}

const KEYS: [&str; 10] =
    ["command", "args", "env", "cwd", "url", "headers", "use", "allow", "timeout", "output"];

/// Reads the table `mcp.servers`. What is wrong with it becomes a problem of `raw`.
pub(super) fn read(
    raw: &mut RawConfig,
    tables: &toml::Table,
    file: &Path,
) -> BTreeMap<String, McpServerSettings> {
    let mut servers = BTreeMap::new();
    for (name, value) in tables {
        let mut found = ServerTableReader { raw, name: format!("mcp.servers.{name}"), file };
        let Some(table) = value.as_table() else {
            found.problem("", "must be a table, such as `command = \"…\"` below it");
            continue;
        };
        if servers.len() == MAX_SERVERS {
            found.problem("", format!("exceeds the limit of {MAX_SERVERS} servers"));
            break;
        }
        let server = found.server(table);
        servers.insert(name.clone(), server);
    }
    servers
}

struct ServerTableReader<'a> {
    raw: &'a mut RawConfig,
    name: String,
    file: &'a Path,
}

impl ServerTableReader<'_> {
    fn problem(&mut self, key: &str, text: impl Into<String>) {
        let dot = if key.is_empty() { "" } else { "." };
        let subject = format!("{}{dot}{key}", self.name);
        self.raw.problem(&subject, SettingOrigin::File(self.file.to_path_buf()), text);
    }

    fn server(&mut self, table: &toml::Table) -> McpServerSettings {
        let mut server = McpServerSettings::new(self.file);
        for (key, value) in table {
            match key.as_str() {
                "command" => server.command = self.text(key, value),
                "url" => server.url = self.text(key, value),
                "cwd" => server.cwd = self.text(key, value).map(PathBuf::from),
                "args" => server.args = self.texts(key, value),
                "allow" => server.allow = self.texts(key, value),
                "env" => server.env = self.hidden(key, value),
                "headers" => server.headers = self.hidden(key, value),
                "use" => match value.as_str() {
                    Some("list") => server.offer = false,
                    Some("offer") => server.offer = true,
                    _ => self.problem(key, "must be `list` or `offer`"),
                },
                "timeout" => self.positive(key, value, parse::duration, &mut server.timeout),
                "output" => self.positive(key, value, parse::size, &mut server.output),
                _ => self.problem(key, unknown(key)),
            }
        }
        self.check(&server);
        server
    }

    /// Checks across several values.
    fn check(&mut self, server: &McpServerSettings) {
        match (&server.command, &server.url) {
            (Some(_), Some(_)) => {
                self.problem("url", "cannot be combined with `command`; use one of them")
            }
            (None, Some(_)) if !server.args.is_empty() => {
                self.problem("args", "has no effect with `url`");
            }
            (Some(_), None) if !server.headers.is_empty() => {
                self.problem("headers", "has no effect with `command`");
            }
            _ => {}
        }
        if server.offer && server.allow.is_empty() {
            self.problem("allow", "must list the tools to offer; `[\"*\"]` means all");
        }
    }

    fn text(&mut self, key: &str, value: &toml::Value) -> Option<String> {
        match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            _ => {
                self.problem(key, "must be text");
                None
            }
        }
    }

    /// Reads a limit into `target`, which keeps its default if the value is wrong.
    fn positive<T: Default + PartialEq>(
        &mut self,
        key: &str,
        value: &toml::Value,
        parse: fn(&str) -> Result<T, String>,
        target: &mut T,
    ) {
        match self.text(key, value).map(|text| parse(&text)) {
            Some(Ok(limit)) if limit == T::default() => {
                self.problem(key, "must be more than zero");
            }
            Some(Ok(limit)) => *target = limit,
            Some(Err(why)) => self.problem(key, why),
            None => {}
        }
    }

    fn texts(&mut self, key: &str, value: &toml::Value) -> Vec<String> {
        let items = value.as_array().map(|items| {
            items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect::<Option<_>>()
        });
        items.flatten().unwrap_or_else(|| {
            self.problem(key, "must be a list of texts, such as `[\"a\", \"b\"]`");
            Vec::new()
        })
    }

    fn hidden(&mut self, key: &str, value: &toml::Value) -> BTreeMap<String, HiddenText> {
        let Some(table) = value.as_table() else {
            self.problem(key, "must be a table of texts, such as `{ NAME = \"value\" }`");
            return BTreeMap::new();
        };
        let mut found = BTreeMap::new();
        for (name, value) in table {
            match value.as_str() {
                Some(text) => {
                    found.insert(name.clone(), HiddenText::from(text.to_owned()));
                }
                None => self.problem(&format!("{key}.{name}"), "must be text"),
            }
        }
        found
    }
}

fn unknown(key: &str) -> String {
    let close = KEYS.iter().map(|known| (strsim::damerau_levenshtein(key, known), known));
    match close.filter(|(distance, _)| *distance <= 2).min_by_key(|(distance, _)| *distance) {
        Some((_, known)) => format!("is not a setting of a server; did you mean `{known}`?"),
        None => format!("is not a setting of a server; there are {}", KEYS.join(", ")),
    }
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
