//! The files of other programs that may name MCP servers.

use std::{
    fs,
    io::{
        ErrorKind::{NotADirectory, NotFound},
        Read as _,
    },
    path::{Path, PathBuf},
};

use ibeam_core::{jsonc, model::ids};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{SearchPaths, approvals::Approvals, entry::ConfigStyle};
use crate::{
    auth,
    files::{self, FileError},
};

/// Larger files hold no settings. Claude Code keeps more than settings in its file.
const FILE_BYTES: u64 = 8 << 20;

/// Files below a project folder, in the order in which they count.
const PROJECT_FILES: [(&str, ConfigStyle); 4] = [
    ("opencode.json", ConfigStyle::OpenCode),
    ("opencode.jsonc", ConfigStyle::OpenCode),
    (".cursor/mcp.json", ConfigStyle::Cursor),
    (".mcp.json", ConfigStyle::Claude),
];

/// One file, as it was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) style: ConfigStyle,
    /// Of all its bytes.
    pub(super) hash: String,
    pub(super) entries: Vec<ServerEntry>,
}

#[derive(Debug)]
pub(super) struct ServerEntry {
    /// `mcpServers.files`, for messages.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) value: Value,
}

impl ConfigFile {
    /// None: the file does not exist.
    ///
    /// # Errors
    /// It is there, and which servers it has is unknown.
    pub(super) fn read(path: &Path, style: ConfigStyle) -> Result<Option<Self>, String> {
        // Opening a link to a terminal or a pipe would block.
        let file = match fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err("is not a regular file".to_owned()),
            _ => fs::File::open(path),
        };
        let file = match file {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
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
            format!("is not valid JSON at line {}, column {}", error.line(), error.column())
        };
        let document: Value = jsonc::parse(&text).map_err(syntax)?;
        let mut entries = Vec::new();
        for section in style.sections() {
            let Some(servers) = document.get(*section) else { continue };
            let servers =
                servers.as_object().ok_or_else(|| format!("{section} is not an object"))?;
            entries.extend(servers.iter().map(|(name, value)| ServerEntry {
                place: format!("{section}.{}", name.escape_debug()),
                name: name.clone(),
                value: value.clone(),
            }));
        }
        let hash = ids::hex(&Sha256::digest(text.as_bytes()));
        Ok(Some(Self { path: path.to_path_buf(), style, hash, entries }))
    }
}

impl SearchPaths {
    /// ibeam's own folder. None: the user has no home.
    #[must_use]
    pub fn config_dir(&self) -> Option<PathBuf> {
        let home = self.home.as_deref()?;
        Some(auth::CredentialPaths::of(&self.env, home).config().to_path_buf())
    }

    /// Files that the user alone writes.
    pub(super) fn user_files(&self) -> Vec<(PathBuf, ConfigStyle)> {
        let Some(home) = &self.home else { return Vec::new() };
        let named = self.env.get("XDG_CONFIG_HOME").map(PathBuf::from);
        // The standard says that other paths are to be ignored; one would be the project's.
        let config =
            named.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".config"));
        vec![
            (config.join("opencode/opencode.json"), ConfigStyle::OpenCode),
            (config.join("opencode/opencode.jsonc"), ConfigStyle::OpenCode),
            (home.join(".cursor/mcp.json"), ConfigStyle::Cursor),
            (home.join(".claude.json"), ConfigStyle::Claude),
        ]
    }

    /// Files of the current folder, which may come from anywhere.
    pub(super) fn project_files(&self) -> Vec<(PathBuf, ConfigStyle)> {
        let folder = canonical(&self.folder);
        let user: Vec<PathBuf> = self.user_files().iter().map(|(p, _)| canonical(p)).collect();
        let files = PROJECT_FILES.map(|(name, style)| (folder.join(name), style));
        // In the home directory `.cursor/mcp.json` is the user's.
        files.into_iter().filter(|(path, _)| !user.contains(&canonical(path))).collect()
    }
}

/// The folder with links resolved, so that one folder has one name. The file itself is not:
/// programs with relative paths depend on the folder in which it is found.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// A file of a project folder, with what it would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    pub path: PathBuf,
    pub approved: bool,
    /// Names, and what each entry says.
    pub servers: Vec<(String, String)>,
    hash: String,
}

impl ProjectFile {
    pub(super) fn of(source: &ConfigFile, approvals: &Approvals) -> Self {
        let servers = source.entries.iter().map(|entry| (entry.name.clone(), shown(&entry.value)));
        Self {
            path: source.path.clone(),
            approved: approvals.has(&source.path, &source.hash),
            servers: servers.collect(),
            hash: source.hash.clone(),
        }
    }

    /// Reads one file that was named by the user. None: it does not exist.
    ///
    /// # Errors
    /// It is not a file that ibeam would look for, or cannot be read.
    pub fn named(path: &Path, approvals: &Approvals) -> Result<Option<Self>, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let fits = |(name, style): (&str, ConfigStyle)| {
            let depth = Path::new(name).components().count();
            let folder = path.ancestors().nth(depth)?;
            path.ends_with(name).then(|| (canonical(folder).join(name), style))
        };
        let Some((path, style)) = PROJECT_FILES.into_iter().find_map(fits) else {
            let names = PROJECT_FILES.map(|(name, _)| name).join("`, `");
            return Err(format!("must be one of `{names}`"));
        };
        Ok(ConfigFile::read(&path, style)?.map(|source| Self::of(&source, approvals)))
    }

    /// Those of the current folder that are there.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn all(places: &SearchPaths, approvals: &Approvals) -> Result<Vec<Self>, String> {
        let mut files = Vec::new();
        for (path, style) in places.project_files() {
            let source = ConfigFile::read(&path, style);
            let source = source.map_err(|why| format!("{} {why}", path.display()))?;
            files.extend(source.map(|source| Self::of(&source, approvals)));
        }
        Ok(files)
    }

    /// Approves what was read, which is not what the file says by now if it has changed.
    ///
    /// # Errors
    /// It could not be written, and is not approved.
    pub fn approve(&self, approvals: &mut Approvals) -> Result<(), FileError> {
        approvals.approve(&self.path, &self.hash)
    }

    /// The command that approves it.
    #[must_use]
    pub fn command(&self) -> String {
        format!("ibeam mcp approve {}", files::quoted(&self.path))
    }
}

/// The whole entry, as it is written, so that nothing of it can hide: neither behind a
/// variable nor behind a character that a terminal obeys or does not show.
fn shown(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '"' | '\\' | '\'' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}
