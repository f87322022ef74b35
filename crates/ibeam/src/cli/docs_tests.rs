//! Commands in documents must exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Parser as _, error::ErrorKind};

use super::Cli;

/// Every page of the project, in both languages.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs")];
    let mut pages: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut pages }.push(path);
        }
    }
    pages.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages.sort();
    pages
}

/// The commands of a page: whole ones out of blocks for a shell, and what stands between
/// backquotes, which may be the name of a command only.
fn commands(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut whole, mut named) = (Vec::new(), Vec::new());
    let mut block: Option<bool> = None;
    let mut unfinished = String::new();
    for line in text.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            let shell = info.split(' ').next() == Some("sh");
            block = if block.is_some() { None } else { Some(shell) };
        } else if block == Some(true) {
            unfinished.push_str(line.trim());
            if let Some(more) = unfinished.strip_suffix('\\') {
                unfinished = more.to_owned();
                continue;
            }
            whole.extend(unfinished.starts_with("ibeam ").then(|| unfinished.clone()));
            unfinished.clear();
        } else if block.is_none() {
            let code = line.split('`').skip(1).step_by(2);
            named.extend(code.filter(|code| code.starts_with("ibeam ")).map(str::to_owned));
        }
    }
    (whole, named)
}

/// As a shell would, up to a comment or another command.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            ('|' | ';' | '<' | '>', None) => break,
            ('#', None) if words.last().is_some_and(String::is_empty) => break,
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What stands for something of the user's.
fn filled(command: &str) -> String {
    let client = command.starts_with("ibeam setup") || command.starts_with("ibeam undo");
    let name = if client || command.starts_with("ibeam run") { "codex" } else { "laptop" };
    command.replace("<client>", "codex").replace("<address>", "http://a:1").replace("NAME", name)
}

#[test]
fn every_command_in_the_documents_parses() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let (whole, named) = commands(&text);
        for command in &whole {
            seen += 1;
            if let Err(error) = Cli::try_parse_from(words(&filled(command)))
                && error.kind() != ErrorKind::DisplayHelp
            {
                wrong.push(format!("{}: {command}: {error}", page.display()));
            }
        }
        for command in named.iter().filter(|command| !command.contains('…')) {
            seen += 1;
            let words = words(&filled(command));
            let ends_with_a_flag = words.last().is_some_and(|word| word.starts_with("--"));
            let Err(error) = Cli::try_parse_from(words) else { continue };
            let only_a_name = match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand => true,
                ErrorKind::InvalidValue => ends_with_a_flag,
                _ => false,
            };
            if !only_a_name {
                wrong.push(format!("{}: `{command}`: {error}", page.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_are_split_like_in_a_shell() {
    let text = "Run `ibeam login`.\n```sh\nibeam serve --port 1 \\\n  --sim   # words\nls\n```\n\
                ```json\nibeam nothing\n```\n";
    let (whole, named) = commands(text);
    assert_eq!(whole, ["ibeam serve --port 1 --sim   # words"]);
    assert_eq!(named, ["ibeam login"]);
    assert_eq!(words("ibeam run claude -p \"a b\" # c"), ["ibeam", "run", "claude", "-p", "a b"]);
    assert_eq!(words("ibeam models --json | head"), ["ibeam", "models", "--json"]);
}
