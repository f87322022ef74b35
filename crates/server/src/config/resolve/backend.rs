//! The backend, and how Cursor's CLI is run for it.

use std::path::{Path, PathBuf};

use ibeam_core::backend::{self, BackendKind};

use super::{Resolver, SettingKey, parse};
use crate::config::CursorAgent;

impl Resolver<'_> {
    pub(super) fn named_backend(&mut self) -> Option<BackendKind> {
        self.value(SettingKey::Backend, |text| match (text, BackendKind::from_name(text)) {
            ("auto", _) => Ok(None),
            (_, Some(kind)) => Ok(Some(kind)),
            (_, None) => Err(format!("must be {}", backend::CHOICES)),
        })
        .flatten()
    }

    pub(super) fn cursor_agent(&mut self) -> CursorAgent {
        CursorAgent {
            bin: self.path(SettingKey::AgentBin),
            workspace: self.folder(SettingKey::AgentWorkspace),
            workspaces: self.folders(SettingKey::AgentWorkspaces),
            own_tools: self.switch(SettingKey::AgentOwnTools),
            children: self.count(SettingKey::AgentChildren),
            warm: self.value(SettingKey::AgentWarm, parse::count).unwrap_or_default(),
            idle: self.duration(SettingKey::AgentIdle),
            auth_timeout: self.duration(SettingKey::AgentAuthTimeout),
        }
    }

    fn folder(&mut self, key: SettingKey) -> Option<PathBuf> {
        self.value(key, |text| match text {
            "" => Ok(None),
            path => folder(path).map(Some),
        })
        .flatten()
    }

    fn folders(&mut self, key: SettingKey) -> Vec<PathBuf> {
        let all = |text: &str| parse::list(text).iter().map(|path| folder(path)).collect();
        self.value(key, all).unwrap_or_default()
    }
}

/// Without links in it, so that a path below it can be recognized.
fn folder(path: &str) -> Result<PathBuf, String> {
    let found = Path::new(path).canonicalize().ok().filter(|path| path.is_dir());
    found.ok_or_else(|| format!("is not a folder: `{path}`"))
}
