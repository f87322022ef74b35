//! The table: which client tools count as what, and under which names their
//! parameters go. To teach the gateway a new client, add names here; nothing else
//! has to change as long as its tool takes the same values.
//!
//! Names are compared without case and punctuation: `read_file`, `readFile` and
//! `Read-File` are one name. Earlier names win when a client has several tools of
//! one kind.

/// What a client's tool can do for a built-in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capability {
    Shell,
    Read,
    Write,
    Edit,
    Patch,
    List,
    Glob,
    Grep,
    Fetch,
    Delete,
}

/// A value that a call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Command,
    Directory,
    Timeout,
    Path,
    FirstLine,
    LineCount,
    LastLine,
    Content,
    Old,
    New,
    Edits,
    Patch,
    Pattern,
    Include,
    Ignore,
    Mode,
    Before,
    After,
    Around,
    IgnoreCase,
    LineNumbers,
    FileType,
    Head,
    Multiline,
    Url,
    Format,
    Question,
    About,
}

/// One kind of tool.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) capability: Capability,
    /// What clients call it.
    pub(super) names: &'static [&'static str],
    /// What they call its parameters.
    pub(super) slots: &'static [(Slot, &'static [&'static str])],
}

const PATH: &[&str] = &[
    "path",
    "file_path",
    "target_file",
    "filename",
    "file",
    "absolute_path",
    "relative_path",
    "abs_path",
];
const DIRECTORY: &[&str] = &[
    "path",
    "dir_path",
    "directory",
    "dir",
    "directory_path",
    "target_directory",
    "relative_workspace_path",
    "absolute_path",
    "folder",
    "file_path",
];
const ABOUT: &[&str] = &["description", "explanation", "instruction"];

