//! Files: to the client's reading tool or its shell, and the text back without
//! what the client put around it.

use bytes::Bytes;
use ibeam_proto::agent::{
    ReadArgs, ReadError, ReadFileNotFound, ReadInvalidFile, ReadPermissionDenied, ReadRejected,
    ReadResult, ReadSuccess, exec_client_message::Message as Reply,
    read_result::Result as ReadOutcome, read_success,
};

use super::{
    ClientCall, Equipment, Order, Outcome, Through,
    outcome::{FORBIDDEN, MISSING, bare, mentions},
    quote,
    schema::{may, must},
    shell,
    table::{Capability, Slot},
};

/// Which arm asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    Plain,
    Redacted,
}

/// What the result repeats.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) arm: Arm,
    pub(super) path: String,
    pub(super) range: Range,
    /// The tool gives the whole file: the range is cut out of it here.
    pub(super) cut: bool,
}

/// The lines that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Counted from 1.
    first: usize,
    count: Option<usize>,
}

impl Range {
    /// An offset below 1 has no meaning that all tools share: the start is meant.
    pub(super) fn new(offset: Option<i32>, limit: Option<i64>) -> Self {
        let first = offset.and_then(|line| usize::try_from(line).ok()).unwrap_or(1).max(1);
        let count = limit.and_then(|lines| usize::try_from(lines).ok()).filter(|lines| *lines > 0);
        Self { first, count }
    }

    fn is_whole(self) -> bool {
        self.first == 1 && self.count.is_none()
    }
}

/// More lines than a file has. Reading tools stop after some by default, and the
/// backend may write back what it has read as the whole file.
const ALL_LINES: usize = 100_000;

pub(super) fn call(args: &ReadArgs, arm: Arm, kit: &Equipment) -> Option<ClientCall> {
    let range = Range::new(args.offset, args.limit.map(i64::from));
    let (order, cut, through) = order(&args.path, range, kit)?;
    let form = Form { arm, path: args.path.clone(), range, cut };
    Some(order.with(super::Form::Read(form), through))
}

/// The call, whether its answer must be cut, and who makes it.
pub(super) fn order(path: &str, range: Range, kit: &Equipment) -> Option<(Order, bool, Through)> {
    if path.is_empty() {
        return None;
    }
    let by_tool = kit.pick(Capability::Read, |tool| {
        let mut given = vec![must(Slot::Path, path), may(Slot::About, "Reads a file")];
        let starts = range.first == 1 || tool.has(Slot::FirstLine);
        let ends = tool.has(Slot::LineCount) || tool.has(Slot::LastLine);
        let cut = !starts || (range.count.is_some() && !ends);
        if range.count.is_none() && tool.takes_any(Slot::LineCount) {
            given.push(may(Slot::LineCount, ALL_LINES));
        }
        if !range.is_whole() && !cut {
            let base = usize::from(tool.counts_from_zero());
            given.push(may(Slot::FirstLine, range.first - base));
            if let Some(count) = range.count {
                let last = (range.first - base).saturating_add(count - 1);
                given.extend([may(Slot::LineCount, count), may(Slot::LastLine, last)]);
            }
        }
        Some((tool.fill(&given)?, cut))
    });
    if let Some((order, cut)) = by_tool {
        return Some((order, cut, Through::Tool));
    }
    let file = quote::path(path);
    let command = match range {
        _ if range.is_whole() => format!("cat {file}"),
        Range { first, count: None } => format!("sed -n '{first},$p' {file}"),
        Range { first, count: Some(count) } => {
            format!("sed -n '{first},{}p' {file}", first.saturating_add(count - 1))
        }
    };
    Some((shell::run(kit, &command, "", None, "Reads a file")?, false, Through::Shell))
}

impl Form {
    pub(super) fn reply(&self, outcome: &Outcome, image: Option<&Bytes>, raw: bool) -> Reply {
        let result = match (outcome, image) {
            (Outcome::Done(_), Some(data)) => ReadOutcome::Success(ReadSuccess {
                path: self.path.clone(),
                output: Some(read_success::Output::Data(data.clone())),
                file_size: i64::try_from(data.len()).unwrap_or(i64::MAX),
                ..ReadSuccess::default()
            }),
            (Outcome::Done(text), None) => self.success(&self.text(text, raw)),
            (Outcome::Refused(text), _) => ReadOutcome::Rejected(ReadRejected {
                path: self.path.clone(),
                reason: text.clone(),
            }),
            (Outcome::Failed(text), _) => self.failure(bare(text)),
        };
        let result = ReadResult { result: Some(result) };
        match self.arm {
            Arm::Plain => Reply::ReadResult(result),
            Arm::Redacted => Reply::RedactedReadResult(result),
        }
    }

    /// The file's own text. A shell's output has nothing around it.
    pub(super) fn text(&self, text: &str, raw: bool) -> Text {
        let first = if self.cut { 1 } else { self.range.first };
        let mut found = if raw { Text::raw(text, first) } else { unwrap(text, first) };
        if self.cut {
            let lines = found.content.split_inclusive('\n').skip(self.range.first - 1);
            found.content = lines.take(self.range.count.unwrap_or(usize::MAX)).collect();
        }
        found
    }

