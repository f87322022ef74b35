//! The command line of Cursor's CLI (§9.2), read as the real one reads it: what it does not
//! know, it refuses.

use std::ffi::OsString;

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Args {
    pub(super) command: Command,
    pub(super) print: bool,
    pub(super) format: Format,
    pub(super) partial: bool,
    pub(super) model: Option<String>,
    pub(super) mode: Mode,
    pub(super) force: bool,
    pub(super) approve_mcps: bool,
    pub(super) trust: bool,
    pub(super) workspace: Option<String>,
    /// `Some` of nothing: the newest chat.
    pub(super) resume: Option<Option<String>>,
    pub(super) api_key: Option<String>,
    /// `status --format json`.
    pub(super) json_status: bool,
    pub(super) words: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Command {
    #[default]
    Agent,
    Version,
    Help,
    Login,
    Logout,
    Status,
    About,
    Models,
    CreateChat,
    Ls,
    Acp,
    Mcp,
    Update,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Agent,
    Ask,
    Plan,
}

impl Mode {
    /// As the service counts them.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::Agent => 1,
            Self::Ask => 2,
            Self::Plan => 3,
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "agent" => Self::Agent,
            "ask" => Self::Ask,
            "plan" => Self::Plan,
            _ => return None,
        })
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ask => "ask",
            Self::Plan => "plan",
        }
    }
}

/// How an option takes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    Maybe,
}

/// Options by every name they have; the first is the one they are told by.
const OPTIONS: &[(&[&str], Takes)] = &[
    (&["--print", "-p"], Takes::Nothing),
    (&["--output-format"], Takes::Value),
    (&["--stream-partial-output"], Takes::Nothing),
    (&["--model", "-m"], Takes::Value),
    (&["--list-models"], Takes::Nothing),
    (&["--mode"], Takes::Value),
    (&["--plan"], Takes::Nothing),
    (&["--force", "-f", "--yolo"], Takes::Nothing),
    (&["--auto-review"], Takes::Nothing),
    (&["--approve-mcps"], Takes::Nothing),
    (&["--trust"], Takes::Nothing),
    (&["--sandbox"], Takes::Value),
    (&["--workspace"], Takes::Value),
    (&["--add-dir"], Takes::Value),
    (&["--worktree", "-w"], Takes::Maybe),
    (&["--worktree-base"], Takes::Value),
    (&["--skip-worktree-setup"], Takes::Nothing),
    (&["--resume"], Takes::Maybe),
    (&["--continue"], Takes::Nothing),
    (&["--name", "-n"], Takes::Value),
    (&["--cloud", "-c", "--background", "-b"], Takes::Nothing),
    (&["--api-key", "-a"], Takes::Value),
    (&["--auth-token"], Takes::Value),
    (&["--endpoint", "-e"], Takes::Value),
    (&["--repo-endpoint"], Takes::Value),
    (&["--http-version"], Takes::Value),
    (&["--insecure"], Takes::Nothing),
    (&["--header", "-H"], Takes::Value),
    (&["--allowed-tools"], Takes::Value),
    (&["--format"], Takes::Value),
    (&["--version", "-v"], Takes::Nothing),
    (&["--help", "-h"], Takes::Nothing),
];

const COMMANDS: &[(&str, Command)] = &[
    ("agent", Command::Agent),
    ("login", Command::Login),
    ("logout", Command::Logout),
    ("status", Command::Status),
    ("whoami", Command::Status),
    ("about", Command::About),
    ("models", Command::Models),
    ("mcp", Command::Mcp),
    ("update", Command::Update),
    ("upgrade", Command::Update),
    ("ls", Command::Ls),
    ("create-chat", Command::CreateChat),
    ("acp", Command::Acp),
    ("help", Command::Help),
];

impl Args {
    /// # Errors
    /// What the real program writes to stderr before it exits with 1.
    pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut command = None;
        let mut rest = args.into_iter().map(|arg| arg.to_string_lossy().into_owned()).peekable();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                parsed.words.extend(rest.by_ref());
            } else if arg.len() > 1 && arg.starts_with('-') {
                let (name, inline) = match arg.split_once('=') {
                    Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                    _ => (arg.as_str(), None),
                };
                let Some((names, takes)) = OPTIONS.iter().find(|(names, _)| names.contains(&name))
                else {
                    return Err(format!("error: unknown option '{name}'"));
                };
                let name = names.first().copied().unwrap_or_default();
                let value = match (takes, inline) {
                    (Takes::Nothing, _) => None,
                    (_, Some(value)) => Some(value),
                    (Takes::Value, None) => Some(rest.next().ok_or_else(|| {
                        format!("error: option '{name} <value>' argument missing")
                    })?),
                    (Takes::Maybe, None) => rest.next_if(|next| !next.starts_with('-')),
                };
                parsed.set(name, value)?;
            } else if command.is_none() && parsed.words.is_empty() {
                match COMMANDS.iter().find(|(name, _)| *name == arg) {
                    Some((_, known)) => command = Some(*known),
                    None if arg == "resume" => parsed.resume = Some(None),
                    None => parsed.words.push(arg),
                }
            } else {
                parsed.words.push(arg);
            }
        }
        // `--version` and the like were set as a command already, and go first.
        if parsed.command == Command::Agent {
            parsed.command = command.unwrap_or_default();
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: Option<String>) -> Result<(), String> {
        let text = value.as_deref().unwrap_or_default();
        let invalid = |choices: &str| {
            Err(format!(
                "error: option '{name} <value>' argument '{text}' is invalid. \
                 Allowed choices are {choices}."
            ))
        };
        match name {
            "--print" => self.print = true,
            "--stream-partial-output" => self.partial = true,
            "--force" => self.force = true,
            "--approve-mcps" => self.approve_mcps = true,
            "--trust" => self.trust = true,
            "--continue" => self.resume = Some(None),
            "--plan" => self.mode = Mode::Plan,
            "--list-models" => self.command = Command::Models,
            "--version" => self.command = Command::Version,
            "--help" => self.command = Command::Help,
            "--model" => self.model = value,
            "--workspace" => self.workspace = value,
            "--api-key" | "--auth-token" => self.api_key = value,
            "--resume" => self.resume = Some(value),
            "--output-format" => {
                self.format = match text {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    "stream-json" => Format::StreamJson,
                    _ => return invalid("text, json, stream-json"),
                }
            }
            "--mode" => match Mode::of(text) {
                Some(mode) if mode != Mode::Agent => self.mode = mode,
                _ => return invalid("plan, ask"),
            },
            "--sandbox" if !matches!(text, "enabled" | "disabled") => {
                return invalid("enabled, disabled");
            }
            "--format" => self.json_status = text == "json",
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
