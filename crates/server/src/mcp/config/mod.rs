//! Which MCP servers there are: ibeam's own settings, and the files of other programs.
//!
//! *Invariant:* a server that is only in another program's file is never started.
//!
//! *Invariant:* a name belongs to the first file that has an entry for it, valid or not, and a file
//! of a project folder is used only with the content that the user approved. So a folder that was
//! cloned cannot run its command under a trusted name.

mod approvals;
mod entry;
mod expand;
mod sources;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use tokio::io::DuplexStream;

pub use self::{approvals::Approvals, sources::ProjectFile};
use self::{
    expand::{Expander, VariableSyntax},
    sources::ConfigFile,
};
use super::http::RemoteServer;
use crate::config::{
    Env, McpConfig, McpServerSettings,
    servers::{CALL_OUTPUT, CALL_TIMEOUT, HiddenText, MAX_SERVERS},
};

/// One server, ready to be started.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    pub name: String,
    /// The file that has its command or its URL.
    pub source: PathBuf,
    pub way: ServerTransport,
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

    /// What may be secret in it, with variables filled in.
    #[must_use]
    pub fn secrets(&self) -> Vec<HiddenText> {
        match &self.way {
            ServerTransport::Stdio(program) => program.env.values().cloned().collect(),
            ServerTransport::Http(remote) => remote.secrets(),
            ServerTransport::Memory(_) => Vec::new(),
        }
    }
}

/// How a server is reached.
#[derive(Clone)]
pub enum ServerTransport {
    /// A child that speaks on its standard streams.
    Stdio(ServerProgram),
    Http(RemoteServer),
    /// In this process: each call gives the near end of a new pipe.
    Memory(Arc<dyn Fn() -> DuplexStream + Send + Sync>),
}

impl fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(program) => program.fmt(f),
            Self::Http(remote) => remote.fmt(f),
            Self::Memory(_) => f.write_str("Memory"),
        }
    }
}

/// Without arguments, headers and query, which may be secret.
impl fmt::Display for ServerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(program) => f.write_str(&program.command),
            Self::Http(remote) => write!(f, "{}", remote.host()),
            Self::Memory(_) => f.write_str("in this process"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, HiddenText>,
    pub cwd: Option<PathBuf>,
}

/// Where files are searched.
#[derive(Clone, Debug)]
pub struct SearchPaths {
    pub folder: PathBuf,
    pub home: Option<PathBuf>,
    pub env: Env,
}

impl SearchPaths {
    #[must_use]
    pub fn here() -> Self {
        Self {
            folder: std::env::current_dir().unwrap_or_default(),
            home: etcetera::home_dir().ok(),
            env: crate::config::environment(),
        }
    }
}

/// All servers, and what is wrong with some.
#[derive(Debug, Default)]
pub struct GatheredServers {
    /// By name.
    pub servers: Vec<ServerSpec>,
    /// Files of the project folder that are not used until the user approves them.
    pub unapproved: Vec<ProjectFile>,
    pub warnings: Vec<String>,
}

/// The first entry of a name in other programs' files.
#[derive(Debug)]
struct ForeignEntry {
    source: PathBuf,
    found: FoundServer,
}

#[derive(Debug)]
enum FoundServer {
    Server(Box<ServerTransport>),
    /// The user switched it off there.
    Off,
    /// It cannot be used; a warning says why.
    Invalid,
    Unapproved(String),
}

impl ForeignEntry {
    fn way(self) -> Result<(PathBuf, ServerTransport), String> {
        let source = self.source.display();
        match self.found {
            FoundServer::Server(way) => Ok((self.source, *way)),
            FoundServer::Off => Err(format!("is switched off in {source}")),
            FoundServer::Invalid => Err(format!("its entry in {source} cannot be used")),
            FoundServer::Unapproved(command) => {
                Err(format!("is in {source}, which is not approved; run `{command}`"))
            }
        }
    }
}

