//! The tools of known clients, as their schemas declare them, and how each of them
//! says that something worked, failed or was refused.

use super::{super::Capability, Tool, tool};

/// A family of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    OpenCode,
    Claude,
    Codex,
    Generic,
}

pub(super) const FAMILIES: [Family; 4] =
    [Family::OpenCode, Family::Claude, Family::Codex, Family::Generic];

impl Family {
    pub(super) fn tools(self) -> Vec<Tool> {
        let tools: &[(&str, &str)] = match self {
            Self::OpenCode => OPENCODE,
            Self::Claude => CLAUDE,
            Self::Codex => CODEX,
            Self::Generic => GENERIC,
        };
        tools.iter().map(|(name, schema)| tool(name, schema)).collect()
    }

    /// Whether its dialect marks errors. Others return only a text.
    pub(super) fn marks_errors(self) -> bool {
        matches!(self, Self::Claude | Self::Generic)
    }

    pub(super) fn refusal(self) -> &'static str {
        match self {
            Self::OpenCode => "The user rejected permission to use this specific tool call.",
            Self::Claude => {
                "The user doesn't want to proceed with this tool use. The tool use was rejected."
            }
            Self::Codex => "exec command rejected by user",
            Self::Generic => "The user denied this operation.",
        }
    }

    /// How the tool of this kind says what became of `text`.
    pub(super) fn says(self, capability: Capability, text: &str, failed: bool) -> String {
        match (self, capability) {
            (Self::Codex, Capability::Patch) => text.to_owned(),
            (Self::Codex, _) => format!(
                "Chunk ID: 1a2b3c\nWall time: 0.0123 seconds\nProcess exited with code {}\n\
                 Original token count: 7\nOutput:\n{text}",
                i32::from(failed)
            ),
            (Self::Claude, Capability::Shell) if failed => format!("Exit code 1\n{text}"),
            (Self::OpenCode, Capability::Shell) if failed => {
                format!("{text}\n\n<metadata>\nUser aborted the command\n</metadata>")
            }
            (Self::OpenCode, Capability::Read) if !failed => format!(
                "<path>/w/a</path>\n<type>file</type>\n<content>\n1: {text}\n\n\
                 (End of file - total 1 lines)\n</content>"
            ),
            (Self::Claude, Capability::Read) if !failed => format!("     1→{text}"),
            _ => text.to_owned(),
        }
    }
}

const OPENCODE: &[(&str, &str)] = &[
    (
        "bash",
        r#"{"type":"object","properties":{
            "command":{"description":"The command to execute","type":"string"},
            "timeout":{"description":"Optional timeout in milliseconds","type":"number"},
            "workdir":{"description":"The working directory to run the command in.","type":"string"},
            "description":{"description":"What this command does","type":"string"}},
            "required":["command","description"],"additionalProperties":false}"#,
    ),
    (
        "read",
        r#"{"type":"object","properties":{
            "filePath":{"description":"The absolute path to the file or directory to read","type":"string"},
            "offset":{"description":"The line number to start reading from (1-indexed)","type":"number"},
            "limit":{"description":"The maximum number of lines to read","type":"number"}},
            "required":["filePath"],"additionalProperties":false}"#,
    ),
    (
        "write",
        r#"{"type":"object","properties":{"content":{"type":"string"},"filePath":{"type":"string"}},
            "required":["content","filePath"],"additionalProperties":false}"#,
    ),
    (
        "edit",
        r#"{"type":"object","properties":{"filePath":{"type":"string"},"oldString":{"type":"string"},
            "newString":{"type":"string"},"replaceAll":{"type":"boolean"}},
            "required":["filePath","oldString","newString"],"additionalProperties":false}"#,
    ),
    (
        "glob",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},
            "required":["pattern"],"additionalProperties":false}"#,
    ),
    (
        "grep",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},
            "include":{"type":"string"}},"required":["pattern"],"additionalProperties":false}"#,
    ),
    (
        "webfetch",
        r#"{"type":"object","properties":{"url":{"type":"string"},
            "format":{"type":"string","enum":["text","markdown","html"]},
            "timeout":{"type":"number"}},"required":["url","format"],"additionalProperties":false}"#,
    ),
    (
        "todowrite",
        r#"{"type":"object","properties":{"todos":{"type":"array"}},"required":["todos"]}"#,
    ),
];

