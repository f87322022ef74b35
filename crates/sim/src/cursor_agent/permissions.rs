//! `<workspace>/.cursor/cli.json`: what is allowed and what is denied (§9.2). Deny takes
//! precedence.

use std::path::Path;

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CliPermissions {
    allow: Vec<String>,
    deny: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CliFile {
    permissions: CliPermissions,
}

impl CliPermissions {
    /// # Errors
    /// The file exists and is not valid.
    pub(super) fn read(workspace: &Path) -> Result<Self, String> {
        let path = workspace.join(".cursor").join("cli.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(Self::default()) };
        let file: CliFile =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(file.permissions)
    }

    pub(super) fn denies(&self, class: &str, object: &str) -> bool {
        self.deny.iter().any(|rule| covers(rule, class, object))
    }

    pub(super) fn allows(&self, class: &str, object: &str) -> bool {
        self.allow.iter().any(|rule| covers(rule, class, object))
    }
}

/// Whether a rule such as `Shell(git)` or `Read(src/**)` covers this.
fn covers(rule: &str, class: &str, object: &str) -> bool {
    let Some((name, rest)) = rule.split_once('(') else { return rule == class };
    let Some(pattern) = rest.strip_suffix(')').filter(|_| name == class) else { return false };
    // A shell rule names the program; what follows is its arguments.
    let program = object.split_whitespace().next().unwrap_or_default();
    matches(pattern, object) || (class == "Shell" && matches(pattern, program))
}

/// `*` stands for any text, also an empty one.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    // Without a star, the whole text must match; with one, its end.
    last.map_or(rest.is_empty(), |end| end.is_empty() || rest.is_empty() || text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{CliPermissions, covers};

    #[test]
    fn rules_match_programs_and_paths() {
        assert!(covers("Shell(git)", "Shell", "git push"));
        assert!(covers("Shell(*)", "Shell", "rm -rf /"));
        assert!(covers("Shell(**)", "Shell", "ls"));
        assert!(covers("Read(src/**)", "Read", "src/a/b.rs"));
        assert!(covers("Read(*.env)", "Read", "x/.env"));
        assert!(covers("Mcp(ibeam:*)", "Mcp", "ibeam:Read"));
        assert!(!covers("Shell(git)", "Shell", "gitk"));
        assert!(!covers("Read(src/**)", "Write", "src/a"));
        assert!(!covers("Read(src/**)", "Read", "lib/a"));
        assert!(!covers("Read(*.env)", "Read", "x.environment"));
    }

    #[test]
    fn allow_and_deny_are_both_read() {
        let text = r#"{"allow":["Shell(ls)"],"deny":["Shell(rm)"]}"#;
        let permissions: CliPermissions = serde_json::from_str(text).unwrap();
        assert!(permissions.allows("Shell", "ls -l"));
        assert!(permissions.denies("Shell", "rm x"));
        assert!(!permissions.denies("Shell", "ls"));
    }
}
