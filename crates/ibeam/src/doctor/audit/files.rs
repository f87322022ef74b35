//! Every file and folder that ibeam reads or writes, whether it is there or would be made.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};

#[cfg(unix)]
use super::modes::{judge, ways};
use super::{AuditFindings, AuditProblem, AuditSubject};
use crate::{instance, telemetry::older};
use ibeam_server::{
    auth::{Consents, CredentialFile, LocalUser},
    config::{self, Backend, CLI_VERSIONS, Config, Listen},
    keys::KeyFile,
    mcp::config::Approvals,
    store::file::all_files,
};

/// A folder of ours that holds more than this is listed no further.
const ENTRIES: usize = 256;

/// One file or folder.
#[derive(Debug, Serialize)]
pub struct FileLine {
    #[serde(serialize_with = "readable")]
    pub path: PathBuf,
    pub what: &'static str,
    /// What ibeam does with it.
    pub purpose: FilePurpose,
    pub there: bool,
    /// `0600`; none where there are no modes.
    pub mode: Option<String>,
    /// `you`, `root`, or `uid 1001`.
    pub owner: Option<String>,
    /// Of another program: whether the user lets ibeam read it.
    pub consent: Option<bool>,
    pub problem: Option<AuditProblem>,
}

/// A path that is not valid Unicode is shown as well as possible instead of not at all.
fn readable<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FilePurpose {
    Read,
    Write,
}

/// The access that other users may have to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModeRule {
    /// No access; and a link in its place is not followed.
    Own,
    /// No access.
    Secret,
    /// A group may read it, as servers' keys are shared.
    Shared,
    /// No changes.
    Safe,
    /// It is another program's; with the user's consent we read its secret.
    Foreign { consent: bool },
    /// Any access, because nothing depends on it.
    Any,
}

/// What is looked for.
struct AuditedFile {
    path: PathBuf,
    what: &'static str,
    purpose: FilePurpose,
    rule: ModeRule,
}

/// Looks at all of them.
pub(super) fn look(subject: &AuditSubject<'_>, found: &mut AuditFindings) -> Vec<FileLine> {
    let mut items = AuditedFiles::default();
    items.settings(subject.config_file);
    items.listener(subject.config);
    items.kept(subject.config);
    items.instances();
    items.given(subject.config);
    if let Some(here) = subject.here {
        items.own_credentials(here, found);
        items.foreign(here);
        items.read(
            here.home().join(CLI_VERSIONS),
            "versions of Cursor's command line",
            ModeRule::Any,
        );
    }
    let own = |item: &AuditedFile| !matches!(item.rule, ModeRule::Foreign { .. } | ModeRule::Any);
    let folders: BTreeSet<PathBuf> = items
        .0
        .iter()
        .filter(|item| own(item))
        .filter_map(|item| item.path.parent().map(Path::to_path_buf))
        .collect();
    let known: BTreeSet<PathBuf> = items.0.iter().map(|item| item.path.clone()).collect();
    let mut lines: Vec<FileLine> =
        items.0.into_iter().filter_map(|item| line(item, found)).collect();
    lines.extend(ways(&folders, &known, found));
    lines
}

#[derive(Default)]
struct AuditedFiles(Vec<AuditedFile>);

impl AuditedFiles {
    fn add(
        &mut self,
        path: impl Into<PathBuf>,
        what: &'static str,
        purpose: FilePurpose,
        rule: ModeRule,
    ) {
        let path = path.into();
        if !self.0.iter().any(|item| item.path == path) {
            self.0.push(AuditedFile { path, what, purpose, rule });
        }
    }

    fn read(&mut self, path: impl Into<PathBuf>, what: &'static str, rule: ModeRule) {
        self.add(path, what, FilePurpose::Read, rule);
    }

    fn write(&mut self, path: impl Into<PathBuf>, what: &'static str, rule: ModeRule) {
        self.add(path, what, FilePurpose::Write, rule);
    }

