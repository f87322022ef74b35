//! What kind of tool a name stands for, what kind of outcome a text is, and the words
//! for the model.

/// What a call does, judged by the name of its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolKind {
    /// Looks at things and leaves them as they are.
    Read,
    /// Changes files or lists.
    Edit,
    /// Keeps the model's own list of what to do. Changes nothing that matters here.
    Plan,
    /// Shells and all that is not known: may change anything.
    Other,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeClass {
    Success,
    Error,
    /// The arguments did not fit the tool's schema.
    Refused,
}

const EDITS: [&str; 17] = [
    "write",
    "edit",
    "multiedit",
    "patch",
    "replace",
    "create",
    "insert",
    "delete",
    "remove",
    "rename",
    "move",
    "update",
    "append",
    "save",
    "set",
    "undo",
    "strreplace",
];
const READS: [&str; 23] = [
    "read",
    "ls",
    "list",
    "glob",
    "grep",
    "search",
    "fetch",
    "view",
    "cat",
    "find",
    "get",
    "show",
    "query",
    "lookup",
    "inspect",
    "describe",
    "webfetch",
    "websearch",
    "stat",
    "tree",
    "rg",
    "head",
    "tail",
];

const PLANS: [&str; 6] = ["todo", "todos", "todowrite", "todoread", "plan", "plans"];

/// Beginnings of results that report a failure. Chat has no flag for it.
const FAILURES: [&str; 14] = [
    "error",
    "failed",
    "failure",
    "fatal",
    "exception",
    "traceback (most recent call last)",
    "command failed",
    "invalid",
    "validation",
    "inputvalidationerror",
    "mcp error",
    "missing ",
    "<tool_use_error>",
    "{\"error\"",
];
/// What only clients say of arguments.
const REFUSALS: [&str; 4] = [
    "called with invalid arguments",
    "arguments provided to the tool are invalid",
    "inputvalidationerror",
    "failed to parse function arguments",
];
/// What schema validators say. It counts in a failure only: files talk of it too.
const VALIDATORS: [&str; 27] = [
    "invalid argument",
    "invalid tool argument",
    "invalid_argument",
    "invalid input",
    "invalid param",
    "invalid_type",
    "invalid type:",
    "invalid json",
    "validation error",
    "validation failed",
    "schema validation",
    "does not match the schema",
    "does not match schema",
    "expected schema",
    "zoderror",
    "missing required",
    "missing field",
    "missing parameter",
    "unknown field",
    "unrecognized key",
    "unrecognized_keys",
    "required property",
    "required parameter",
    "additional properties",
    "additionalproperties",
    "field required",
    "-32602",
];

/// How far into a result a failure is looked for.
const OPENING: usize = 400;

/// Whether this part of a tool's name says what kind of tool it is.
pub(crate) fn is_tool_word(word: &str) -> bool {
    [&EDITS[..], &READS[..], &PLANS[..]].iter().any(|known| known.contains(&word))
}

/// How the text of a result begins that reports a failure. Lower case.
pub(crate) fn failure_beginnings() -> impl Iterator<Item = &'static str> {
    FAILURES.into_iter()
}

impl ToolKind {
    pub(super) fn of(tool: &str) -> Self {
        let words = words(tool);
        let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        if any(&PLANS) {
            Self::Plan
        } else if any(&EDITS) {
            Self::Edit
        } else if any(&READS) {
            Self::Read
        } else {
            Self::Other
        }
    }
}

impl OutcomeClass {
    pub(super) fn of(text: &str, is_error: bool) -> Self {
        let text = text.trim();
        let opening: String = text.chars().take(OPENING).collect::<String>().to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| opening.contains(word));
        let line = opening.lines().next().unwrap_or_default();
        let failed = is_error || FAILURES.iter().any(|word| opening.starts_with(word));
        if REFUSALS.iter().any(|word| line.contains(word)) || failed && has(&VALIDATORS) {
            return Self::Refused;
        }
        let last = text.lines().next_back().unwrap_or_default();
        let exit = exit_code(line).or_else(|| exit_code(last));
        if failed || exit.is_some_and(|code| code != 0) { Self::Error } else { Self::Success }
    }
}

/// The words of `read_file`, `mcp__fs__readFile`, `Read-File`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (lower && c.is_uppercase()) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// The number in `exit code: 1`, `"exit_code":1`, `exited with code 1`.
pub(crate) fn exit_code(line: &str) -> Option<i64> {
    let line = line.to_ascii_lowercase();
    let after = ["exit code", "exit_code", "exit status", "exited with code"]
        .into_iter()
        .find_map(|words| line.split_once(words).map(|(_, after)| after))?;
    let number = after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '-');
    let digit = |c: char| c.is_ascii_digit() || c == '-';
    let end = number.find(|c| !digit(c)).unwrap_or(number.len());
    number.get(..end)?.parse().ok()
}

// === notes ===

const NOTE_OPENS: &str = "[ibeam: ";

pub(super) fn repeat_note(count: u32) -> String {
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
    format!(
        "{NOTE_OPENS}this call with these arguments has now given this result {times}. Do not \
         repeat it: that would end the turn. Use what you know, or try something else.]"
    )
}

pub(super) fn refusal_note(count: u32, limit: u32) -> String {
    format!(
        "{NOTE_OPENS}the arguments of this tool were refused {count} times in a row, and the turn \
         ends after {limit}. Read the tool's schema again and send exactly what it asks for.]"
    )
}

pub(super) fn flip_note() -> String {
    format!(
        "{NOTE_OPENS}you are going back and forth between the same two edits. Decide on one of \
         them or try something else: going on like this ends the turn.]"
    )
}

/// A result without a note of ours, which a replayed history may still have.
pub(super) fn without_note(text: &str) -> &str {
    let text = text.trim_end();
    match text.rfind(NOTE_OPENS) {
        Some(at) if text.ends_with(']') => text.get(..at).unwrap_or(text).trim_end(),
        _ => text,
    }
}
