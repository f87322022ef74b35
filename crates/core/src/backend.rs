//! The backends: one table, with a row for each. Every list of them comes from it, and so do help
//! texts, refusals and the table in `docs/backends.md`.

use std::fmt::Write as _;

/// One row of the table.
#[derive(Debug)]
pub struct BackendRow {
    pub name: &'static str,
    /// What answers.
    pub description: &'static str,
    /// What answers with `--sim`.
    pub simulator: &'static str,
    pub needs: Needs,
    capabilities: &'static [Capability],
}

/// What a backend needs on this machine before it can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// An account that ibeam itself is signed in to, and a way to Cursor's hosts.
    Account,
    /// The program `cursor-agent`, which has its own sign-in and calls Cursor itself.
    CursorAgent,
}

/// What a request may need and not every backend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    Images,
    /// `web_search` and `web_fetch`, run by Cursor.
    WebTools,
    /// Work in a folder on this machine.
    Workspaces,
    /// The modes `ask` and `plan`.
    Modes,
    /// The maximum mode of a model.
    MaxMode,
}

macro_rules! backends {
    ($($(#[$doc:meta])* $kind:ident $name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        /// A backend, by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BackendKind { $($(#[$doc])* $kind),* }

        impl BackendKind {
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            #[must_use]
            pub fn row(self) -> &'static BackendRow {
                match self {
                    $(Self::$kind => {
                        const ROW: &BackendRow = &BackendRow { name: $name, $($field: $value),* };
                        ROW
                    })*
                }
            }
        }

        /// What the setting `backend` can be.
        pub const CHOICES: &str = concat!($("`", $name, "`, ",)* "or `auto`");

        /// The setting `backend`, described.
        pub const SETTING_HELP: &str =
            concat!("what answers: ", $("`", $name, "`, ",)* "or `auto`: the first that is signed in");
    };
}

backends! {
    /// The Agent API, over HTTP.
    Agent "agent" {
        description: "Cursor's API",
        simulator: "the simulator",
        needs: Needs::Account,
        capabilities: &[
            Capability::Images,
            Capability::WebTools,
            Capability::Modes,
            Capability::MaxMode,
        ],
    }
    /// `cursor-agent --print`, in a child process. Its prompt is a text.
    Cli "cli" {
        description: "`cursor-agent`, one process for each turn",
        simulator: "a simulated `cursor-agent`",
        needs: Needs::CursorAgent,
        capabilities: &[Capability::Workspaces, Capability::Modes],
    }
    /// `cursor-agent acp`, in a child process.
    Acp "acp" {
        description: "`cursor-agent acp`, kept running between turns",
        simulator: "a simulated `cursor-agent acp`",
        needs: Needs::CursorAgent,
        capabilities: &[Capability::Images, Capability::Workspaces, Capability::Modes],
    }
}

impl BackendKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    #[must_use]
    pub fn needs(self) -> Needs {
        self.row().needs
    }

    #[must_use]
    pub fn has(self, capability: Capability) -> bool {
        self.row().capabilities.contains(&capability)
    }

    /// Says that this backend lacks the capability, and which ones have it.
    #[must_use]
    pub fn refusal(self, capability: Capability) -> String {
        let others = Self::ALL.iter().filter(|other| other.has(capability));
        let others: Vec<String> = others.map(|other| format!("`{}`", other.name())).collect();
        let (name, others) = (capability.name(), others.join(" or "));
        format!("The backend `{}` does not support {name}. Use {others}.", self.name())
    }
}

impl Needs {
    pub const ALL: [Self; 2] = [Self::Account, Self::CursorAgent];

    /// The backend that `auto` stands for where this is what the user has.
    #[must_use]
    pub fn default_backend(self) -> BackendKind {
        match self {
            Self::Account => BackendKind::Agent,
            Self::CursorAgent => BackendKind::Cli,
        }
    }

    /// The names of the backends that need this.
    pub fn backends(self) -> impl Iterator<Item = &'static str> {
        let rows = BackendKind::ALL.iter().map(|kind| kind.row());
        rows.filter(move |row| row.needs == self).map(|row| row.name)
    }

    /// Whose sign-in it is.
    #[must_use]
    pub fn sign_in(self) -> &'static str {
        match self {
            Self::Account => "Cursor's API",
            Self::CursorAgent => "that of `cursor-agent`",
        }
    }
}

impl Capability {
    const ALL: [Self; 5] =
        [Self::Images, Self::WebTools, Self::Workspaces, Self::Modes, Self::MaxMode];

    fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::WebTools => "Cursor's web tools",
            Self::Workspaces => "workspaces",
            Self::Modes => "the modes `ask` and `plan`",
            Self::MaxMode => "max mode",
        }
    }
}

/// What each backend can do of what not every backend can, as Markdown.
#[must_use]
pub fn capability_table() -> String {
    let mut head = String::from("|");
    let mut rule = String::from("|---|");
    for backend in BackendKind::ALL {
        // A `String` grows: no error is possible.
        let _ = write!(head, " | `{}`", backend.name());
        rule.push_str("---|");
    }
    let mut table = format!("{head} |\n{rule}\n");
    for capability in Capability::ALL {
        let _ = write!(table, "| {}", capability.name());
        for backend in BackendKind::ALL {
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
    fn the_capability_table_has_a_line_for_each_capability() {
        let table = capability_table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2 + Capability::ALL.len());
        assert!(lines[0].starts_with("| | `agent` | `cli` | `acp` |"), "{table}");
        assert!(
            lines.iter().any(|line| line.starts_with("| images | yes | no | yes |")),
            "{table}"
        );
        let workspaces = "| workspaces | no | yes | yes |";
        assert!(lines.iter().any(|line| line.starts_with(workspaces)), "{table}");
        assert!(lines.contains(&"| max mode | yes | no | no |"), "{table}");
    }

    #[test]
    fn a_refusal_names_the_backends_that_can() {
        let refusal = BackendKind::Cli.refusal(Capability::Images);
        assert_eq!(refusal, "The backend `cli` does not support images. Use `agent` or `acp`.");
    }

    #[test]
    fn auto_stands_for_a_backend_that_needs_what_there_is() {
        for needs in Needs::ALL {
            assert_eq!(needs.default_backend().needs(), needs);
            assert!(needs.backends().any(|name| name == needs.default_backend().name()));
        }
    }

    #[test]
    fn names_are_unique_and_listed_for_users() {
        for kind in BackendKind::ALL {
            assert_eq!(BackendKind::from_name(kind.name()), Some(*kind));
            assert!(CHOICES.contains(&format!("`{}`", kind.name())), "{CHOICES}");
        }
        assert_eq!(BackendKind::from_name("auto"), None);
    }
}
