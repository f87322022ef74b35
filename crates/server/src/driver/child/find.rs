//! Finds Cursor's CLI on this machine.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    peer::cli::listing,
};
use tokio::sync::OnceCell;
use tracing::{debug, warn};

use super::{
    capture::{Asking, capture},
    trust::check_program,
};
use crate::{config::Simulator, tasks::Tasks};

/// The time limit for printing a version. A cold start reads many files.
const VERSION_TIME: Duration = Duration::from_secs(10);

/// The program to run, and the arguments that come before all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    pub leading: Vec<OsString>,
    /// Instructions for the simulated program, before those of the environment.
    pub words: Vec<OsString>,
}

impl Program {
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), leading: Vec::new(), words: Vec::new() }
    }

    /// The simulator that is part of this program. It plays the scenario, if there is one.
    #[must_use]
    pub fn simulated(scenario: Option<&Path>, simulator: &Simulator) -> Self {
        let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ibeam"));
        let mut words = Vec::new();
        if let Some(file) = scenario {
            // An absolute path, because it works in another folder.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
            let mut word = OsString::from("scenario=");
            word.push(file);
            words.push(word);
        }
        words.extend(simulator.native_tools.then(|| OsString::from("own-tools")));
        words.extend(simulator.switches.iter().map(|switch| format!("set:{switch}").into()));
        Self { path, leading: vec![OsString::from("fake-cursor-agent")], words }
    }

    /// Whether this is the simulator.
    pub(super) fn is_simulated(&self) -> bool {
        !self.leading.is_empty()
    }
}

/// Searches once and remembers the result. A program that was missing is searched again: it may
/// have been installed meanwhile.
#[derive(Debug)]
pub(super) struct Finder {
    /// The setting, or the simulator.
    named: Option<Program>,
    found: OnceCell<Program>,
    /// The folder for the folders of children.
    folders: Option<PathBuf>,
    tasks: Tasks,
}

impl Finder {
    pub(super) fn new(named: Option<Program>, folders: Option<PathBuf>, tasks: &Tasks) -> Self {
        Self { named, found: OnceCell::new(), folders, tasks: tasks.clone() }
    }

    /// # Errors
    /// It was not found; the error suggests a fix.
    pub(super) async fn find(&self) -> Result<&Program, TurnError> {
        self.found.get_or_try_init(|| self.search()).await
    }

    async fn search(&self) -> Result<Program, TurnError> {
        if let Some(named) = &self.named {
            if !is_program(&named.path) {
                return Err(wrong(&named.path, "which is not an executable program"));
            }
            // The simulator needs no check.
            if named.is_simulated() {
                return Ok(named.clone());
            }
            if let Err(why) = check_program(&named.path) {
                return Err(wrong(&named.path, &format!("which ibeam refuses to start: {why}")));
            }
            if !self.is_cursors(named).await? {
                return Err(wrong(&named.path, "which is not Cursor's: see its `--version`"));
            }
            return Ok(named.clone());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = etcetera::home_dir().ok();
        self.search_in(candidates(&path, home.as_deref())).await
    }

    async fn search_in(&self, candidates: Vec<PathBuf>) -> Result<Program, TurnError> {
        let mut others = Vec::new();
        for path in candidates {
            let program = Program::at(path);
            if !is_program(&program.path) {
                continue;
            }
            // Checked before the first start, even for the version.
            if let Err(why) = check_program(&program.path) {
                warn!(path = %program.path.display(), "refusing to start a program: {why}");
                others.push((program.path, why));
                continue;
            }
            let why = match self.is_cursors(&program).await {
                Ok(true) => {
                    debug!(path = %program.path.display(), "found cursor-agent");
                    return Ok(program);
                }
                Ok(false) => "not Cursor's".to_owned(),
                Err(error) => error.to_string(),
            };
            debug!(path = %program.path.display(), "skipped: {why}");
            others.push((program.path, why));
        }
        Err(missing(&others))
    }

    /// Whether it prints a version as Cursor's program does.
    async fn is_cursors(&self, program: &Program) -> Result<bool, TurnError> {
        let asking = Asking { program, folders: self.folders.as_deref(), tasks: &self.tasks };
        // At this point it may be any program of that name.
        let said = capture(asking.probing(), &["--version"], VERSION_TIME).await?;
        Ok(said.code == Some(0) && listing::version(&said.stdout).is_some())
    }
}

/// The first candidate. Nothing is run.
#[must_use]
pub fn likely(named: Option<&Path>) -> Option<PathBuf> {
    let usable = |path: &PathBuf| is_program(path) && check_program(path).is_ok();
    if let Some(named) = named {
        return Some(named.to_path_buf()).filter(usable);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = etcetera::home_dir().ok();
    candidates(&path, home.as_deref()).into_iter().find(usable)
}

/// Candidates, the likeliest first. Other programs are also called `agent`.
fn candidates(path: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
    let names: &[&str] = match cfg!(windows) {
        true => &["cursor-agent.cmd", "cursor-agent.exe", "agent.cmd", "agent.exe"],
        false => &["cursor-agent", "agent"],
    };
    let mut found = Vec::new();
    let folders: Vec<PathBuf> = std::env::split_paths(path).filter(|p| p.is_absolute()).collect();
    for name in names {
        found.extend(folders.iter().map(|folder| folder.join(name)));
    }
    if let Some(home) = home {
        let local = home.join(".local/bin");
        found.extend([local.join("cursor-agent"), local.join("agent")]);
        found.push(home.join(".cursor-agent/cursor-agent"));
    }
    if let Some(local) = std::env::var_os("LOCALAPPDATA").filter(|_| cfg!(windows)) {
        found.push(Path::new(&local).join("cursor-agent").join("cursor-agent.cmd"));
    }
    if cfg!(unix) {
        found.push(PathBuf::from("/usr/local/bin/cursor-agent"));
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found
}

fn is_program(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        meta.is_file() && meta.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    meta.is_file()
}

/// `others`: programs of the same name that cannot be used.
fn missing(others: &[(PathBuf, String)]) -> TurnError {
    let install = match cfg!(windows) {
        true => "irm 'https://cursor.com/install?win32=true' | iex",
        false => "curl https://cursor.com/install -fsS | bash",
    };
    let mut text = "Cursor's program `cursor-agent` was not found".to_owned();
    for (n, (path, why)) in others.iter().enumerate() {
        text.push_str(if n == 0 { " (not used: " } else { ", " });
        text.push_str(&format!("{}: {why}", path.display()));
    }
    text.push_str(if others.is_empty() { ". " } else { "). " });
    text.push_str(&format!(
        "Install it with `{install}`, or name it with the setting `cursor_agent.bin`."
    ));
    TurnError::new(ErrorCode::Unavailable, text)
}

fn wrong(path: &Path, why: &str) -> TurnError {
    let text = format!("The setting `cursor_agent.bin` names {}, {why}.", path.display());
    TurnError::new(ErrorCode::Unavailable, text)
}

#[cfg(test)]
#[cfg(unix)]
#[path = "find_tests.rs"]
mod tests;
