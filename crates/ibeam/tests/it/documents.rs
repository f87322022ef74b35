//! What documents promise: links that lead somewhere, blocks that can be copied, a page for
//! each client with the same questions answered, and every error with a way out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use ibeam_core::error::ErrorCode;
use saphyr_parser::Parser;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page, by its path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut folders = vec![root().join("docs"), root().join("packaging"), root().join("plugin")];
    let mut pages = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        pages.push(entry.unwrap().path());
    }
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                pages.push(path);
            } else if !path.ends_with("node_modules") {
                folders.push(path);
            }
        }
    }
    let text = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_owned(), text)
    };
    pages.into_iter().filter(|path| path.extension().is_some_and(|k| k == "md")).map(text).collect()
}

fn clients() -> impl Iterator<Item = (PathBuf, String)> {
    pages().into_iter().filter(|(path, _)| {
        path.parent() == Some(Path::new("docs/clients")) && !path.ends_with("README.md")
    })
}

/// Lines with whether they are code.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.lines().scan(false, |code, line| {
        let fence = line.trim_start().starts_with("```");
        *code ^= fence;
        Some((line, *code || fence))
    })
}

/// As code hosts make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).filter(|(line, code)| !code && line.starts_with('#'));
    headings
        .map(|(line, _)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn links_are_valid() {
    let pages = pages();
    let mut seen = 0;
    let mut broken = Vec::new();
    for (page, text) in &pages {
        let folder = root().join(page.parent().unwrap());
        for (line, _) in lines(text).filter(|(_, code)| !code) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                seen += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() { root().join(page) } else { folder.join(path) };
                let Ok(target) = target.canonicalize() else {
                    broken.push(format!("{}: {link}", page.display()));
                    continue;
                };
                let known = pages.get(target.strip_prefix(root()).unwrap());
                if !anchor.is_empty() && !known.is_some_and(|text| anchors(text).contains(anchor)) {
                    broken.push(format!("{}: {link} (no such heading)", page.display()));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} links were found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Pages under `docs` that its index does not link to.
fn missing_from<'a>(index: &str, pages: impl Iterator<Item = &'a Path>) -> Vec<&'a str> {
    pages
        .filter_map(|page| page.strip_prefix("docs").ok()?.to_str())
        .filter(|page| *page != "README.md" && !index.contains(&format!("]({page})")))
        .collect()
}

#[test]
fn index_links_to_every_page() {
    let pages = pages();
    let index = pages.get(Path::new("docs/README.md")).expect("docs has an index");
    let paths = pages.keys().map(PathBuf::as_path);
    assert_eq!(missing_from(index, paths), Vec::<&str>::new(), "not in docs/README.md");
    let new = [Path::new("docs/clients/new.md"), Path::new("docs/api.md")];
    assert_eq!(missing_from(index, new.into_iter()), ["clients/new.md"]);
}

/// What a block says behind its three backquotes, and its text.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                blocks.push((info, String::new()));
            }
        } else if let Some((_, block)) = blocks.last_mut().filter(|_| inside) {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

#[test]
fn code_blocks_match_their_language() {
    let mut seen = 0;
    for (page, text) in clients() {
        let files = blocks(&text).into_iter().filter(|(info, _)| info.contains(" file="));
        let address = files.filter(|(_, block)| block.contains("http://127.0.0.1:18741")).count();
        assert!(address > 0, "{}: no file with the address", page.display());
        for (info, block) in blocks(&text) {
            let (language, more) = info.split_once(' ').unwrap_or((info, ""));
            let here = format!("{}: {info}", page.display());
            match language {
                "json" => drop(serde_json::from_str::<serde_json::Value>(&block).expect(&here)),
                "toml" => drop(block.parse::<toml_edit::DocumentMut>().expect(&here)),
                "yaml" => {
                    for event in Parser::new_from_str(&block) {
                        event.expect(&here);
                    }
                }
                "sh" | "dotenv" | "python" | "js" => {}
                _ => panic!("{here}: no language that is known"),
            }
            if let Some(path) = more.strip_prefix("file=") {
                assert!(path.starts_with("~/"), "{here}");
                let kind = Path::new(path).extension().unwrap().to_str().unwrap();
                let kind = [("yml", "yaml"), ("env", "dotenv")]
                    .into_iter()
                    .find_map(|(end, language)| (end == kind).then_some(language))
                    .unwrap_or(kind);
                assert_eq!(kind, language, "{here}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 13, "only {seen} files were found");
}

#[test]
fn client_pages_have_the_same_sections() {
    let index = fs::read_to_string(root().join("docs/clients/README.md")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for (page, text) in clients() {
        let name = page.file_name().unwrap().to_str().unwrap();
        for heading in [
            "In one command",
            "By hand",
            "Models and efforts",
            "Tools and images",
            "Known limits",
            "Undo",
            "When it does not work",
        ] {
            let found = text.matches(&format!("\n## {heading}\n")).count();
            assert_eq!(found, 1, "{name}: {heading}");
        }
        for command in ["ibeam setup ", "ibeam run ", "ibeam undo "] {
            assert!(text.contains(&format!("\n{command}")), "{name}: {command}");
        }
        assert!(index.contains(&format!("]({name})")), "the index lacks {name}");
        assert!(readme.contains(&format!("(docs/clients/{name})")), "the README lacks {name}");
    }
}

/// `cancelled` is for clients that left, and a thread is refused so that an SDK continues.
const UNSEEN: [ErrorCode; 2] = [ErrorCode::Cancelled, ErrorCode::ThreadUnsupported];

#[test]
fn every_error_has_a_remedy() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let errors = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    for code in ErrorCode::ALL.into_iter().filter(|code| !UNSEEN.contains(code)) {
        let name = code.row().code;
        let (plain, linked) = (format!("`{name}`"), format!("[`{name}`](errors.md#"));
        assert!(rows.iter().any(|row| row.contains(&plain)), "{name} is not there");
        // `server_error` is also the name of a type.
        let told = code != ErrorCode::Internal
            && [name, &plain].iter().any(|name| errors.contains(&format!("| {name} |")));
        let links = rows.iter().any(|row| row.contains(&linked));
        assert!(!told || links, "{name} has rows in errors.md and no link to them");
    }
}
