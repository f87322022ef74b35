//! Documents that promise something name the test behind it. Here is the one check that every
//! named test exists, and that no promise is without one.

mod document;
mod sources;

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, bail};

use self::{
    document::{Check, Document},
    sources::{Package, packages},
};
use super::{Outcome, steps};

/// Those that promise something. The ones that are not there yet are checked once they are.
const DOCUMENTS: [&str; 3] = ["SECURITY.md", "docs/promises.md", "docs/protocol.md"];

/// It must be there.
const REQUIRED: &str = "SECURITY.md";

pub(super) fn check() -> anyhow::Result<Outcome> {
    let packages = packages(&crate::root())?;
    let (mut named, mut problems) = (0, Vec::new());
    for path in DOCUMENTS {
        let file = crate::root().join(path);
        if path != REQUIRED && !file.exists() {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| path.to_owned())?;
        let document = Document::read(&text);
        named += document.checks.len();
        problems.extend(faults(&document, &packages).map(|fault| format!("{path}:{fault}")));
    }
    if !problems.is_empty() {
        bail!("promises without a test:\n  {}", problems.join("\n  "));
    }
    println!("  {named} tests are named, and all of them exist");
    Ok(Outcome::Passed)
}

/// What is wrong with a document, with the number of the line.
fn faults<'a>(
    document: &'a Document,
    packages: &'a BTreeMap<String, Package>,
) -> impl Iterator<Item = String> + 'a {
    let missing = document.checks.iter().filter_map(move |(line, check)| {
        missing(check, packages).map(|why| format!("{line}: {why}"))
    });
    let bare = document.bare.iter();
    missing.chain(bare.map(|(line, row)| format!("{line}: {row} names no test")))
}

/// Why a check cannot be made, if it cannot.
fn missing(check: &Check, packages: &BTreeMap<String, Package>) -> Option<String> {
    match check {
        Check::Step(name) => {
            let known = steps::named(name).is_some();
            (!known).then(|| format!("`cargo xtask test` has no step `{name}`"))
        }
        Check::Tests { package, target, filter } => {
            let Some(package) = packages.get(package) else {
                return Some(format!("there is no package `{package}`"));
            };
            let found = package.has_test(target.as_deref(), filter);
            (!found).then(|| format!("no test of `{}` matches `{filter}`", package.name))
        }
        Check::Path(path) => {
            let found = packages.values().any(|package| package.has_test(None, path));
            (!found).then(|| format!("there is no test `{path}`"))
        }
    }
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
