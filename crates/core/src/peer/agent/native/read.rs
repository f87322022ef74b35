//! Files: to the client's reading tool or its shell, and the text back without
//! what the client put around it.

use bytes::Bytes;
use ibeam_proto::agent::{
    ReadArgs, ReadError, ReadFileNotFound, ReadInvalidFile, ReadPermissionDenied, ReadRejected,
    ReadResult, ReadSuccess, exec_client_message::Message as Reply,
    read_result::Result as ReadOutcome, read_success,
};

pub(super) use super::read_text::Text;
use super::{
    ClientCall, Equipment, Order, Outcome, Through,
    outcome::{FORBIDDEN, MISSING, bare, mentions},
    quote, read_text,
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
    pub(super) habits: Habits,
}

/// What is known beforehand of the answer, from the way of asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habits {
    /// The tool gives the whole file: the range is cut out of it here.
    pub(super) cut: bool,
    /// The tool says that it numbers the lines.
    pub(super) numbers: bool,
    /// The tool gives no more lines than this. An answer that has as many may have
    /// been longer.
    pub(super) most: Option<usize>,
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
    let (order, habits, through) = order(&args.path, range, kit)?;
    let form = Form { arm, path: args.path.clone(), range, habits };
    Some(order.with(super::Form::Read(form), through))
}

/// The call, how its answer is to be read, and who makes it.
pub(super) fn order(path: &str, range: Range, kit: &Equipment) -> Option<(Order, Habits, Through)> {
    if path.is_empty() {
        return None;
    }
    let by_tool = kit.pick(Capability::Read, |tool| {
        let mut given = vec![must(Slot::Path, path), may(Slot::About, "Reads a file")];
        let starts = range.first == 1 || tool.has(Slot::FirstLine);
        let ends = tool.has(Slot::LineCount) || tool.has(Slot::LastLine);
        let cut = !starts || (range.count.is_some() && !ends);
        let mut most = None;
        if range.count.is_none() && tool.has(Slot::LineCount) {
            let declared = tool.maximum(Slot::LineCount);
            given.push(may(Slot::LineCount, declared.unwrap_or(ALL_LINES)));
            most = declared.or_else(|| tool.said_maximum(Slot::LineCount)).or(Some(ALL_LINES));
        }
        if !range.is_whole() && !cut {
            let base = usize::from(tool.counts_from_zero());
            given.push(may(Slot::FirstLine, range.first - base));
            if let Some(count) = range.count {
                let last = (range.first - base).saturating_add(count - 1);
                given.extend([may(Slot::LineCount, count), may(Slot::LastLine, last)]);
            }
        }
        Some((tool.fill(&given)?, Habits { cut, numbers: tool.numbers_lines(), most }))
    });
    if let Some((order, habits)) = by_tool {
        return Some((order, habits, Through::Tool));
    }
    let file = quote::path(path);
    let command = match range {
        _ if range.is_whole() => format!("cat {file}"),
        Range { first, count: None } => format!("sed -n '{first},$p' {file}"),
        Range { first, count: Some(count) } => {
            format!("sed -n '{first},{}p' {file}", first.saturating_add(count - 1))
        }
    };
    let order = shell::run(kit, &command, "", None, "Reads a file")?;
    Some((order, Habits::default(), Through::Shell))
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
        let Habits { cut, numbers, most } = self.habits;
        let first = if cut { 1 } else { self.range.first };
        let mut found = if raw {
            read_text::printed(text, first)
        } else {
            read_text::shown(self.without_title(text), first, numbers)
        };
        found.truncated |= most.is_some_and(|most| found.content.lines().count() == most);
        if cut {
            let lines = found.content.split_inclusive('\n').skip(self.range.first - 1);
            found.content = lines.take(self.range.count.unwrap_or(usize::MAX)).collect();
        }
        found
    }

    /// Continue puts a line above the file that names it as it was asked for.
    fn without_title<'a>(&self, text: &'a str) -> &'a str {
        let below =
            text.strip_prefix("Content of ").and_then(|rest| rest.strip_prefix(&*self.path));
        below.and_then(|rest| rest.strip_prefix(":\n")).unwrap_or(text)
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

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
