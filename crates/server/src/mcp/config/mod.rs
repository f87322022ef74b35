//! Which MCP servers there are: ibeam's own settings, and the files of other programs.
//!
//! *Invariant:* a server that only another program's file has is never started by itself.

mod entry;
mod expand;
mod jsonc;

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::io::DuplexStream;

use self::{
    entry::Style,
    expand::{Dialect, Expander},
};
use super::http::Remote;
use crate::config::{
    Env, Mcp, McpServer,
    servers::{CALL_OUTPUT, CALL_TIMEOUT, Hidden, MAX_SERVERS},
};

/// Settings of that size are none. Claude Code keeps more than settings in its file.
const FILE_BYTES: u64 = 8 << 20;

/// One server, ready to be started.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    pub name: String,
    /// The file that has its command or its URL.
    pub source: PathBuf,
    pub way: Way,
    /// The user named it in ibeam's settings.
    pub named: bool,
    /// Its tools are offered to models.
    pub offer: bool,
    /// Which of them. `*` stands for any text.
    pub allow: Vec<String>,
    pub timeout: Duration,
    pub output: usize,
}

impl ServerSpec {
    /// Whether models may be offered this tool.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        self.offer && self.allow.iter().any(|pattern| fits(pattern, tool))
    }
}

/// How a server is reached.
#[derive(Clone)]
pub enum Way {
    /// A child that speaks on its standard streams.
    Stdio(Program),
    Http(Remote),
    /// In this process: each call gives the near end of a new pipe.
    Memory(Arc<dyn Fn() -> DuplexStream + Send + Sync>),
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(program) => program.fmt(f),
            Self::Http(remote) => remote.fmt(f),
            Self::Memory(_) => f.write_str("Memory"),
        }
    }
}

/// What a user may see of it: no argument, no header, no query.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(program) => f.write_str(&program.command),
            Self::Http(remote) => write!(f, "{}", remote.host()),
            Self::Memory(_) => f.write_str("in this process"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, Hidden>,
    pub cwd: Option<PathBuf>,
}

/// Where files are looked for.
#[derive(Clone, Debug)]
pub struct Places {
    pub folder: PathBuf,
    pub home: Option<PathBuf>,
    pub env: Env,
}

impl Places {
    #[must_use]
    pub fn here() -> Self {
        Self {
            folder: std::env::current_dir().unwrap_or_default(),
            home: etcetera::home_dir().ok(),
            env: crate::config::environment(),
        }
    }

    /// The user's own files come first: a folder that was cloned from somewhere must not
    /// take the name of a server that the user trusts.
    fn files(&self) -> Vec<(PathBuf, Style)> {
        let mut files = Vec::new();
        if let Some(home) = &self.home {
            let config = match self.env.get("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
                Some(path) => PathBuf::from(path),
                None => home.join(".config"),
            };
            files.push((config.join("opencode/opencode.json"), Style::OpenCode));
            files.push((config.join("opencode/opencode.jsonc"), Style::OpenCode));
            files.push((home.join(".cursor/mcp.json"), Style::Cursor));
            files.push((home.join(".claude.json"), Style::Claude));
        }
        files.push((self.folder.join("opencode.json"), Style::OpenCode));
        files.push((self.folder.join("opencode.jsonc"), Style::OpenCode));
        files.push((self.folder.join(".cursor/mcp.json"), Style::Cursor));
        files.push((self.folder.join(".mcp.json"), Style::Claude));
        files
    }
}

/// All servers, and what is wrong with some.
#[derive(Debug, Default)]
pub struct Gathered {
    /// By name.
    pub servers: Vec<ServerSpec>,
    pub warnings: Vec<String>,
}

