//! `cargo xtask translations`: the pages that are there in Chinese too, held against the
//! English ones.
//!
//! Under each heading of a translation stands which English section it is, and a hash of
//! that section's text at the time it was translated:
//!
//! ```text
//! ## 安全
//! <!-- en: Safety 1a2b3c4d -->
//! ```
//!
//! A section whose English text has changed since is stale, and the check fails, until
//! somebody has looked at it and runs the task with `--accept`. That writes the new hashes,
//! and only where the two sections still have the same shape.

mod page;
mod section;

use std::fs;

use self::page::{Page, Report};
use crate::args::Args;
use anyhow::{Context as _, bail};

/// English page, its translation.
const PAGES: [(&str, &str); 5] = [
    ("README.md", "README.zh-CN.md"),
    ("ARCHITECTURE.md", "docs/zh-CN/ARCHITECTURE.md"),
    ("docs/migration.md", "docs/zh-CN/migration.md"),
    ("docs/troubleshooting.md", "docs/zh-CN/troubleshooting.md"),
    ("docs/clients/opencode.md", "docs/zh-CN/clients/opencode.md"),
];

pub(crate) struct Options {
    /// The translations say what the English pages say now: write the hashes anew
    accept: bool,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> anyhow::Result<Self> {
        let options = Self { accept: args.flag("--accept") };
        args.finish()?;
        Ok(options)
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for (english, translated) in PAGES {
        let report = compare(english, translated)?;
        if options.accept && report.changes > 0 {
            let path = crate::root().join(translated);
            fs::write(&path, &report.accepted).with_context(|| path.display().to_string())?;
            println!("  {translated}: {} hashes written", report.changes);
        }
        let left = if options.accept { report.shape } else { report.all() };
        faults.extend(left.into_iter().map(|fault| format!("{translated}: {fault}")));
    }
    if faults.is_empty() {
        println!("  {} translated pages are in step", PAGES.len());
        return Ok(());
    }
    let hint = "translate what changed, then run `cargo xtask translations --accept`";
    bail!("{} things to do:\n  {}\n{hint}", faults.len(), faults.join("\n  "))
}

/// For the step of `cargo xtask test`.
pub(crate) fn check() -> anyhow::Result<()> {
    run(&Options { accept: false })
}

fn compare(english: &str, translated: &str) -> anyhow::Result<Report> {
    let read = |path: &str| {
        let path = crate::root().join(path);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let (from, to) = (read(english)?, read(translated)?);
    Ok(Page::new(&from).against(&Page::new(&to)))
}

#[cfg(test)]
#[path = "translations_tests.rs"]
mod tests;
