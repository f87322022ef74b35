//! The command line of Cursor's CLI (§9.2), parsed as the real one parses it: unknown options are
//! errors.

use std::ffi::OsString;

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CliArgs {
    pub(super) command: CliCommand,
    pub(super) print: bool,
    pub(super) format: PrintFormat,
    pub(super) partial: bool,
    pub(super) model: Option<String>,
    pub(super) mode: CliMode,
    pub(super) force: bool,
    pub(super) approve_mcps: bool,
    pub(super) trust: bool,
    pub(super) workspace: Option<String>,
    /// `Some(None)`: the newest chat.
    pub(super) resume: Option<Option<String>>,
    pub(super) api_key: Option<String>,
    /// `status --format json`.
    pub(super) json_status: bool,
    pub(super) words: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CliCommand {
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
pub(super) enum PrintFormat {
    #[default]
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CliMode {
    #[default]
    Agent,
    Ask,
    Plan,
}

impl CliMode {
    /// The service's number for it.
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

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    Nothing,
    Value,
    Maybe,
}

/// Options with all their names; the first one is used in error messages.
const OPTIONS: &[(&[&str], OptionValue)] = &[
    (&["--print", "-p"], OptionValue::Nothing),
    (&["--output-format"], OptionValue::Value),
    (&["--stream-partial-output"], OptionValue::Nothing),
    (&["--model", "-m"], OptionValue::Value),
    (&["--list-models"], OptionValue::Nothing),
    (&["--mode"], OptionValue::Value),
    (&["--plan"], OptionValue::Nothing),
    (&["--force", "-f", "--yolo"], OptionValue::Nothing),
    (&["--auto-review"], OptionValue::Nothing),
    (&["--approve-mcps"], OptionValue::Nothing),
    (&["--trust"], OptionValue::Nothing),
    (&["--sandbox"], OptionValue::Value),
    (&["--workspace"], OptionValue::Value),
    (&["--add-dir"], OptionValue::Value),
    (&["--worktree", "-w"], OptionValue::Maybe),
    (&["--worktree-base"], OptionValue::Value),
    (&["--skip-worktree-setup"], OptionValue::Nothing),
    (&["--resume"], OptionValue::Maybe),
    (&["--continue"], OptionValue::Nothing),
    (&["--name", "-n"], OptionValue::Value),
    (&["--cloud", "-c", "--background", "-b"], OptionValue::Nothing),
    (&["--api-key", "-a"], OptionValue::Value),
    (&["--auth-token"], OptionValue::Value),
    (&["--endpoint", "-e"], OptionValue::Value),
    (&["--repo-endpoint"], OptionValue::Value),
    (&["--http-version"], OptionValue::Value),
    (&["--insecure"], OptionValue::Nothing),
    (&["--header", "-H"], OptionValue::Value),
    (&["--allowed-tools"], OptionValue::Value),
    (&["--format"], OptionValue::Value),
    (&["--version", "-v"], OptionValue::Nothing),
    (&["--help", "-h"], OptionValue::Nothing),
];

const COMMANDS: &[(&str, CliCommand)] = &[
    ("agent", CliCommand::Agent),
    ("login", CliCommand::Login),
    ("logout", CliCommand::Logout),
    ("status", CliCommand::Status),
    ("whoami", CliCommand::Status),
    ("about", CliCommand::About),
    ("models", CliCommand::Models),
    ("mcp", CliCommand::Mcp),
    ("update", CliCommand::Update),
    ("upgrade", CliCommand::Update),
    ("ls", CliCommand::Ls),
    ("create-chat", CliCommand::CreateChat),
    ("acp", CliCommand::Acp),
    ("help", CliCommand::Help),
];

impl CliArgs {
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
                    (OptionValue::Nothing, _) => None,
                    (_, Some(value)) => Some(value),
                    (OptionValue::Value, None) => Some(rest.next().ok_or_else(|| {
                        format!("error: option '{name} <value>' argument missing")
                    })?),
                    (OptionValue::Maybe, None) => rest.next_if(|next| !next.starts_with('-')),
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
        // `--version` and the like have set the command already, and take precedence.
        if parsed.command == CliCommand::Agent {
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
            "--plan" => self.mode = CliMode::Plan,
            "--list-models" => self.command = CliCommand::Models,
            "--version" => self.command = CliCommand::Version,
            "--help" => self.command = CliCommand::Help,
            "--model" => self.model = value,
            "--workspace" => self.workspace = value,
            "--api-key" | "--auth-token" => self.api_key = value,
            "--resume" => self.resume = Some(value),
            "--output-format" => {
                self.format = match text {
                    "text" => PrintFormat::Text,
                    "json" => PrintFormat::Json,
                    "stream-json" => PrintFormat::StreamJson,
                    _ => return invalid("text, json, stream-json"),
                }
            }
            "--mode" => match CliMode::of(text) {
                Some(mode) if mode != CliMode::Agent => self.mode = mode,
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
