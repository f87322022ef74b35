//! What a document says about tests.

/// One mention of a test, a group of tests or a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedCheck {
    /// `cargo test -p PACKAGE [--test TARGET] [FILTER]`.
    Tests { package: String, target: Option<String>, filter: String },
    /// `cargo xtask test --only NAME`.
    Step(String),
    /// `module::name_of_the_test`, in whichever package.
    Path(String),
}

/// The checks of a document, each with the number of its line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PromiseDocument {
    pub(super) checks: Vec<(usize, NamedCheck)>,
    /// Rows of a table with a column `check` or `test` that name none, and do not say `nothing`
    /// of what they promise.
    pub(super) bare: Vec<(usize, String)>,
}

/// A column with this heading names tests.
const HEADINGS: [&str; 2] = ["check", "test"];

/// What a row says that promises nothing.
const NOTHING: &str = "nothing";

impl PromiseDocument {
    pub(super) fn read(text: &str) -> Self {
        let mut document = Self::default();
        let (mut code, mut previous) = (false, "");
        // Of the present table, the column that names tests.
        let mut column = None;
        for (number, line) in (1..).zip(text.lines()) {
            let fence = line.trim_start().starts_with("```");
            code ^= fence;
            if fence {
                continue;
            }
            let here: Vec<NamedCheck> = if code {
                command(line).into_iter().collect()
            } else {
                quoted(line).filter_map(|words| command(words).or_else(|| path(words))).collect()
            };
            document.checks.extend(here.into_iter().map(|check| (number, check)));
            if code || !line.starts_with('|') {
                column = None;
            } else if is_ruler(line) {
                column = cells(previous).iter().position(|cell| HEADINGS.contains(cell));
            } else if let Some(at) = column {
                let cells = cells(line);
                let promises = cells.get(1).is_some_and(|cell| *cell != NOTHING);
                let cell = cells.get(at).copied().unwrap_or_default();
                let alone = quoted(cell).filter_map(name).map(|check| (number, check));
                let before = document.checks.len();
                document.checks.extend(alone);
                let named = document.checks.len() > before
                    || quoted(cell).any(|words| command(words).or_else(|| path(words)).is_some());
                if promises && !named {
                    let row = cells.first().copied().unwrap_or_default().to_owned();
                    document.bare.push((number, row));
                }
            }
            previous = line;
        }
        document
    }
}

/// The cells of a row.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// The line between the headings and the rows.
fn is_ruler(line: &str) -> bool {
    line.len() > 2 && line.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' '))
}

/// What stands between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A command that runs tests.
fn command(line: &str) -> Option<NamedCheck> {
    let line = line.split(" #").next().unwrap_or_default();
    let mut words = line.split_whitespace();
    if words.next() != Some("cargo") {
        return None;
    }
    match words.next()? {
        "xtask" if words.next() == Some("test") && words.next() == Some("--only") => {
            words.next().map(|name| NamedCheck::Step(name.to_owned()))
        }
        "test" => Some(tests(words)),
        "nextest" if words.next() == Some("run") => Some(tests(words)),
        _ => None,
    }
}

fn tests<'a>(mut words: impl Iterator<Item = &'a str>) -> NamedCheck {
    let (mut package, mut target, mut filter) = (String::new(), None, String::new());
    while let Some(word) = words.next() {
        match word {
            "-p" | "--package" => package = words.next().unwrap_or_default().to_owned(),
            "--test" => target = words.next().map(str::to_owned),
            "--features" | "-F" => drop(words.next()),
            "--" => break,
            flag if flag.starts_with('-') => {}
            name => name.clone_into(&mut filter),
        }
    }
    NamedCheck::Tests { package, target, filter }
}

/// The path of a test: names in lower case, at least two.
fn path(words: &str) -> Option<NamedCheck> {
    let several = words.contains("::") && words.split("::").all(is_plain);
    several.then(|| NamedCheck::Path(words.to_owned()))
}

/// The name of a test without its path, which only a column of tests may have: elsewhere it
/// could be anything.
fn name(words: &str) -> Option<NamedCheck> {
    let one = is_plain(words) && words.contains('_');
    one.then(|| NamedCheck::Path(words.to_owned()))
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(plain)
}
