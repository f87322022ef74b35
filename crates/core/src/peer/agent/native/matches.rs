//! What searches print: `path:line:text`, headings with numbered lines, lists of
//! names, counts.

use std::collections::{HashMap, HashSet};

use ibeam_proto::agent::{
    GrepContentMatch, GrepContentResult, GrepCountResult, GrepFileCount, GrepFileMatch,
    GrepFilesResult, GrepUnionResult, grep_union_result,
};

use super::grep::Mode;

/// What was found, by file and in the order of the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    files: Vec<GrepFileMatch>,
    /// Where the answer counts instead of showing lines.
    counts: Option<Vec<GrepFileCount>>,
    truncated: bool,
}

/// Whether a text shows at least one match.
pub(super) fn any(text: &str) -> bool {
    text.lines().any(|line| numbered(line, ':').is_some())
}

/// Reads an answer. `knows_mode`: whether the tool knew which mode was wanted; `context` whether lines
/// around matches were asked for; `asked` is the path that was searched, for answers that name no
/// file.
pub(super) fn read(text: &str, mode: Mode, knows_mode: bool, context: bool, asked: &str) -> Found {
    let mut truncated = false;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .filter(|line| {
            let note = note(line);
            truncated |= note == Some(true);
            note.is_none()
        })
        .collect();
    let mut found = match mode {
        Mode::Content => content(&lines, context, asked),
        Mode::Files if knows_mode => names(&lines),
        Mode::Count if knows_mode => counts(&lines),
        // The tool shows lines, or just names.
        Mode::Files | Mode::Count => {
            let shows_lines =
                lines.iter().any(|line| numbered(line, ':').is_some() || labelled(line).is_some());
            if shows_lines { content(&lines, context, asked) } else { names(&lines) }
        }
    };
    found.truncated = truncated;
    found
}

/// Whether a line is a remark of the client; if so, whether it says that there is
/// more.
fn note(line: &str) -> Option<bool> {
    let line = line.trim();
    let lower = line.to_lowercase();
    let bracketed = (line.starts_with('(') && line.ends_with(')'))
        || (line.starts_with('[') && line.ends_with(']'));
    let more = ["truncated", "more matches", "pagination", "limit reached"];
    if bracketed && more.iter().any(|phrase| lower.contains(phrase)) {
        return Some(true);
    }
    let counted = lower.strip_prefix("found ").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && ["match", "file", "result"].iter().any(|word| rest.contains(word))
    });
    let nothing = ["no files found", "no matches found", "no matches", "no files"];
    let none = nothing.iter().any(|phrase| lower.trim_end_matches('.') == *phrase)
        || lower.starts_with("no files found matching");
    (counted || none || line == "--").then(|| lower.contains("more "))
}

fn names(lines: &[&str]) -> Found {
    let files = lines
        .iter()
        .map(|line| GrepFileMatch { file: line.trim().to_owned(), matches: Vec::new() })
        .collect();
    Found { files, ..Found::default() }
}

fn counts(lines: &[&str]) -> Found {
    let counts = lines
        .iter()
        .filter_map(|line| match line.rsplit_once(':') {
            Some((file, count)) => match count.trim().parse() {
                // `grep -c` names every file that it looked at.
                Ok(0) => None,
                Ok(count) => Some(GrepFileCount { file: file.to_owned(), count }),
                Err(_) => Some(GrepFileCount { file: (*line).to_owned(), count: 0 }),
            },
            None => Some(GrepFileCount { file: (*line).to_owned(), count: 0 }),
        })
        .collect();
    Found { counts: Some(counts), ..Found::default() }
}

/// Lines by file. What is not understood is kept as a line without a number.
fn content(lines: &[&str], context: bool, asked: &str) -> Found {
    let files: HashSet<&str> =
        lines.iter().filter_map(|line| numbered(line, ':')).map(|(file, ..)| file).collect();
    let mut sheet = Sheet::default();
    let mut heading = asked;
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        let around = numbered(line, '-').filter(|(file, ..)| context && files.contains(file));
        let hit = numbered(line, ':');
        if let Some((number, text)) = labelled(line) {
            sheet.add(heading, number, text, false);
        } else if let Some((file, number, text)) = around
            && hit.is_none_or(|(other, ..)| file.len() < other.len())
        {
            sheet.add(file, number, text, true);
        } else if let Some((file, number, text)) = hit {
            sheet.add(file, number, text, false);
        } else if let Some((number, text, is_context)) = bare_number(line) {
            sheet.add(heading, number, text, is_context && context);
        } else if labelled(next).is_some() || bare_number(next).is_some() {
            heading = line.trim_end().trim_end_matches(':');
        } else {
            sheet.add(heading, 0, line, false);
        }
    }
    Found { files: sheet.files, ..Found::default() }
}