    fn success(&self, text: &Text) -> ReadOutcome {
        let whole = self.range.is_whole() && !text.truncated;
        let size = if whole { text.content.len() } else { 0 };
        ReadOutcome::Success(ReadSuccess {
            path: self.path.clone(),
            total_lines: i32::try_from(text.total_lines).unwrap_or(i32::MAX),
            file_size: i64::try_from(size).unwrap_or(i64::MAX),
            truncated: text.truncated,
            range_applied: !self.range.is_whole(),
            output: Some(read_success::Output::Content(text.content.clone())),
            output_blob_id: None,
        })
    }

    fn failure(&self, error: &str) -> ReadOutcome {
        let path = self.path.clone();
        if mentions(error, &["is a directory", "eisdir", "binary file", "not a file"]) {
            ReadOutcome::InvalidFile(ReadInvalidFile { path, reason: error.to_owned() })
        } else if mentions(error, MISSING) {
            ReadOutcome::FileNotFound(ReadFileNotFound { path })
        } else if mentions(error, FORBIDDEN) {
            ReadOutcome::PermissionDenied(ReadPermissionDenied { path })
        } else {
            ReadOutcome::Error(ReadError { path, error: error.to_owned() })
        }
    }
}

/// A file's text, and what is known of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) content: String,
    /// As far as the answer tells.
    pub(super) total_lines: usize,
    pub(super) truncated: bool,
}

impl Text {
    fn raw(text: &str, first: usize) -> Self {
        Self {
            content: text.to_owned(),
            total_lines: (first - 1).saturating_add(text.lines().count()),
            truncated: text.contains("tokens truncated…") || text.contains("[... omitted "),
        }
    }
}

/// Takes off the tags, notes and line numbers that a reading tool adds. `first` is
/// the number that the first line must have: otherwise digits are the file's own.
fn unwrap(text: &str, first: usize) -> Text {
    let text = without_reminders(text);
    let (inner, wrapped) = inner(text);
    let (body, note) = if wrapped { split_note(inner) } else { (inner, "") };
    let numbered: Option<Vec<&str>> = body
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let (number, rest) = line_number(line)?;
            (number == first.saturating_add(at)).then_some(rest)
        })
        .collect();
    let content = match numbered {
        Some(lines) if !lines.is_empty() => {
            let mut content = lines.join("\n");
            // Numbered lines do not tell whether the last one ends with a newline.
            // Text files do.
            if !content.is_empty() && !content.ends_with('\n') {
                content.push('\n');
            }
            content
        }
        _ => body.to_owned(),
    };
    let cut_line = content.lines().any(|line| line.contains("... (line truncated to "));
    let shown = (first - 1).saturating_add(content.lines().count());
    let lower = note.to_lowercase();
    let more = ["showing lines", "has more lines", "output capped", "output truncated"]
        .iter()
        .any(|phrase| lower.contains(phrase));
    let total_lines = total(note).filter(|total| *total >= shown).unwrap_or(shown);
    Text { content, total_lines, truncated: more || cut_line }
}

/// Notes for the model that clients append to a file.
fn without_reminders(text: &str) -> &str {
    let mut text = text;
    while let Some(before) = text
        .trim_end()
        .strip_suffix("</system-reminder>")
        .and_then(|rest| rest.rsplit_once("<system-reminder>"))
        .map(|(before, _)| before)
    {
        text = before.trim_end_matches('\n');
    }
    text
}

/// What is between the tags, if there are any.
fn inner(text: &str) -> (&str, bool) {
    for (open, close) in [("<content>\n", "</content>"), ("<file>\n", "</file>")] {
        let head = text.trim_start();
        let named = open == "<content>\n" && head.starts_with("<path>");
        if !named && !head.starts_with(open) {
            continue;
        }
        let Some((_, rest)) = head.split_once(open) else { continue };
        let body = rest.trim_end().strip_suffix(close).unwrap_or(rest);
        return (body.trim_matches('\n'), true);
    }
    (text, false)
}

/// The note in brackets at the end.
fn split_note(body: &str) -> (&str, &str) {
    let body = body.trim_end();
    let (before, last) = body.rsplit_once('\n').unwrap_or(("", body));
    if last.starts_with('(') && last.ends_with(')') {
        (before.trim_end_matches('\n'), last)
    } else {
        (body, "")
    }
}

/// `total 12 lines`, `of 12.`
fn total(note: &str) -> Option<usize> {
    let words: Vec<&str> = note.split([' ', '(', ')', '.']).collect();
    words.windows(2).find_map(|pair| match pair {
        ["total" | "of", number] => number.parse().ok(),
        _ => None,
    })
}

/// `   12→text`, `12\ttext`, `00012| text`, `12: text`, `L12: text`.
fn line_number(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start_matches(' ');
    let line = line.strip_prefix('L').unwrap_or(line);
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let (digits, rest) = line.split_at_checked(end)?;
    let rest = ["→", "\t", "| ", "|", ": ", ":"].iter().find_map(|sign| rest.strip_prefix(sign))?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