    fn folder_of(&mut self, path: &Path, what: &'static str) {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            self.write(folder, what, ModeRule::Safe);
        }
    }

    fn settings(&mut self, file: Option<&Path>) {
        let Some(file) = file else { return };
        // A user who can write it can send our token elsewhere.
        let rule = if config::holds_secret(file) { ModeRule::Secret } else { ModeRule::Safe };
        self.read(file, "settings", rule);
    }

    fn own_credentials(&mut self, here: &LocalUser, found: &mut AuditFindings) {
        self.write(here.config_dir(), "ibeam's folder", ModeRule::Safe);
        let file = here.file();
        if let Some(folder) = file.path().parent() {
            self.write(folder, "sign-ins", ModeRule::Secret);
        }
        let profiles = CredentialFile::profiles(here.config_dir()).unwrap_or_default();
        let files = profiles.iter().map(|profile| CredentialFile::at(here.config_dir(), profile));
        for file in files.chain([file.clone()]) {
            self.write(file.path(), "sign-in", ModeRule::Own);
            self.write(file.lock_path(), "sign-in lock", ModeRule::Own);
        }
        for path in file.path().parent().map(entries).unwrap_or_default() {
            self.write(path, "leftover", ModeRule::Own);
        }
        self.write(Consents::none(here.config_dir()).path(), "consents", ModeRule::Own);
        let approvals = Approvals::none(here.config_dir());
        self.write(approvals.path(), "approved MCP files", ModeRule::Own);
        if let Err(error) = here.consents() {
            found.file_error(&error.into());
        }
    }

    fn foreign(&mut self, here: &LocalUser) {
        let consents = here.consents().ok();
        for (kind, path) in here.foreign_files() {
            let consent = consents.as_ref().is_some_and(|consents| consents.has(kind));
            self.read(path, kind.owner(), ModeRule::Foreign { consent });
        }
    }

    fn listener(&mut self, config: &Config) {
        if let Some(path) = &config.access.keys_file {
            self.folder_of(path, "keys folder");
            self.write(path, "key hashes", ModeRule::Secret);
            self.write(KeyFile::at(path).lock_path(), "keys lock", ModeRule::Secret);
        }
        for place in config.places() {
            if let Listen::Unix(path) = place {
                self.folder_of(path, "socket folder");
                self.write(path, "socket", ModeRule::Secret);
            }
        }
        if let Some(tls) = &config.server.tls {
            self.read(&tls.cert, "certificate", ModeRule::Safe);
            self.read(&tls.key, "certificate key", ModeRule::Shared);
        }
    }

    fn kept(&mut self, config: &Config) {
        if let Some(path) = config.store.file().filter(|_| config.sessions.reuse) {
            self.folder_of(path, "store folder");
            let [store, companions @ ..] = all_files(path);
            self.write(store, "conversation store", ModeRule::Secret);
            for path in companions {
                self.write(path, "part of the store", ModeRule::Secret);
            }
        }
        if let Some(folder) = &config.record.dir {
            self.write(folder, "recordings of turns", ModeRule::Secret);
        }
        let runs = config::runs_dir();
        if let Some(folder) = runs.filter(|folder| config.uses_cursor_agent() || folder.exists()) {
            self.write(folder, "cursor-agent folders", ModeRule::Secret);
        }
        if let Some(folder) = config::cache_dir().filter(|_| config.backend == Backend::Cursor) {
            self.write(&folder, "cache", ModeRule::Safe);
            for path in entries(&folder) {
                self.write(path, "model list", ModeRule::Safe);
            }
        }
    }

    /// What the gateways of this user know each other by.
    fn instances(&mut self) {
        if let Some(folder) = instance::folder() {
            self.write(&folder, "running gateways", ModeRule::Secret);
            for path in entries(&folder) {
                self.write(path, "running gateway", ModeRule::Own);
            }
        }
        if let Some(log) = instance::log_file() {
            if older(&log).exists() {
                self.write(older(&log), "previous log", ModeRule::Secret);
            }
            self.write(log, "log of the background gateway", ModeRule::Secret);
        }
    }

    fn given(&mut self, config: &Config) {
        if let Some(path) = &config.upstream.ca_file {
            self.read(path, "certificate authorities", ModeRule::Safe);
        }
        if let Backend::Sim { scenario: Some(path) } = &config.backend {
            self.read(path, "scenario", ModeRule::Any);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.take(ENTRIES).filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// What is to be said of one. Of other programs' files only those that are there, and of
/// the parts of the store, too.
fn line(item: AuditedFile, found: &mut AuditFindings) -> Option<FileLine> {
    let AuditedFile { path, what, purpose, rule } = item;
    let consent = match rule {
        ModeRule::Foreign { consent } => Some(consent),
        _ => None,
    };
    let mut line = FileLine {
        path,
        what,
        purpose,
        there: false,
        mode: None,
        owner: None,
        consent,
        problem: None,
    };
    match fs::symlink_metadata(&line.path) {
        Ok(meta) => {
            line.there = true;
            judge(&mut line, rule, &meta, found);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let passing = consent.is_some() || rule == ModeRule::Any || what == "part of the store";
            return (!passing).then_some(line);
        }
        Err(error) => {
            let fault = AuditProblem {
                what: format!("cannot inspect {}: {error}", line.path.display()),
                fix: None,
            };
            line.problem = Some(fault);
        }
    }
    if let Some(AuditProblem { what, fix }) = line.problem.clone() {
        found.problem(what, fix);
    }
    Some(line)
}

/// Other systems have rules of another kind, which protect a user's own folders.
#[cfg(not(unix))]
fn judge(_: &mut FileLine, _: ModeRule, _: &fs::Metadata, _: &mut AuditFindings) {}

#[cfg(not(unix))]
fn ways(_: &BTreeSet<PathBuf>, _: &BTreeSet<PathBuf>, _: &mut AuditFindings) -> Vec<FileLine> {
    Vec::new()
}
