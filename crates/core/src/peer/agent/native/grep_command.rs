//! A search as a command line: `rg` where it is, whose expressions and file patterns
//! the model writes, else `grep` with the same meaning, or an error that says why not.

use super::{
    grep::{Mode, Query},
    quote,
};

/// Directories that a search skips unless it names them.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

pub(super) fn command(query: &Query<'_>, mode: Mode) -> String {
    // A pipe hides the exit code, which is 0 then.
    let head = query.head.map(|limit| format!(" | head -n {limit}")).unwrap_or_default();
    let modern = modern(query, mode);
    // `exit` would end a shell that the client continues to use.
    let plain = match plain(query, mode) {
        Ok(line) => format!("{line}{head}"),
        Err(why) => format!("echo {} >&2; (exit 2)", quote::word(&format!("grep: {why}"))),
    };
    format!("if command -v rg >/dev/null 2>&1; then {modern}{head}; else {plain}; fi")
}

fn modern(query: &Query<'_>, mode: Mode) -> String {
    let mut words = vec!["rg --no-heading --color never --hidden -nH".to_owned()];
    common(query, mode, &mut words);
    if query.multiline {
        words.push("-U --multiline-dotall".to_owned());
    }
    if !query.kind.is_empty() {
        words.push(format!("-t {}", quote::word(query.kind)));
    }
    if !query.glob.is_empty() {
        words.push(quote::word(&format!("--glob={}", anywhere(query.glob))));
    }
    words.extend(skipped(query.path).map(|name| quote::word(&format!("--glob=!{name}"))));
    words.push(target(query));
    words.join(" ")
}

fn plain(query: &Query<'_>, mode: Mode) -> Result<String, &'static str> {
    if query.multiline {
        return Err("a search over several lines needs ripgrep (rg), which is not installed here");
    }
    if !query.kind.is_empty() {
        return Err("a search by file type needs ripgrep (rg), which is not installed here; \
                    use a file name pattern");
    }
    let syntax = match query.literal {
        true => "-F",
        false if needs_perl(query.pattern) => "-P",
        false => "-E",
    };
    let mut words = vec![format!("grep -rnHI {syntax}")];
    common(&Query { literal: false, ..query.clone() }, mode, &mut words);
    for glob in braces(query.glob).iter().filter(|glob| !glob.is_empty()) {
        let (flag, glob) = match glob.strip_prefix('!') {
            Some(rest) => ("--exclude", rest),
            None => ("--include", glob.as_str()),
        };
        let mut name = glob;
        while let Some(rest) = name.strip_prefix("**/") {
            name = rest;
        }
        if name.contains(['/', '{']) {
            return Err("a pattern for paths needs ripgrep (rg), which is not installed here; \
                        give the directory as the path, and a pattern for file names");
        }
        words.push(quote::word(&format!("{flag}={name}")));
    }
    words.extend(skipped(query.path).map(|name| format!("--exclude-dir={name}")));
    words.push(target(query));
    Ok(words.join(" "))
}

/// What both programs call the same.
fn common(query: &Query<'_>, mode: Mode, words: &mut Vec<String>) {
    if query.literal {
        words.push("-F".to_owned());
    }
    if query.ignore_case {
        words.push("-i".to_owned());
    }
    match mode {
        Mode::Content => {
            for (flag, lines) in [("-B", query.before), ("-A", query.after), ("-C", query.around)] {
                words.extend(
                    lines.filter(|lines| *lines > 0).map(|lines| format!("{flag} {lines}")),
                );
            }
        }
        Mode::Files => words.push("-l".to_owned()),
        Mode::Count => words.push("-c".to_owned()),
    }
}

fn target(query: &Query<'_>) -> String {
    format!("-e {} {}", quote::word(query.pattern), quote::path(query.path))
}

fn skipped(path: &str) -> impl Iterator<Item = &'static str> + '_ {
    SKIPPED.into_iter().filter(move |name| !path.split(['/', '\\']).any(|part| part == *name))
}

/// A pattern with directories in it counts from where the command runs, which may not
/// be where the search begins. Too much is better than nothing.
fn anywhere(glob: &str) -> String {
    let (not, glob) = match glob.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", glob),
    };
    let anchored = glob.contains('/') && !glob.starts_with('/') && !glob.starts_with("**/");
    format!("{not}{}{}", if anchored { "**/" } else { "" }, glob.strip_prefix("./").unwrap_or(glob))
}

/// Whether POSIX would read an expression otherwise: classes like `\d`, groups with
/// options, lazy quantifiers, a backslash between brackets.
fn needs_perl(pattern: &str) -> bool {
    let mut brackets = false;
    let mut before = ' ';
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if brackets => return true,
            '\\' => {
                let next = chars.next().unwrap_or_default();
                if !r".*+?()[]{}|^$\bBwWsS".contains(next) {
                    return true;
                }
                before = ' ';
                continue;
            }
            '[' if !brackets => brackets = true,
            ']' if before != '[' => brackets = false,
            '?' if !brackets && "(*+?}".contains(before) => return true,
            _ => {}
        }
        before = c;
    }
    false
}

/// `*.{a,b}` as `*.a` and `*.b`: only shells and `rg` know braces. A pattern with
/// groups inside groups stays as it is.
pub(super) fn braces(glob: &str) -> Vec<String> {
    /// More choices than a real pattern has.
    const MOST: usize = 256;
    let mut done = Vec::new();
    let mut open = vec![glob.to_owned()];
    while let Some(next) = open.pop() {
        let parts = next.split_once('{').and_then(|(before, rest)| {
            let (choices, after) = rest.split_once('}')?;
            (!choices.contains('{')).then_some((before, choices, after))
        });
        match parts {
            Some((before, choices, after)) => {
                let all = choices.split(',').map(|choice| format!("{before}{choice}{after}"));
                open.extend(all.rev());
            }
            None => done.push(next),
        }
        if done.len() + open.len() > MOST {
            return vec![glob.to_owned()];
        }
    }
    done
}

#[cfg(test)]
#[path = "grep_command_tests.rs"]
mod tests;
