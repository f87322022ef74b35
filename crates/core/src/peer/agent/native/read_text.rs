//! What clients print when they show a file: tags, notes, line numbers around its
//! text, and remarks that it is not all of it.
//!
//! The backend writes files back whole. So a text counts as the whole file only if
//! nothing speaks against it, and a byte is taken off only if it is surely not the
//! file's own.

use super::outcome;

/// A file's text, and what is known of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) content: String,
    /// As far as the answer shows it.
    pub(super) total_lines: usize,
    /// Not all of the file, or perhaps not the file as it is: it must not be written
    /// back.
    pub(super) truncated: bool,
}

/// What a command printed: the file itself, unless the client has cut it.
pub(super) fn printed(text: &str, first: usize) -> Text {
    if let Some(pieces) = elided(text) {
        return text_of(pieces, first, None, true);
    }
    let notes = Notes::around(text);
    let cut = notes.cut || has_gap(text);
    text_of(notes.body.to_owned(), first, notes.total, cut)
}

/// What a reading tool shows, without its tags, notes and line numbers. `first` is the number that
/// the first line must have: otherwise digits are the file's own. `numbers` means that the tool is
/// known to number lines.
pub(super) fn shown(text: &str, first: usize, numbers: bool) -> Text {
    if let Some(pieces) = elided(text) {
        return text_of(pieces, first, None, true);
    }
    let bare = without_reminders(text);
    let reminded = text.get(bare.len()..).is_some_and(opening_says_cut);
    if let Some((inner, closed)) = inner(bare) {
        let (body, note) = split_note(inner);
        let stripped = numbered(body, first, Numbering::Any);
        // Numbers that do not run on from the first line may be the tool's or the file's.
        let odd = stripped.is_none() && line_number(body).is_some();
        let cut = !closed || odd || reminded || says_cut(note) || Notes::around(body).cut;
        return text_of(stripped.unwrap_or_else(|| body.to_owned()), first, total(note), cut);
    }
    let numbering = if numbers { Numbering::Any } else { Numbering::Certain };
    let notes = Notes::around(bare);
    // A last remark without brackets is one where the lines before it are numbered.
    let body = notes.before_last.filter(|before| numbered(before, first, numbering).is_some());
    if let Some(content) = numbered(body.unwrap_or(notes.body), first, numbering) {
        return text_of(content, first, notes.total, notes.cut || reminded);
    }
    if is_empty_file(text) {
        return text_of(String::new(), first, None, false);
    }
    // Not numbered: what looks like a reminder is the file's own, too. Where numbers were
    // promised, this is perhaps not the file.
    let notes = Notes::around(text);
    let odd = numbers || numbered(notes.body, first, Numbering::Any).is_some();
    let cut = notes.cut || odd || has_gap(text) || outcome::may_be_error(text);
    text_of(notes.body.to_owned(), first, notes.total, cut)
}

fn text_of(content: String, first: usize, total: Option<usize>, truncated: bool) -> Text {
    let cut_line = content.lines().any(|line| {
        line.contains("... (line truncated to ") || line.trim_end().ends_with("... [truncated]")
    });
    let lines = (first - 1).saturating_add(content.lines().count());
    let total_lines = total.filter(|total| *total >= lines).unwrap_or(lines);
    Text { content, total_lines, truncated: truncated || cut_line }
}

// === remarks ===

/// How many lines at the start and at the end are looked at.
const FIRST_LINES: usize = 5;
const LAST_LINES: usize = 3;
/// A longer line is not a remark.
const REMARK: usize = 400;

/// The remarks around a text that say that it is not all.
#[derive(Debug)]
struct Notes<'a> {
    /// The text without those that are surely remarks.
    body: &'a str,
    /// The text without its last line, where that says that it was cut.
    before_last: Option<&'a str>,
    total: Option<usize>,
    cut: bool,
}

impl<'a> Notes<'a> {
    fn around(text: &'a str) -> Self {
        let mut notes = Self { body: text, before_last: None, total: None, cut: false };
        notes.take_head();
        notes.take_tail();
        let mut found = |line: &str| {
            if says_cut(line) {
                notes.cut = true;
                notes.total = notes.total.or_else(|| total(line));
            }
        };
        text.lines().filter(|line| !line.trim().is_empty()).take(FIRST_LINES).for_each(&mut found);
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(LAST_LINES).for_each(found);
        notes
    }

    /// A remark that is set off from the file by a line of its own.
    fn take_head(&mut self) {
        let mut lines = self.body.split_inclusive('\n');
        let mut length = 0;
        let mut says = false;
        for line in lines.by_ref().take(FIRST_LINES + LAST_LINES) {
            length += line.len();
            says |= says_cut(line);
            let bar = line.trim_end();
            let bracketed = says && length == line.len() && is_bracketed(bar);
            if bracketed || (says && bar.starts_with("---") && bar.ends_with("---")) {
                let rest = self.body.get(length..).unwrap_or_default();
                // One blank line belongs to a bare bar.
                let rest =
                    if bar == "---" { rest.strip_prefix('\n').unwrap_or(rest) } else { rest };
                self.body = rest;
                self.cut = true;
                return;
            }
        }
    }

    /// A remark in brackets on the last line, and any last line that says so.
    fn take_tail(&mut self) {
        let body = self.body.trim_end();
        let (before, last) = body.rsplit_once('\n').unwrap_or(("", body));
        if !says_cut(last) {
            return;
        }
        let before = before.trim_end_matches('\n');
        self.before_last = Some(before);
        if is_bracketed(last.trim()) {
            self.body = before;
        }
    }
}

fn is_bracketed(line: &str) -> bool {
    [('[', ']'), ('(', ')')]
        .iter()
        .any(|(open, close)| line.starts_with(*open) && line.ends_with(*close))
}