/// Puts the servers of all sources together.
#[must_use]
pub fn gather(settings: &Mcp, places: &Places) -> Gathered {
    let mut found = Gathered::default();
    let mut foreign = BTreeMap::new();
    if settings.discover {
        for (path, style) in places.files() {
            found.read(&path, style, places, &mut foreign);
        }
    }
    let mut all = BTreeMap::new();
    for (name, server) in &settings.servers {
        match own(name, server, foreign.remove(name), places) {
            Ok(spec) => {
                all.insert(name.clone(), spec);
            }
            Err(why) => {
                found.warnings.push(format!("{}: mcp.servers.{name}: {why}", server.file.display()))
            }
        }
    }
    for (name, (source, way)) in foreign {
        let spec = ServerSpec {
            name: name.clone(),
            source,
            way,
            named: false,
            offer: false,
            allow: Vec::new(),
            timeout: CALL_TIMEOUT,
            output: CALL_OUTPUT,
        };
        all.insert(name, spec);
    }
    if all.len() > MAX_SERVERS {
        found.warnings.push(format!(
            "there are {} MCP servers; only {MAX_SERVERS} of them are used",
            all.len()
        ));
    }
    // Those that the user named go first.
    let (named, others): (Vec<_>, Vec<_>) = all.into_values().partition(|spec| spec.named);
    found.servers = named.into_iter().chain(others).take(MAX_SERVERS).collect();
    found.servers.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn own(
    name: &str,
    server: &McpServer,
    foreign: Option<(PathBuf, Way)>,
    places: &Places,
) -> Result<ServerSpec, String> {
    let expander = Expander::new(Dialect::Shell, places);
    let (source, way) = match (&server.command, &server.url) {
        (Some(command), _) => {
            let mut args = Vec::new();
            for arg in &server.args {
                args.push(expander.text(arg)?);
            }
            let mut env = BTreeMap::new();
            for (name, value) in &server.env {
                env.insert(name.clone(), Hidden::from(expander.text(value.expose())?));
            }
            let command = expander.text(command)?;
            let program = Program { command, args, env, cwd: server.cwd.clone() };
            (server.file.clone(), Way::Stdio(program))
        }
        (None, Some(url)) => {
            let mut headers = Vec::new();
            for (name, value) in &server.headers {
                headers.push((name.clone(), Hidden::from(expander.text(value.expose())?)));
            }
            let remote = Remote::new(&expander.text(url)?, headers, false)?;
            (server.file.clone(), Way::Http(remote))
        }
        (None, None) => foreign.ok_or_else(|| {
            "has neither `command` nor `url`, and no other program's file has a server of that \
             name (`mcp.discover` lets ibeam look)"
                .to_owned()
        })?,
    };
    Ok(ServerSpec {
        name: name.to_owned(),
        source,
        way,
        named: true,
        offer: server.offer,
        allow: server.allow.clone(),
        timeout: server.timeout,
        output: server.output,
    })
}

impl Gathered {
    /// Adds the servers of one file. The first of a name stays.
    fn read(
        &mut self,
        path: &Path,
        style: Style,
        places: &Places,
        into: &mut BTreeMap<String, (PathBuf, Way)>,
    ) {
        let document = match document(path) {
            Ok(Some(document)) => document,
            Ok(None) => return,
            Err(why) => return self.warnings.push(format!("{}: {why}", path.display())),
        };
        let expander = Expander::new(style.dialect(), places);
        for section in style.sections() {
            let Some(servers) = document.get(*section) else { continue };
            let Some(servers) = servers.as_object() else {
                self.warnings.push(format!("{}: {section} is no object", path.display()));
                continue;
            };
            for (name, value) in servers {
                match entry::read(style, value, &expander) {
                    Ok(Some(way)) => {
                        into.entry(name.clone()).or_insert_with(|| (path.to_path_buf(), way));
                    }
                    // The user switched it off there.
                    Ok(None) => {}
                    Err(why) => {
                        self.warnings.push(format!("{}: {section}.{name}: {why}", path.display()))
                    }
                }
            }
        }
    }
}

/// A JSON file with comments, if there is one.
fn document(path: &Path) -> Result<Option<Value>, String> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(format!("is larger than {FILE_BYTES} bytes"));
    }
    // Without the text around it: that may hold a token.
    let syntax = |error: serde_json::Error| {
        format!("is no JSON at line {}, column {}", error.line(), error.column())
    };
    serde_json::from_str(&jsonc::plain(&text)).map(Some).map_err(syntax)
}

/// Whether a name fits a pattern, in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    true
}

#[cfg(test)]
#[path = "../config_tests.rs"]
mod tests;
