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
//! A section whose English text has changed since is stale, and the check fails until a translator
//! has updated it and runs the task with `--accept`. That writes the new hashes, and only where the
//! two sections still have the same shape.

mod page;
mod section;

use std::fs;

use anyhow::{Context as _, bail};

use self::page::{PageComparison, TranslatedPage};

/// English page, its translation.
const PAGES: [(&str, &str); 5] = [
    ("README.md", "README.zh-CN.md"),
    ("ARCHITECTURE.md", "docs/zh-CN/ARCHITECTURE.md"),
    ("docs/migration.md", "docs/zh-CN/migration.md"),
    ("docs/troubleshooting.md", "docs/zh-CN/troubleshooting.md"),
    ("docs/clients/opencode.md", "docs/zh-CN/clients/opencode.md"),
];

/// `accept`: the translations match the English pages, so write the new hashes.
pub(crate) fn compare_all(accept: bool) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for (english, translated) in PAGES {
        let report = compare(english, translated)?;
        if accept && report.changes > 0 {
            let path = crate::root().join(translated);
            fs::write(&path, &report.accepted).with_context(|| path.display().to_string())?;
            println!("  {translated}: {} hashes written", report.changes);
        }
        let stale = if accept { Vec::new() } else { report.stale };
        faults.extend(
            report.shape.into_iter().chain(stale).map(|fault| format!("{translated}: {fault}")),
        );
    }
    if faults.is_empty() {
        println!("  {} translated pages are in step", PAGES.len());
        return Ok(());
    }
    let hint = "translate what changed, then run `cargo xtask translations --accept`";
    bail!("{} things to do:\n  {}\n{hint}", faults.len(), faults.join("\n  "))
}

fn compare(english: &str, translated: &str) -> anyhow::Result<PageComparison> {
    let read = |path: &str| crate::read(&crate::root().join(path));
    let (from, to) = (read(english)?, read(translated)?);
    Ok(TranslatedPage::new(&from).against(&TranslatedPage::new(&to)))
}

#[cfg(test)]
#[path = "translations_tests.rs"]
mod tests;
