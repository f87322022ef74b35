//! The folder that a client names as its workspace, in a header.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use http::HeaderValue;
use ibeam_core::error::{ErrorCode, TurnError};

use crate::tasks::Tasks;

pub(super) const HEADER: &str = "x-cursor-workspace";

/// The longest name of a folder that nothing here looks into.
const LONGEST: usize = 1024;

/// Which folders a client may name.
#[derive(Clone, Debug)]
pub enum WorkspaceRule {
    /// These and all below them: the backend works there.
    Folders(Arc<[PathBuf]>),
    /// Any: the model is told the name, and nothing on this machine looks into it.
    Named,
}

/// The folder in the header.
///
/// # Errors
/// The rule forbids it.
pub(super) async fn read(
    asked: HeaderValue,
    rule: WorkspaceRule,
    tasks: &Tasks,
) -> Result<String, TurnError> {
    match rule {
        // A hanging disk must not block other requests.
        WorkspaceRule::Folders(allowed) => {
            let look = move || inside(&asked, &allowed);
            tasks.spawn_blocking(look).await.ok().flatten().ok_or_else(no_workspace)
        }
        WorkspaceRule::Named => named(&asked).ok_or_else(not_absolute),
    }
}

/// The folder, if it is one and may be asked for.
fn inside(asked: &HeaderValue, allowed: &[PathBuf]) -> Option<String> {
    let path = Path::new(asked.to_str().ok()?.trim());
    // Without links in it: they may lead anywhere.
    let path = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
    let inside = allowed.iter().any(|folder| path.starts_with(folder));
    (inside && path.is_dir()).then(|| path.to_str().map(str::to_owned)).flatten()
}

/// The name of a folder, on whatever system the client runs. Nothing here looks into it.
fn named(asked: &HeaderValue) -> Option<String> {
    let path = std::str::from_utf8(asked.as_bytes()).ok()?.trim();
    let mut chars = path.chars();
    let on_drive = chars.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && matches!(chars.next(), Some('/' | '\\'));
    let is_absolute = path.starts_with('/') || path.starts_with(r"\\") || on_drive;
    let is_legal = path.len() <= LONGEST && !path.chars().any(char::is_control);
    (is_absolute && is_legal).then(|| path.to_owned())
}

fn not_absolute() -> TurnError {
    let text = format!("the header `{HEADER}` must be an absolute path of at most {LONGEST} bytes");
    TurnError::new(ErrorCode::InvalidValue, text).param(HEADER)
}

/// The same for every reason, so that a client does not learn which folders exist.
fn no_workspace() -> TurnError {
    let text = format!(
        "the folder in the header `{HEADER}` is not allowed; the setting \
         `cursor_agent.allowed_workspaces` lists the allowed ones"
    );
    TurnError::new(ErrorCode::InvalidValue, text).param(HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_must_be_inside_an_allowed_folder() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().canonicalize().unwrap();
        let (open, shut) = (root.join("open"), root.join("shut"));
        for folder in [open.join("project"), shut.clone(), root.join("open-not")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(open.join("file"), "").unwrap();
        let allowed = vec![open.clone()];
        let of = |path: &str| inside(&HeaderValue::from_str(path).unwrap(), &allowed);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(of(&text(&open)), Some(text(&open)));
        assert_eq!(of(&text(&open.join("project"))), Some(text(&open.join("project"))));
        let dotted = text(&open.join("project/../project/."));
        assert_eq!(of(&dotted), Some(text(&open.join("project"))));
        for wrong in [
            text(&shut),
            text(&root.join("open-not")),
            text(&open.join("../shut")),
            text(&open.join("file")),
            text(&open.join("nowhere")),
            "open".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&wrong), None, "{wrong}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&shut, open.join("link")).unwrap();
            assert_eq!(of(&text(&open.join("link"))), None);
        }
        assert_eq!(inside(&HeaderValue::from_static("/"), &[]), None);
    }

    #[test]
    fn a_workspace_that_is_only_named_must_be_absolute() {
        let of = |path: &str| named(&HeaderValue::from_str(path).unwrap());
        for path in ["/home/me/app", "/home/me/Büro", r"C:\code\app", "c:/code", r"\\host\share"] {
            assert_eq!(of(path).as_deref(), Some(path));
        }
        let long = format!("/{}", "x".repeat(LONGEST));
        for path in ["", "app", "./app", "C:app", "~/app", &long] {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(not_absolute().param.as_deref(), Some(HEADER));
        assert_eq!(no_workspace().param.as_deref(), Some(HEADER));
    }
}