/// Whether a line says that there is more than is shown. A file's own line may say
/// so, too; then the file is not written back, which is the lesser evil.
fn says_cut(line: &str) -> bool {
    const PHRASES: [&str; 28] = [
        "showing lines ",
        "showing first ",
        "showing the first ",
        "showing last ",
        "showing the last ",
        "showing only ",
        "more lines in file",
        "more lines in the file",
        "more lines not shown",
        "has more lines",
        "lines remaining",
        "remaining lines",
        "content truncated",
        "been truncated",
        "was truncated",
        "is truncated",
        "file truncated",
        "output truncated",
        "results truncated",
        "truncated output",
        "truncated to ",
        "truncated at ",
        "truncated after ",
        "truncated due to ",
        "output capped",
        "output too large",
        "output too long",
        "partial view",
    ];
    if line.len() > REMARK {
        return false;
    }
    let line = line.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| line.contains(word));
    let exceeds = line.contains("exceed") && any(&["limit", "maximum", "max "]);
    any(&PHRASES) || exceeds || is_gap(&line)
}

/// Whether one of the first lines says so.
pub(super) fn opening_says_cut(text: &str) -> bool {
    text.lines().take(FIRST_LINES).any(says_cut)
}

/// Whether something is missing in the middle. Shell tools cut there.
fn has_gap(text: &str) -> bool {
    ["tokens truncated…", "chars truncated…", "[... omitted "]
        .iter()
        .any(|sign| text.contains(sign))
        || text.lines().any(is_gap)
}

/// `... [120 lines truncated] ...`, `[… 30 characters omitted]`.
fn is_gap(line: &str) -> bool {
    let line = line.trim();
    let dots = ["...", "…", "[...", "[…", "<...", "(...", "(…"];
    // Hardly a line gets further, and files have many.
    if line.len() > REMARK || !dots.iter().any(|sign| line.starts_with(sign)) {
        return false;
    }
    let line = line.to_lowercase();
    ["truncated", "omitted", "elided", "more lines"].iter().any(|word| line.contains(word))
}

/// The pieces that mini-SWE-agent leaves of a long output, with its count between.
fn elided(text: &str) -> Option<String> {
    let piece = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        let (inner, _) = rest.split_once(&format!("</{tag}>"))?;
        Some(inner.trim_matches('\n'))
    };
    if !text.trim_start().starts_with('<') {
        return None;
    }
    let (head, gap, tail) = (piece("output_head")?, piece("elided_chars")?, piece("output_tail")?);
    Some(format!("{head}\n[... {gap} ...]\n{tail}\n"))
}

/// `total 12 lines`, `of 12.`
fn total(note: &str) -> Option<usize> {
    let words: Vec<&str> = note.split([' ', '(', ')', '[', ']', '.', ',']).collect();
    words.windows(2).find_map(|pair| match pair {
        ["total" | "of", number] => number.parse().ok(),
        _ => None,
    })
}

// === tags ===

/// Without the notes for the model that clients append to a file.
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

/// Claude Code shows an empty file as a reminder and nothing else.
fn is_empty_file(text: &str) -> bool {
    let text = text.trim();
    text.len() <= REMARK
        && text.starts_with("<system-reminder>")
        && without_reminders(text).is_empty()
        && text.contains("empty")
}

/// What is between the tags, if there are any, and whether they are closed.
fn inner(text: &str) -> Option<(&str, bool)> {
    let head = text.trim_start();
    for (open, close) in [("<content>\n", "</content>"), ("<file>\n", "</file>")] {
        let named = open == "<content>\n" && head.starts_with("<path>");
        if !named && !head.starts_with(open) {
            continue;
        }
        let Some((_, rest)) = head.split_once(open) else { continue };
        let body = rest.trim_end().strip_suffix(close);
        return Some((body.unwrap_or(rest).trim_matches('\n'), body.is_some()));
    }
    None
}

/// The note in brackets at the end of what is between tags.
fn split_note(body: &str) -> (&str, &str) {
    let shown = body.trim_end();
    let (before, last) = shown.rsplit_once('\n').unwrap_or(("", shown));
    if last.starts_with('(') && last.ends_with(')') {
        (before.trim_end_matches('\n'), last)
    } else {
        (body, "")
    }
}

// === line numbers ===

/// Which signs after a number count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    /// All: it is known that lines are numbered.
    Any,
    /// Only forms that files themselves do not have: `12→text`, and `    12\ttext`.
    Certain,
}

/// The lines without their numbers, if each has the one that is due.
fn numbered(body: &str, first: usize, numbering: Numbering) -> Option<String> {
    let sign = body.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
    let certain = sign.starts_with('→') || (sign.starts_with('\t') && body.starts_with(' '));
    if body.is_empty() || (numbering == Numbering::Certain && !certain) {
        return None;
    }
    // Not `lines`: a carriage return is the file's own.
    let lines: Vec<&str> = body.strip_suffix('\n').unwrap_or(body).split('\n').collect();
    let last = lines.len() - 1;
    let stripped: Option<Vec<&str>> = lines
        .into_iter()
        .enumerate()
        .map(|(at, line)| {
            let due = first.saturating_add(at);
            // Claude Code counts the nothing behind the last newline, and leaves it bare.
            if at == last && at > 0 && line.parse() == Ok(due) {
                return Some("");
            }
            let (number, rest) = line_number(line)?;
            (number == due).then_some(rest)
        })
        .collect();
    let mut content = stripped?.join("\n");
    // Numbered lines do not show whether the last one ends with a newline. Text files do.
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    Some(content)
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
#[path = "read_text_tests.rs"]
mod tests;
