//! What clients print around the output of a command: headers, tags, JSON. Each family has its own
//! way to report the exit code, and some report none.

use serde_json::Value;

use crate::codec::json::JsonSize;

/// A command's output as far as the client separates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: i32,
    /// Stopped by its time limit, or still running when the client stopped waiting.
    pub(super) timed_out: bool,
    /// Stopped by the user.
    pub(super) aborted: bool,
}

/// `timeout(1)` exits with this.
const TIMED_OUT: i32 = 124;
/// How clients begin to say so.
const TIME_OUT: &str = "command timed out";

impl Output {
    /// Both streams, for where there is room for one text.
    pub(super) fn whole(&self) -> String {
        match (self.stdout.is_empty(), self.stderr.is_empty()) {
            (_, true) => self.stdout.clone(),
            (true, false) => self.stderr.clone(),
            (false, false) => format!("{}\n{}", self.stdout.trim_end_matches('\n'), self.stderr),
        }
    }
}

/// Reads a result. Without any sign of an exit code, an error is 1 and the rest 0.
pub(super) fn parse(text: &str, is_error: bool) -> Output {
    let found = json(text).or_else(|| headed(text)).or_else(|| sections(text));
    let (mut output, code) = found.unwrap_or_else(|| plain(text));
    if !output.timed_out && (is_error || code.is_some()) {
        let opening = output.stdout.trim_start().get(..TIME_OUT.len());
        output.timed_out = opening.is_some_and(|words| words.eq_ignore_ascii_case(TIME_OUT));
    }
    let unknown = if output.timed_out { TIMED_OUT } else { i32::from(is_error || output.aborted) };
    output.code = code.unwrap_or(unknown);
    output
}

/// `{"output": …, "metadata": {"exit_code": …}}` and `{"stdout": …, "stderr": …}`.
fn json(text: &str) -> Option<(Output, Option<i32>)> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let value = JsonSize::CLIENT.parse(text)?;
    let string = |key: &str| value.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    let places = [Some(&value), value.get("metadata")];
    let code = places.into_iter().flatten().find_map(|place| {
        ["exit_code", "exitCode", "returncode", "exit"]
            .iter()
            .find_map(|key| place.get(key))
            .and_then(Value::as_i64)
    });
    // A command may print JSON of its own: only with an exit code is it the client's.
    let code = i32::try_from(code?).ok();
    let stdout = string("output").or_else(|| string("stdout"))?;
    let stderr = string("stderr").unwrap_or_default();
    Some((Output { stdout, stderr, ..Output::default() }, code))
}

/// `Exit code: 0`, `Wall time: …`, then `Output:` and everything after it; also a
/// first line `Exit code 1`, and a `returncode` tag.
fn headed(text: &str) -> Option<(Output, Option<i32>)> {
    if let Some(rest) = text.trim_start().strip_prefix("<returncode>") {
        let (code, rest) = rest.split_once("</returncode>")?;
        let body = rest.trim().strip_prefix("<output>").unwrap_or(rest.trim());
        let body = body.strip_suffix("</output>").unwrap_or(body).trim_start_matches('\n');
        return Some((Output { stdout: body.to_owned(), ..Output::default() }, number(code)));
    }
    let mut output = Output::default();
    let mut code = None;
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if line.trim_end() == "Output:" && rest.len() < text.len() {
            after.clone_into(&mut output.stdout);
            return Some((output, code));
        }
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match key {
            "Exit code" => code = number(value),
            "Chunk ID" | "Wall time" | "Original token count" | "Total output lines" => {}
            _ if line.starts_with("Process exited with code ") => {
                code = line.rsplit(' ').next().and_then(number);
            }
            _ if line.starts_with("Process running with session ID ") => {
                output.timed_out = true;
                line.clone_into(&mut output.stderr);
            }
            _ => break,
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    let (first, after) = text.split_once('\n').unwrap_or((text, ""));
    let code =
        first.strip_prefix("Exit code").and_then(|rest| number(rest.trim_start_matches(':')));
    code?;
    after.clone_into(&mut output.stdout);
    Some((output, code))
}

/// `Command: …`, `Output: …`, `Error: …`, `Exit Code: …`, each at a line's start.
fn sections(text: &str) -> Option<(Output, Option<i32>)> {
    if !text.starts_with("Command: ") {
        return None;
    }
    let after = |key: &str| text.find(key).map(|at| (at, at + key.len()));
    let (_, stdout) = after("\nOutput: ").or_else(|| after("\nStdout: "))?;
    let error = after("\nError: ").or_else(|| after("\nStderr: "));
    let (code_at, code) = after("\nExit Code: ")?;
    let end = error.map_or(code_at, |(at, _)| at.min(code_at));
    let shown = |from: usize, to: usize| match text.get(from..to).unwrap_or_default() {
        "(empty)" | "(none)" => String::new(),
        other => other.to_owned(),
    };
    let code = text.get(code..)?.lines().next().and_then(number);
    let stderr = error.map(|(_, from)| shown(from, code_at)).unwrap_or_default();
    Some((Output { stdout: shown(stdout, end), stderr, ..Output::default() }, code.or(Some(0))))
}

/// Plain text, with notes of the client in a tag or a line at its end.
fn plain(text: &str) -> (Output, Option<i32>) {
    let mut output = Output { stdout: text.to_owned(), ..Output::default() };
    for tag in ["bash_metadata", "shell_metadata", "metadata"] {
        let Some((before, notes)) = text.rsplit_once(&format!("<{tag}>")) else { continue };
        let Some(notes) = notes.trim_end().strip_suffix(&format!("</{tag}>")) else { continue };
        let lower = notes.to_lowercase();
        output.timed_out = lower.contains("timeout") || lower.contains("timed out");
        output.aborted = lower.contains("aborted");
        output.stdout = before.trim_end_matches('\n').to_owned();
        output.stderr = notes.trim().to_owned();
        break;
    }
    let mut code = None;
    let shown = output.stdout.trim_end();
    let (before, last) = shown.rsplit_once('\n').unwrap_or(("", shown));
    let tail = last.trim_matches(['(', ')', '[', ']']).to_lowercase();
    for key in ["command exited with code ", "exit code: ", "exited with code "] {
        if let Some(found) = tail.strip_prefix(key).and_then(number) {
            code = Some(found);
            output.stdout = before.trim_end_matches('\n').to_owned();
            break;
        }
    }
    if let Some(whole) = tagged(&output.stdout) {
        (output.stdout, output.stderr) = whole;
    }
    if ["(no output)", "(Bash completed with no output)"].contains(&output.stdout.trim()) {
        output.stdout.clear();
    }
    (output, code)
}

/// `<stdout>` and `<stderr>` around the two streams.
fn tagged(text: &str) -> Option<(String, String)> {
    let inner = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        let (inner, _) = rest.rsplit_once(&format!("</{tag}>"))?;
        Some(inner.trim_matches('\n').to_owned())
    };
    if !text.trim_start().starts_with("<std") {
        return None;
    }
    Some((inner("stdout").unwrap_or_default(), inner("stderr").unwrap_or_default()))
}

fn number(text: &str) -> Option<i32> {
    text.trim().trim_end_matches('.').parse().ok()
}

#[cfg(test)]
#[path = "shell_text_tests.rs"]
mod tests;