/// Every kind of tool that a built-in one is handed to.
pub(super) const TABLE: &[Entry] = &[
    Entry {
        capability: Capability::Shell,
        names: &[
            "bash",
            "shell",
            "shell_command",
            "exec_command",
            "local_shell",
            "container_exec",
            "run_terminal_cmd",
            "run_terminal_command",
            "run_shell_command",
            "run_command",
            "run_commands",
            "execute_command",
            "execute_bash",
            "terminal",
            "cmd",
        ],
        slots: &[
            (Slot::Command, &["command", "cmd", "script", "commands"]),
            (
                Slot::Directory,
                &["workdir", "cwd", "working_directory", "working_dir", "directory", "dir_path"],
            ),
            (
                Slot::Timeout,
                &["timeout", "timeout_ms", "timeout_seconds", "timeout_secs", "yield_time_ms"],
            ),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Read,
        names: &["read", "read_file", "read_files", "view", "view_file", "open_file", "cat"],
        slots: &[
            (Slot::Path, PATH),
            (Slot::FirstLine, &["offset", "start_line", "line_start", "from_line"]),
            (Slot::LineCount, &["limit", "max_lines", "num_lines", "line_count"]),
            (Slot::LastLine, &["end_line", "line_end", "to_line"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Write,
        names: &[
            "write",
            "write_file",
            "write_to_file",
            "create_file",
            "create_new_file",
            "save_file",
            "save",
        ],
        slots: &[
            (Slot::Path, PATH),
            (
                Slot::Content,
                &["content", "contents", "file_text", "text", "file_content", "code_content"],
            ),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Edit,
        names: &[
            "edit",
            "multi_edit",
            "edit_file",
            "str_replace",
            "search_replace",
            "replace",
            "replace_in_file",
            "single_find_and_replace",
        ],
        slots: &[
            (Slot::Path, PATH),
            (Slot::Old, &["old_string", "old_str", "old_text", "search", "find", "old"]),
            (Slot::New, &["new_string", "new_str", "new_text", "replace", "replacement", "new"]),
            (Slot::Edits, &["edits", "replacements"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Patch,
        names: &["apply_patch"],
        slots: &[(Slot::Patch, &["input", "patch", "patch_text"]), (Slot::About, ABOUT)],
    },
    Entry {
        capability: Capability::List,
        names: &["list", "ls", "list_dir", "list_directory", "list_files", "directory_tree"],
        slots: &[
            (Slot::Path, DIRECTORY),
            (Slot::Ignore, &["ignore", "ignore_globs", "exclude"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Glob,
        names: &["glob", "find", "glob_file_search", "file_glob_search", "find_files"],
        slots: &[
            (Slot::Pattern, &["pattern", "glob_pattern", "glob"]),
            (Slot::Path, DIRECTORY),
            (Slot::Head, &["limit", "head_limit", "max_results"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Grep,
        names: &[
            "grep",
            "grep_files",
            "grep_search",
            "search_file_content",
            "search_files",
            "ripgrep",
            "rg",
        ],
        slots: &[
            (Slot::Pattern, &["pattern", "regex", "query", "regexp"]),
            (Slot::Path, DIRECTORY),
            (Slot::Include, &["include", "glob", "include_pattern", "file_pattern"]),
            (Slot::Mode, &["output_mode"]),
            (Slot::Before, &["-B", "context_before"]),
            (Slot::After, &["-A", "context_after"]),
            (Slot::Around, &["-C", "context"]),
            (Slot::IgnoreCase, &["-i", "ignore_case", "case_insensitive"]),
            (Slot::LineNumbers, &["-n"]),
            (Slot::FileType, &["type"]),
            (Slot::Head, &["head_limit", "limit", "max_results"]),
            (Slot::Multiline, &["multiline"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Fetch,
        names: &["webfetch", "fetch", "fetch_url", "fetch_url_content", "read_url", "url_fetch"],
        slots: &[
            (Slot::Url, &["url", "uri"]),
            (Slot::Format, &["format"]),
            (Slot::Question, &["prompt", "question"]),
            (Slot::About, ABOUT),
        ],
    },
    Entry {
        capability: Capability::Delete,
        names: &["delete", "delete_file", "remove_file", "rm"],
        slots: &[(Slot::Path, PATH), (Slot::About, ABOUT)],
    },
];

/// How clients say that their user said no. Lower case; compared with the start of
/// a result, or anywhere in one that is marked as an error.
pub(super) const REFUSALS: &[&str] = &[
    "the user rejected permission",
    "the user has specified a rule which prevents",
    "the user doesn't want to",
    "the user does not want to",
    "the user denied",
    "the user rejected",
    "the user declined",
    "user denied",
    "user rejected",
    "user declined",
    "user refused",
    "rejected by user",
    "denied by user",
    "declined by user",
    "exec command rejected",
    "patch rejected",
    "tool use was rejected",
    "permission to use ",
    "claude requested permissions",
    "permission denied by",
    "[operation cancelled]",
    "request interrupted by user",
    "command was denied",
    "tool call was rejected",
];

/// How a result begins that is an error though nothing marks it as one: the chat
/// dialect has no place for such a mark. Lower case.
pub(super) const ERRORS: &[&str] = &[
    "error:",
    "error reading",
    "error writing",
    "error editing",
    "error executing",
    "error fetching",
    "error searching",
    "error listing",
    "<tool_use_error>",
    "file not found",
    "file does not exist",
    "no such file",
    "path not found",
    "search path not found",
    "directory not found",
    "directory does not exist",
    "path does not exist",
    "enoent",
    "eacces",
    "eisdir",
    "eperm",
    "enospc",
    "permission denied",
    "cannot read binary file",
    "failed to read",
    "failed to write",
    "failed to edit",
    "failed to create",
    "failed to delete",
    "failed to list",
    "failed to find",
    "failed to fetch",
    "failed to execute",
    "failed to apply",
    "you must read",
    "file has not been read",
    "file has been modified",
    "apply_patch verification failed",
    "invalid tool",
    "invalid arguments",
    "request failed",
    "no such tool",
    "unknown tool",
    "model tried to call unavailable tool",
];