/// Puts the servers of all sources together.
#[must_use]
pub fn gather(settings: &McpConfig, places: &SearchPaths) -> GatheredServers {
    let mut found = GatheredServers::default();
    let mut foreign = if settings.discover { found.discover(places) } else { BTreeMap::default() };
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
    for (name, entry) in foreign {
        let Ok((source, way)) = entry.way() else { continue };
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
    server: &McpServerSettings,
    foreign: Option<ForeignEntry>,
    places: &SearchPaths,
) -> Result<ServerSpec, String> {
    let expander = Expander::new(VariableSyntax::Shell, places);
    let expanded = |(name, value): (&String, &HiddenText)| {
        let text = expander.text(value.expose())?;
        Ok::<_, String>((name.clone(), HiddenText::from(text)))
    };
    let (source, way) = match (&server.command, &server.url) {
        (Some(command), _) => {
            let program = ServerProgram {
                args: server.args.iter().map(|arg| expander.text(arg)).collect::<Result<_, _>>()?,
                env: server.env.iter().map(expanded).collect::<Result<_, _>>()?,
                command: expander.text(command)?,
                cwd: server.cwd.clone(),
            };
            (server.file.clone(), ServerTransport::Stdio(program))
        }
        (None, Some(url)) => {
            let headers = server.headers.iter().map(expanded).collect::<Result<_, _>>()?;
            let remote = RemoteServer::new(&expander.text(url)?, headers, false)?;
            (server.file.clone(), ServerTransport::Http(remote))
        }
        (None, None) => match foreign {
            Some(entry) => entry.way()?,
            None => {
                let why = "has neither `command` nor `url`, and no other program's file has a \
                           server of that name (`mcp.discover` lets ibeam look)";
                return Err(why.to_owned());
            }
        },
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

impl GatheredServers {
    /// Reads the files of other programs, the user's own before those of the project.
    fn discover(&mut self, places: &SearchPaths) -> BTreeMap<String, ForeignEntry> {
        let mut names = BTreeMap::new();
        let mut unknown = None;
        for (path, style) in places.user_files() {
            match ConfigFile::read(&path, style) {
                Ok(Some(source)) => self.add(&source, places, &mut names),
                Ok(None) => {}
                Err(why) => {
                    self.warnings.push(format!("{}: {why}", path.display()));
                    unknown.get_or_insert(path);
                }
            }
        }
        let approvals = self.approvals(places);
        for (path, style) in places.project_files() {
            let source = match ConfigFile::read(&path, style) {
                Ok(Some(source)) if source.entries.is_empty() => continue,
                Ok(Some(source)) => source,
                Ok(None) => continue,
                Err(why) => {
                    self.warnings.push(format!("{}: {why}", path.display()));
                    continue;
                }
            };
            if let Some(unknown) = &unknown {
                self.warnings.push(format!(
                    "{}: is not used, because {} cannot be read and may have servers of the same \
                     names",
                    path.display(),
                    unknown.display()
                ));
                continue;
            }
            let file = ProjectFile::of(&source, &approvals);
            if file.approved {
                self.add(&source, places, &mut names);
            } else {
                self.leave_out(file, &mut names);
            }
        }
        names
    }

    fn approvals(&mut self, places: &SearchPaths) -> Approvals {
        let Some(folder) = places.config_dir() else { return Approvals::default() };
        Approvals::load(&folder).unwrap_or_else(|error| {
            self.warnings.push(format!("approved MCP files: {error}"));
            Approvals::none(&folder)
        })
    }

    /// Adds the servers of one file. The first entry of a name counts, usable or not.
    fn add(
        &mut self,
        source: &ConfigFile,
        places: &SearchPaths,
        names: &mut BTreeMap<String, ForeignEntry>,
    ) {
        let expander = Expander::new(source.style.dialect(), places);
        for entry in &source.entries {
            let found = match entry::read(source.style, &entry.value, &expander) {
                Ok(Some(way)) => FoundServer::Server(Box::new(way)),
                Ok(None) => FoundServer::Off,
                Err(why) => {
                    let (path, place) = (source.path.display(), &entry.place);
                    self.warnings.push(format!("{path}: {place}: {why}"));
                    FoundServer::Invalid
                }
            };
            let source = source.path.clone();
            names.entry(entry.name.clone()).or_insert(ForeignEntry { source, found });
        }
    }

    fn leave_out(&mut self, file: ProjectFile, names: &mut BTreeMap<String, ForeignEntry>) {
        for (name, _) in &file.servers {
            names.entry(name.clone()).or_insert_with(|| ForeignEntry {
                source: file.path.clone(),
                found: FoundServer::Unapproved(file.command()),
            });
        }
        let servers: Vec<_> =
            file.servers.iter().map(|(name, _)| name.escape_debug().to_string()).collect();
        self.warnings.push(format!(
            "{}: is not approved, or has changed since, so its MCP servers ({}) are not started; \
             to see and approve what it runs: `{}`",
            file.path.display(),
            servers.join(", "),
            file.command()
        ));
        self.unapproved.push(file);
    }
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