const CLAUDE: &[(&str, &str)] = &[
    (
        "Bash",
        r#"{"type":"object","properties":{"command":{"type":"string"},
            "timeout":{"type":"number","description":"Optional timeout in milliseconds (max 600000)"},
            "description":{"type":"string"},"run_in_background":{"type":"boolean"}},
            "required":["command"],"additionalProperties":false}"#,
    ),
    (
        "Read",
        r#"{"type":"object","properties":{
            "file_path":{"type":"string","description":"The absolute path to the file to read"},
            "offset":{"type":"integer","description":"The line number to start reading from."},
            "limit":{"type":"integer","description":"The number of lines to read."}},
            "required":["file_path"],"additionalProperties":false}"#,
    ),
    (
        "Write",
        r#"{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},
            "required":["file_path","content"],"additionalProperties":false}"#,
    ),
    (
        "Edit",
        r#"{"type":"object","properties":{"file_path":{"type":"string"},"old_string":{"type":"string"},
            "new_string":{"type":"string"},"replace_all":{"type":"boolean","default":false}},
            "required":["file_path","old_string","new_string"],"additionalProperties":false}"#,
    ),
    (
        "Glob",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},
            "required":["pattern"],"additionalProperties":false}"#,
    ),
    (
        "Grep",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},
            "glob":{"type":"string"},
            "output_mode":{"type":"string","enum":["content","files_with_matches","count"]},
            "-B":{"type":"number"},"-A":{"type":"number"},"-C":{"type":"number"},
            "-n":{"type":"boolean"},"-i":{"type":"boolean"},"type":{"type":"string"},
            "head_limit":{"type":"number"},"multiline":{"type":"boolean"}},
            "required":["pattern"],"additionalProperties":false}"#,
    ),
    (
        "WebFetch",
        r#"{"type":"object","properties":{"url":{"type":"string"},"prompt":{"type":"string"}},
            "required":["url","prompt"],"additionalProperties":false}"#,
    ),
    (
        "TodoWrite",
        r#"{"type":"object","properties":{"todos":{"type":"array"}},"required":["todos"]}"#,
    ),
];

const CODEX: &[(&str, &str)] = &[
    (
        "exec_command",
        r#"{"type":"object","properties":{"cmd":{"type":"string"},"workdir":{"type":"string"},
            "yield_time_ms":{"type":"number"},"max_output_tokens":{"type":"number"},
            "justification":{"type":"string"}},"required":["cmd"],"additionalProperties":false}"#,
    ),
    (
        "write_stdin",
        r#"{"type":"object","properties":{"session_id":{"type":"number"},"chars":{"type":"string"}},
            "required":["session_id"],"additionalProperties":false}"#,
    ),
    (
        "apply_patch",
        r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],
            "additionalProperties":false}"#,
    ),
    (
        "update_plan",
        r#"{"type":"object","properties":{"plan":{"type":"array"}},"required":["plan"]}"#,
    ),
];

const GENERIC: &[(&str, &str)] = &[
    (
        "run_terminal_cmd",
        r#"{"type":"object","properties":{"command":{"type":"string"},
            "is_background":{"type":"boolean"},"explanation":{"type":"string"}},
            "required":["command","is_background"]}"#,
    ),
    (
        "read_file",
        r#"{"type":"object","properties":{"target_file":{"type":"string"},
            "start_line":{"type":"integer"},"end_line":{"type":"integer"}},
            "required":["target_file"]}"#,
    ),
    (
        "write_file",
        r#"{"type":"object","properties":{"path":{"type":"string"},"contents":{"type":"string"}},
            "required":["path","contents"]}"#,
    ),
    (
        "str_replace",
        r#"{"type":"object","properties":{"path":{"type":"string"},"old_str":{"type":"string"},
            "new_str":{"type":"string"}},"required":["path","old_str","new_str"]}"#,
    ),
    (
        "list_dir",
        r#"{"type":"object","properties":{"target_directory":{"type":"string"}},
            "required":["target_directory"]}"#,
    ),
    (
        "glob_file_search",
        r#"{"type":"object","properties":{"glob_pattern":{"type":"string"},
            "target_directory":{"type":"string"}},"required":["glob_pattern"]}"#,
    ),
    (
        "grep_search",
        r#"{"type":"object","properties":{"query":{"type":"string"},"path":{"type":"string"},
            "include_pattern":{"type":"string"},"case_insensitive":{"type":"boolean"}},
            "required":["query"]}"#,
    ),
    ("fetch", r#"{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}"#),
    (
        "delete_file",
        r#"{"type":"object","properties":{"target_file":{"type":"string"},
            "explanation":{"type":"string"}},"required":["target_file"]}"#,
    ),
];
