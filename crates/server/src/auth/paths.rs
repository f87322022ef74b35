//! Paths on each platform: ibeam's own directory, and the files of other programs that hold
//! credentials for Cursor. Nothing is read here.

use std::path::{Path, PathBuf};

use crate::config::Env;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    /// Other Unixes follow Linux.
    pub const HERE: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}

/// The directories of one user, by their environment.
#[derive(Clone, Debug)]
pub struct CredentialPaths {
    system: System,
    home: PathBuf,
    /// `$XDG_CONFIG_HOME`, `%APPDATA%` on Windows.
    settings: PathBuf,
    /// `$XDG_DATA_HOME`, on every platform, because OpenCode uses it everywhere.
    data: PathBuf,
    config: PathBuf,
}

impl CredentialPaths {
    #[must_use]
    pub fn of(env: &Env, home: &Path) -> Self {
        Self::on(System::HERE, env, home)
    }

    pub(super) fn on(system: System, env: &Env, home: &Path) -> Self {
        let named = |name: &str, default: &[&str]| {
            // The standard says that other paths are to be ignored.
            let path = env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
            path.unwrap_or_else(|| join(home, default))
        };
        let settings = match system {
            System::Linux | System::MacOs => named("XDG_CONFIG_HOME", &[".config"]),
            System::Windows => named("APPDATA", &["AppData", "Roaming"]),
        };
        Self {
            system,
            home: home.to_path_buf(),
            config: settings.join("ibeam"),
            settings,
            data: named("XDG_DATA_HOME", &[".local", "share"]),
        }
    }

    /// ibeam's own directory, where `config.toml` is, too.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The Cursor CLI's `auth.json`, and where programs around it have put theirs.
    pub(super) fn cli_files(&self) -> Vec<PathBuf> {
        let settings = self.settings.join("cursor").join("auth.json");
        let dot_config = join(&self.home, &[".config", "cursor", "auth.json"]);
        let dot_cursor = join(&self.home, &[".cursor", "auth.json"]);
        let mut files = match self.system {
            System::Linux => vec![settings, dot_config, dot_cursor],
            System::MacOs => vec![dot_cursor, settings, dot_config],
            System::Windows => vec![self.settings.join("Cursor").join("auth.json"), dot_cursor],
        };
        files.dedup();
        files
    }

    /// Whether there is a keychain to ask.
    pub(super) fn has_keychain(&self) -> bool {
        self.system == System::MacOs
    }

    /// The IDE's database.
    pub(super) fn ide_database(&self) -> PathBuf {
        let base = match self.system {
            System::Linux | System::Windows => self.settings.clone(),
            System::MacOs => join(&self.home, &["Library", "Application Support"]),
        };
        join(&base, &["Cursor", "User", "globalStorage", "state.vscdb"])
    }

    /// A directory of files, one for each provider.
    pub(super) fn legacy_dir(&self) -> PathBuf {
        join(&self.home, &[".cursor", "credentials"])
    }

    pub(super) fn open_code_file(&self) -> PathBuf {
        join(&self.data, &["opencode", "auth.json"])
    }
}

fn join(base: &Path, names: &[&str]) -> PathBuf {
    names.iter().fold(base.to_path_buf(), |path, name| path.join(name))
}