/// Matches under their files, which may come back later in the answer.
#[derive(Default)]
struct Sheet {
    files: Vec<GrepFileMatch>,
    places: HashMap<String, usize>,
}

impl Sheet {
    fn add(&mut self, file: &str, line_number: i32, content: &str, is_context_line: bool) {
        let next = self.files.len();
        let at = *self.places.entry(file.to_owned()).or_insert(next);
        if at == next {
            self.files.push(GrepFileMatch { file: file.to_owned(), matches: Vec::new() });
        }
        if let Some(found) = self.files.get_mut(at) {
            found.matches.push(GrepContentMatch {
                line_number,
                content: content.to_owned(),
                content_truncated: false,
                is_context_line,
            });
        }
    }
}

/// `path:12:text`, or the same with `-`, which marks lines around a match.
fn numbered(line: &str, sign: char) -> Option<(&str, i32, &str)> {
    let mut from = 0;
    while let Some(at) = line.get(from..)?.find(sign).map(|found| from + found) {
        from = at + 1;
        let rest = line.get(from..)?;
        let (digits, text) = rest.split_once(sign)?;
        if at > 0 && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return Some((line.get(..at)?, digits.parse().ok()?, text));
        }
    }
    None
}

/// `  Line 12: text`, below the name of its file.
fn labelled(line: &str) -> Option<(i32, &str)> {
    let rest = line.trim_start().strip_prefix("Line ")?;
    let (number, text) = rest.split_once(':')?;
    Some((number.parse().ok()?, text.strip_prefix(' ').unwrap_or(text)))
}

/// `12:text` and `11-text`, below the name of their file or without any.
fn bare_number(line: &str) -> Option<(i32, &str, bool)> {
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let (digits, rest) = line.split_at_checked(end)?;
    let number = digits.parse().ok()?;
    match rest.strip_prefix(':') {
        Some(text) => Some((number, text, false)),
        None => rest.strip_prefix('-').map(|text| (number, text, true)),
    }
}

impl Found {
    /// The typed result, no longer than was asked.
    pub(super) fn union(self, mode: Mode, head: Option<i32>) -> GrepUnionResult {
        let head = head.and_then(|limit| usize::try_from(limit).ok());
        let limit = head.unwrap_or(usize::MAX);
        let applied = |cut: bool| head.filter(|_| cut).map(number);
        let result = match mode {
            Mode::Files => {
                let mut files: Vec<String> = self.files.into_iter().map(|f| f.file).collect();
                let cut = files.len() > limit;
                files.truncate(limit);
                grep_union_result::Result::Files(GrepFilesResult {
                    total_files: number(files.len()),
                    files,
                    client_truncated: self.truncated || cut,
                    head_limit_applied: applied(cut),
                    ..GrepFilesResult::default()
                })
            }
            Mode::Count => {
                let mut counts = self.counts.unwrap_or_else(|| counted(&self.files));
                let cut = counts.len() > limit;
                counts.truncate(limit);
                grep_union_result::Result::Count(GrepCountResult {
                    total_files: number(counts.len()),
                    total_matches: counts.iter().fold(0, |sum, c| sum.saturating_add(c.count)),
                    counts,
                    client_truncated: self.truncated || cut,
                    head_limit_applied: applied(cut),
                    ..GrepCountResult::default()
                })
            }
            Mode::Content => {
                let mut files = self.files;
                let mut left = limit;
                let mut cut = false;
                files.retain_mut(|file| {
                    cut |= file.matches.len() > left;
                    file.matches.truncate(left);
                    left -= file.matches.len();
                    !file.matches.is_empty()
                });
                let lines = || files.iter().flat_map(|file| &file.matches);
                grep_union_result::Result::Content(GrepContentResult {
                    total_lines: number(lines().count()),
                    total_matched_lines: number(lines().filter(|l| !l.is_context_line).count()),
                    client_truncated: self.truncated || cut,
                    head_limit_applied: applied(cut),
                    matches: files,
                    ..GrepContentResult::default()
                })
            }
        };
        GrepUnionResult { result: Some(result) }
    }
}

fn counted(files: &[GrepFileMatch]) -> Vec<GrepFileCount> {
    files
        .iter()
        .map(|file| GrepFileCount {
            file: file.file.clone(),
            count: number(file.matches.iter().filter(|line| !line.is_context_line).count()),
        })
        .collect()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
