//! The size limit: no file that people write is longer than 800 lines.

use std::fs;

use anyhow::{Context as _, bail};

const LIMIT: usize = 800;
const KINDS: [&str; 10] = ["rs", "md", "toml", "proto", "mjs", "js", "ts", "tsx", "py", "sh"];
/// Not written by people, or not ours.
const SKIP: [&str; 8] =
    ["target", "node_modules", "generated", "assets", "snapshots", "dist", "__pycache__", ".git"];

pub(super) fn check() -> anyhow::Result<()> {
    let mut files = crate::files_below(&crate::root(), |name| SKIP.contains(&name))?;
    files.retain(|path| {
        path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known))
    });
    let mut long = Vec::new();
    for path in &files {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        let lines = text.split(|byte| *byte == b'\n').count();
        if lines > LIMIT {
            long.push(format!("{} ({lines} lines)", path.display()));
        }
    }
    if !long.is_empty() {
        bail!("longer than {LIMIT} lines: {}", long.join(", "));
    }
    println!("  {} files, none longer than {LIMIT} lines", files.len());
    Ok(())
}
