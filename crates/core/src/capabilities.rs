//! What each backend can do of what not every backend can, in one table. Refusals come from it,
//! and so does the table in `docs/backends.md`.

use std::fmt::Write as _;

/// What a request may need and not every backend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    Images,
    /// `web_search` and `web_fetch`, run by Cursor.
    WebTools,
    /// Work in a folder on this machine.
    Workspaces,
}

/// One backend's row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    backend: &'static str,
    has: &'static [Capability],
}

impl Capability {
    const ALL: [Self; 3] = [Self::Images, Self::WebTools, Self::Workspaces];

    fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::WebTools => "Cursor's web tools",
            Self::Workspaces => "workspaces",
        }
    }
}

impl Capabilities {
    /// The Agent API.
    pub const AGENT: Self =
        Self { backend: "agent", has: &[Capability::Images, Capability::WebTools] };

    /// `cursor-agent --print`. Its prompt is a text.
    pub const CLI: Self = Self { backend: "cli", has: &[Capability::Workspaces] };

    /// `cursor-agent acp`.
    pub const ACP: Self =
        Self { backend: "acp", has: &[Capability::Images, Capability::Workspaces] };

    const ALL: [Self; 3] = [Self::AGENT, Self::CLI, Self::ACP];

    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.has.contains(&capability)
    }

    /// Says that this backend lacks the capability, and which ones have it.
    #[must_use]
    pub fn refusal(&self, capability: Capability) -> String {
        let others = Self::ALL.iter().filter(|other| other.has(capability));
        let others: Vec<String> = others.map(|other| format!("`{}`", other.backend)).collect();
        let (name, others) = (capability.name(), others.join(" or "));
        format!("The backend `{}` does not support {name}. Use {others}.", self.backend)
    }
}

/// The table as Markdown.
#[must_use]
pub fn table() -> String {
    let mut head = String::from("|");
    let mut rule = String::from("|---|");
    for backend in Capabilities::ALL {
        // A `String` grows: no error is possible.
        let _ = write!(head, " | `{}`", backend.backend);
        rule.push_str("---|");
    }
    let mut table = format!("{head} |\n{rule}\n");
    for capability in Capability::ALL {
        let _ = write!(table, "| {}", capability.name());
        for backend in Capabilities::ALL {
            let _ = write!(table, " | {}", if backend.has(capability) { "yes" } else { "no" });
        }
        table.push_str(" |\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_capability() {
        let table = table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2 + Capability::ALL.len());
        assert_eq!(lines.first(), Some(&"| | `agent` | `cli` | `acp` |"));
        assert!(lines.contains(&"| images | yes | no | yes |"), "{table}");
        assert!(lines.contains(&"| workspaces | no | yes | yes |"), "{table}");
    }

    #[test]
    fn a_refusal_names_the_backends_that_can() {
        let refusal = Capabilities::CLI.refusal(Capability::Images);
        assert_eq!(refusal, "The backend `cli` does not support images. Use `agent` or `acp`.");
    }
}
