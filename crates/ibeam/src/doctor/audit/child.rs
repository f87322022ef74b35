//! Cursor's CLI, where it answers: which program that is, and what it may do.

use serde::Serialize;

use super::AuditFindings;
use ibeam_server::{
    config::{Backend, Config},
    driver::child::{check_program, likely},
};

/// How `cursor-agent` would be run. It is looked for and not started, so that it is not
/// certain that the program is Cursor's.
#[derive(Debug, Serialize)]
pub struct ChildReport {
    /// None: there is none.
    pub program: Option<String>,
    /// Part of ibeam, in place of the real one.
    pub simulated: bool,
    /// It may use its own shell and files.
    pub own_tools: bool,
    /// A folder of the user's that it gets besides its own.
    pub workspace: Option<String>,
    /// Folders that clients may name instead.
    pub workspaces: Vec<String>,
    /// Processes at once.
    pub children: usize,
}

impl AuditFindings {
    /// None: it is not asked. Where nobody said who is to answer, it is if nobody is signed in
    /// here.
    pub(super) fn child(&mut self, config: &Config, signed_in: bool) -> Option<ChildReport> {
        let simulated = matches!(config.backend, Backend::Sim { .. });
        let asked = config.uses_cursor_agent();
        if !asked && (simulated || signed_in || config.named_backend.is_some()) {
            return None;
        }
        let settings = &config.cursor_agent;
        let program = match simulated {
            true => Some("the simulated one, a part of ibeam".to_owned()),
            false => likely(settings.bin.as_deref()).map(|path| path.display().to_string()),
        };
        match (&program, &settings.bin) {
            (Some(_), _) => {}
            (None, _) if !asked => return None,
            (None, Some(bin)) => {
                let why = check_program(bin).err().filter(|_| bin.exists());
                let why = why.unwrap_or_else(|| format!("{} is not a program", bin.display()));
                self.problem(format!("`cursor_agent.bin` cannot be used: {why}"), None);
            }
            (None, None) => self.problem(
                "`cursor-agent` was not found",
                Some("curl https://cursor.com/install -fsS | bash".to_owned()),
            ),
        }
        if settings.own_tools && !simulated {
            self.note(
                "`cursor-agent` may run commands and change files by itself \
                 (`cursor_agent.own_tools`)",
            );
        }
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        Some(ChildReport {
            program,
            simulated,
            own_tools: settings.own_tools,
            workspace: settings.workspace.as_ref().map(shown),
            workspaces: settings.workspaces.iter().map(shown).collect(),
            children: settings.children,
        })
    }
}
