//! The clients that ibeam can wire to itself: what they are called, where their settings
//! are, and what would have to stand there. One file per client.
//!
//! *Invariant:* a plan is a pure function of what the machine has. Only `engine` writes,
//! and only what a plan says.

mod aider;
mod claude_code;
mod cline;
mod codex;
mod continue_dev;
#[cfg(test)]
mod corpus;
mod droid;
pub(crate) mod edit;
pub(crate) mod engine;
mod env;
#[cfg(test)]
mod fixtures;
mod llm;
mod machine;
mod omp;
mod open_webui;
mod opencode;
mod pi;
pub(crate) mod probe;
mod sheet;
pub(crate) mod show;
pub(crate) mod verify;
mod zed;

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

pub(crate) use machine::{System, UserMachine};
use secrecy::{ExposeSecret as _, SecretString};

/// Every client there is, in the order in which they are shown.
pub(crate) const CLIENTS: &[&ClientSpec] = &[
    &opencode::CLIENT,
    &claude_code::CLIENT,
    &codex::CLIENT,
    &aider::CLIENT,
    &cline::CLIENT,
    &continue_dev::CLIENT,
    &zed::CLIENT,
    &pi::CLIENT,
    &omp::CLIENT,
    &llm::CLIENT,
    &open_webui::CLIENT,
    &droid::CLIENT,
    &env::CLIENT,
];

/// A program that uses models, and how it is set up to use this gateway.
pub(crate) struct ClientSpec {
    /// What users type.
    pub(crate) name: &'static str,
    /// Other spellings of it.
    pub(crate) also: &'static [&'static str],
    pub(crate) title: &'static str,
    /// Looked for in `PATH`.
    pub(crate) programs: &'static [&'static str],
    /// The API it calls once it is wired: what `setup` tries.
    pub(crate) speaks: ClientApi,
    /// Folders or files that show that it is in use here.
    pub(crate) traces: fn(&UserMachine) -> Vec<PathBuf>,
    pub(crate) plan: fn(&UserMachine, &Wiring) -> Result<SetupPlan, UnfitSettings>,
    /// None: it cannot be started from a shell.
    pub(crate) launch: Option<Launcher>,
    /// The arguments that let it answer `{prompt}` without a person, and read files. None: it
    /// has no such way, or no tool to read with.
    pub(crate) headless: Option<&'static [&'static str]>,
    /// The command or the page that installs it.
    pub(crate) install: &'static str,
    /// Its page in the documentation.
    pub(crate) page: &'static str,
}

/// How one run is wired.
type Launcher = fn(&UserMachine, &Wiring) -> Result<Launch, UnfitSettings>;

impl fmt::Debug for ClientSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.name).finish()
    }
}

impl ClientSpec {
    /// Whether its program or a trace of it is on this machine.
    pub(crate) fn is_found(&self, machine: &UserMachine) -> bool {
        self.programs.iter().any(|program| machine.program(program).is_some())
            || (self.traces)(machine).iter().any(|path| machine.is_there(path))
    }

    /// Whether there is something to be found: the environment is on every machine.
    pub(crate) fn is_installable(&self) -> bool {
        !self.programs.is_empty() || self.name != env::CLIENT.name
    }

    /// Whether `ibeam run` needs none of its settings.
    pub(crate) fn runs_unwired(&self) -> bool {
        self.launch.is_some() && self.name != zed::CLIENT.name
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientApi {
    Chat,
    Responses,
    Messages,
}

/// What a client is to talk to.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// Without `/v1`, and without a slash at its end.
    pub(crate) url: String,
    pub(crate) key: SecretString,
    pub(crate) model: String,
    /// With `model` among them.
    pub(crate) models: Vec<Offered>,
    /// The models are those that the gateway listed.
    pub(crate) asked: bool,
    /// It is the one that `ibeam start` finds on this machine, not one that a URL named.
    pub(crate) local: bool,
    /// The options that find it there, for a client that asks `ibeam start` itself.
    pub(crate) args: Vec<String>,
}

/// Cursor's own choice of a model.
pub(crate) const AUTO: &str = "auto";

/// What a client sends where no key is asked for: many insist on having one.
pub(crate) const ANY_KEY: &str = "ibeam";

impl Wiring {
    /// Whether the gateway requires no key, so that the one here is not a secret.
    pub(crate) fn is_open(&self) -> bool {
        self.key.expose_secret() == ANY_KEY
    }

    /// The model, or if none was chosen, the first that fits.
    fn rather_than_auto(&self, fits: impl Fn(&Offered) -> bool) -> &str {
        match self.models.iter().find(|model| fits(model)) {
            Some(model) if self.model == AUTO => &model.id,
            _ => &self.model,
        }
    }
}

/// A model as the gateway lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) id: String,
    pub(crate) name: String,
    /// In tokens.
    pub(crate) context: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: bool,
    pub(crate) images: bool,
    pub(crate) tools: bool,
    pub(crate) efforts: Vec<String>,
}

/// What a setup would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetupPlan {
    /// All of them or none are written. One whose text is there already is none.
    pub(crate) changes: Vec<Change>,
    /// What the user should know, a line each.
    pub(crate) notes: Vec<String>,
    /// What the user has to put in place by hand; goes to stdout.
    pub(crate) paste: Option<String>,
}

/// A file as it will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) after: String,
    /// It holds a key: a new file is for its owner alone.
    pub(crate) private: bool,
}

/// A client that is started wired, with no file of the user's changed. `{files}` in
/// arguments and values stands for the folder of `files`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: &'static str,
    /// Before those of the user.
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, String)>,
    /// Variables that would lead it elsewhere.
    pub(crate) without: Vec<&'static str>,
    /// Names and texts, put into a private folder for as long as it runs.
    pub(crate) files: Vec<(String, String)>,
}

/// Why a client's settings are left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnfitSettings {
    #[error("{} is not well-formed{}: {why}", path.display(), at(*line))]
    Malformed { path: PathBuf, line: Option<usize>, why: String },
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    /// A setting of the user's that is not overwritten.
    #[error("{} has its own {what}", path.display())]
    Conflict { path: PathBuf, what: String },
    /// Something that the client needs is not here, in words.
    #[error("{what}")]
    Missing { what: String },
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

impl UnfitSettings {
    /// For `map_err`: which file an editor refused.
    pub(crate) fn in_file(path: &Path) -> impl Fn(edit::EditRefused) -> Self + use<> {
        let path = path.to_path_buf();
        move |edit::EditRefused { line, why }| Self::Malformed { path: path.clone(), line, why }
    }
}

/// Where ibeam's own settings are, and the files that some clients are wired with.
pub(crate) fn own_folder(machine: &UserMachine) -> PathBuf {
    env::folder(machine)
}

/// The client of this name.
pub(crate) fn named(name: &str) -> Option<&'static ClientSpec> {
    let name = name.to_ascii_lowercase();
    CLIENTS.iter().copied().find(|client| client.name == name || client.also.contains(&&*name))
}

#[cfg(test)]
#[path = "docs_tests.rs"]
mod docs_tests;
