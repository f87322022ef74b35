//! Documents that promise something name the test behind it. Here is the one check that every
//! named test exists, and that no promise is without one.

mod document;
mod sources;

use std::collections::BTreeMap;

use anyhow::bail;

use self::{
    document::{NamedCheck, PromiseDocument},
    sources::{TestedPackage, packages},
};
use super::steps;

/// Those that promise something. The ones that are not there yet are checked once they are.
const DOCUMENTS: [&str; 3] = ["SECURITY.md", "docs/promises.md", "docs/protocol.md"];

/// It must be there.
const REQUIRED: &str = "SECURITY.md";

pub(super) fn check() -> anyhow::Result<()> {
    let packages = packages(&crate::root())?;
    let (mut named, mut problems) = (0, Vec::new());
    for path in DOCUMENTS {
        let file = crate::root().join(path);
        if path != REQUIRED && !file.exists() {
            continue;
        }
        let document = PromiseDocument::read(&crate::read(&file)?);
        named += document.checks.len();
        problems.extend(faults(&document, &packages).map(|fault| format!("{path}:{fault}")));
    }
    if !problems.is_empty() {
        bail!("promises without a test:\n  {}", problems.join("\n  "));
    }
    println!("  {named} tests are named, and all of them exist");
    Ok(())
}

/// What is wrong with a document, with the number of the line.
fn faults<'a>(
    document: &'a PromiseDocument,
    packages: &'a BTreeMap<String, TestedPackage>,
) -> impl Iterator<Item = String> + 'a {
    let missing = document.checks.iter().filter_map(move |(line, check)| {
        missing(check, packages).map(|why| format!("{line}: {why}"))
    });
    let bare = document.bare.iter();
    missing.chain(bare.map(|(line, row)| format!("{line}: {row} names no test")))
}

/// Why a check cannot be made, if it cannot.
fn missing(check: &NamedCheck, packages: &BTreeMap<String, TestedPackage>) -> Option<String> {
    match check {
        NamedCheck::Step(name) => {
            let known = steps::named(name).is_some();
            (!known).then(|| format!("`cargo xtask test` has no step `{name}`"))
        }
        NamedCheck::Tests { package, target, filter } => {
            let Some(package) = packages.get(package) else {
                return Some(format!("there is no package `{package}`"));
            };
            let found = package.has_test(target.as_deref(), filter);
            (!found).then(|| format!("no test of `{}` matches `{filter}`", package.name))
        }
        NamedCheck::Path(path) => {
            let found = packages.values().any(|package| package.has_test(None, path));
            (!found).then(|| format!("there is no test `{path}`"))
        }
    }
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
