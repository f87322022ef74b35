//! Who answers, and how Cursor's CLI is run where it does.

use std::path::{Path, PathBuf};

use ibeam_core::backend::{self, BackendKind};

use super::{Key, Resolver, parse};
use crate::config::CursorAgent;

impl Resolver<'_> {
    pub(super) fn named_backend(&mut self) -> Option<BackendKind> {
        self.value(Key::Backend, |text| match (text, BackendKind::from_name(text)) {
            ("auto", _) => Ok(None),
            (_, Some(kind)) => Ok(Some(kind)),
            (_, None) => Err(format!("must be {}", backend::CHOICES)),
        })
        .flatten()
    }

    pub(super) fn cursor_agent(&mut self) -> CursorAgent {
        CursorAgent {
            bin: self.path(Key::AgentBin),
            workspace: self.folder(Key::AgentWorkspace),
            workspaces: self.folders(Key::AgentWorkspaces),
            own_tools: self.switch(Key::AgentOwnTools),
            children: self.count(Key::AgentChildren),
            warm: self.value(Key::AgentWarm, parse::count).unwrap_or_default(),
            idle: self.duration(Key::AgentIdle),
            auth_timeout: self.duration(Key::AgentAuthTimeout),
        }
    }

    fn folder(&mut self, key: Key) -> Option<PathBuf> {
        self.value(key, |text| match text {
            "" => Ok(None),
            path => folder(path).map(Some),
        })
        .flatten()
    }

    fn folders(&mut self, key: Key) -> Vec<PathBuf> {
        let all = |text: &str| parse::list(text).iter().map(|path| folder(path)).collect();
        self.value(key, all).unwrap_or_default()
    }
}

/// Without links in it, so that what lies below it can be told from what does not.
fn folder(path: &str) -> Result<PathBuf, String> {
    let found = Path::new(path).canonicalize().ok().filter(|path| path.is_dir());
    found.ok_or_else(|| format!("is not a folder: `{path}`"))
}
