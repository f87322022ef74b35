//! The size limit: no file that people write is longer than 800 lines.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use super::Outcome;

const LIMIT: usize = 800;
const KINDS: [&str; 10] = ["rs", "md", "toml", "proto", "mjs", "js", "ts", "tsx", "py", "sh"];
/// Not written by people, or not ours.
const SKIP: [&str; 8] =
    ["target", "node_modules", "generated", "assets", "snapshots", "dist", "__pycache__", ".git"];

pub(super) fn check() -> anyhow::Result<Outcome> {
    let mut seen = 0;
    let mut long = Vec::new();
    visit(&crate::root(), &mut |path, lines| {
        seen += 1;
        if lines > LIMIT {
            long.push(format!("{} ({lines} lines)", path.display()));
        }
    })?;
    if !long.is_empty() {
        bail!("longer than {LIMIT} lines: {}", long.join(", "));
    }
    println!("  {seen} files, none longer than {LIMIT} lines");
    Ok(Outcome::Passed)
}

fn visit(folder: &Path, found: &mut impl FnMut(&Path, usize)) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !SKIP.contains(&name.as_ref()) {
                visit(&path, found)?;
            }
        } else if path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known)) {
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            let lines = text.split(|byte| *byte == b'\n').count();
            found(path.strip_prefix(crate::root()).unwrap_or(&path), lines);
        }
    }
    Ok(())
}
