//! The machine as a client's plan sees it: folders, variables, the text of files. Plans
//! read through this and write nothing, so that tests can make one up.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::UnfitSettings;
pub(crate) use ibeam_server::auth::System;
use ibeam_server::config::{Env, environment};

/// No configuration that people write is longer.
pub(super) const LONGEST: u64 = 4 << 20;

/// What is at a path.
#[derive(Clone, Debug)]
pub(crate) enum FileContent {
    Bytes(Vec<u8>),
    /// More than is read.
    Long,
    /// A folder, a pipe, a device.
    NoFile,
}

impl FileContent {
    pub(super) fn text(self, path: &Path) -> Result<String, UnfitSettings> {
        match self {
            Self::Bytes(bytes) => String::from_utf8(bytes)
                .map_err(|_| unreadable(path, "it is not UTF-8 text".to_owned())),
            Self::Long => Err(unreadable(path, format!("it is longer than {} MiB", LONGEST >> 20))),
            Self::NoFile => Err(unreadable(path, "it is not a regular file".to_owned())),
        }
    }
}

fn unreadable(path: &Path, why: String) -> UnfitSettings {
    UnfitSettings::Unreadable { path: path.to_path_buf(), why }
}

trait FileView: Send + Sync {
    fn read(&self, path: &Path) -> io::Result<Option<FileContent>>;
    fn is_there(&self, path: &Path) -> bool;
    fn is_program(&self, path: &Path) -> bool;
}

pub(crate) struct UserMachine {
    system: System,
    home: PathBuf,
    env: Env,
    files: Arc<dyn FileView>,
}

/// The environment may hold secrets.
impl fmt::Debug for UserMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("home", &self.home).finish_non_exhaustive()
    }
}

impl UserMachine {
    /// This one. `None`: the user has no home.
    pub(crate) fn here() -> Option<Self> {
        let home = etcetera::home_dir().ok()?;
        Some(Self::of(System::HERE, home, environment()))
    }

    /// With the files of this one, and another user's home and variables.
    pub(crate) fn of(system: System, home: PathBuf, env: Env) -> Self {
        Self { system, home, env, files: Arc::new(Disk) }
    }

    /// One that is not there. The programs are paths, too.
    #[cfg(test)]
    pub(crate) fn made_up(
        system: System,
        env: &[(&str, &str)],
        files: &[(&str, &str)],
        programs: &[&str],
    ) -> Self {
        let own = |text: &&str| PathBuf::from(*text);
        Self {
            system,
            home: PathBuf::from("/home/me"),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            files: Arc::new(MadeUp {
                files: files.iter().map(|(at, text)| (own(at), (*text).into())).collect(),
                programs: programs.iter().map(own).collect(),
            }),
        }
    }

    /// The same one, with some files as they would be. `None`: not there.
    pub(super) fn with(&self, texts: BTreeMap<PathBuf, Option<String>>) -> Self {
        let files = Arc::new(OverlaidFiles { below: Arc::clone(&self.files), texts });
        Self { system: self.system, home: self.home.clone(), env: self.env.clone(), files }
    }

    pub(crate) fn system(&self) -> System {
        self.system
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// A variable that is set to something.
    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// `$XDG_CONFIG_HOME`, else `~/.config`: what most clients follow on every system.
    pub(crate) fn config_home(&self) -> PathBuf {
        self.folder("XDG_CONFIG_HOME", &[".config"])
    }

    /// `$XDG_DATA_HOME`, else `~/.local/share`.
    pub(crate) fn data_home(&self) -> PathBuf {
        self.folder("XDG_DATA_HOME", &[".local", "share"])
    }

    /// Where desktop programs keep their settings on this system: `~/.config`,
    /// `~/Library/Application Support`, `%APPDATA%`.
    pub(crate) fn app_config(&self) -> PathBuf {
        match self.system {
            System::Linux => self.config_home(),
            System::MacOs => self.home.join("Library").join("Application Support"),
            System::Windows => self.folder("APPDATA", &["AppData", "Roaming"]),
        }
    }

    /// The folder that a variable names, else one below the home.
    pub(crate) fn folder(&self, variable: &str, default: &[&str]) -> PathBuf {
        let named = self.env(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| default.iter().fold(self.home.clone(), |at, name| at.join(name)))
    }

    /// A path as a user writes it: `~` stands for the home.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => PathBuf::from(text),
        }
    }

    pub(crate) fn is_there(&self, path: &Path) -> bool {
        self.files.is_there(path)
    }

    /// The text of a file; `None` if there is no file. A byte order mark is part of it.
    ///
    /// # Errors
    /// It cannot be read, is too long, or is not UTF-8.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<String>, UnfitSettings> {
        match self.files.read(path) {
            Ok(content) => content.map(|content| content.text(path)).transpose(),
            Err(error) => Err(unreadable(path, error.to_string())),
        }
    }

    /// Where a program of this name is in `PATH`.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        let endings: &[&str] = match self.system {
            System::Windows => &[".exe", ".cmd", ".bat"],
            System::Linux | System::MacOs => &[""],
        };
        std::env::split_paths(self.env("PATH")?)
            .filter(|folder| folder.is_absolute())
            .flat_map(|folder| endings.iter().map(move |end| folder.join(format!("{name}{end}"))))
            .find(|path| self.files.is_program(path))
    }
}

/// Files that are seen otherwise than they are.
struct OverlaidFiles {
    below: Arc<dyn FileView>,
    texts: BTreeMap<PathBuf, Option<String>>,
}

impl FileView for OverlaidFiles {
    fn read(&self, path: &Path) -> io::Result<Option<FileContent>> {
        match self.texts.get(path) {
            Some(text) => Ok(text.clone().map(|text| FileContent::Bytes(text.into_bytes()))),
            None => self.below.read(path),
        }
    }

    fn is_there(&self, path: &Path) -> bool {
        self.texts.get(path).map_or_else(|| self.below.is_there(path), Option::is_some)
    }

    fn is_program(&self, path: &Path) -> bool {
        self.below.is_program(path)
    }
}

struct Disk;

impl FileView for Disk {
    fn read(&self, path: &Path) -> io::Result<Option<FileContent>> {
        read(path)
    }

    fn is_there(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    fn is_program(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && may_run(&meta))
    }
}

/// The bytes of a file as far as they are a configuration; `None` if there is none.
pub(super) fn read(path: &Path) -> io::Result<Option<FileContent>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        // Also where the link leads nowhere: writing makes the file it leads to.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !meta.is_file() {
        return Ok(Some(FileContent::NoFile));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(Some(if bytes.len() as u64 > LONGEST {
        FileContent::Long
    } else {
        FileContent::Bytes(bytes)
    }))
}

#[cfg(unix)]
fn may_run(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn may_run(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
struct MadeUp {
    files: BTreeMap<PathBuf, Vec<u8>>,
    programs: std::collections::BTreeSet<PathBuf>,
}

#[cfg(test)]
impl FileView for MadeUp {
    fn read(&self, path: &Path) -> io::Result<Option<FileContent>> {
        Ok(self.files.get(path).cloned().map(FileContent::Bytes))
    }

    fn is_there(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.starts_with(path))
    }

    fn is_program(&self, path: &Path) -> bool {
        self.programs.contains(path)
    }
}
