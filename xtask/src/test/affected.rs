//! Which packages a change concerns: those that have a changed file, and those that depend on
//! them. `--fast` tests only these.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::command::{cargo, command};

/// What changes are counted from, if there is such a branch.
const MAIN: &str = "origin/main";
/// It is not part of a fast run.
const APART: &str = "ibeam-interop";

/// The packages to test; none means all of them.
pub(super) struct Choice {
    pub(super) packages: Vec<String>,
    pub(super) reason: String,
}

/// A package of the workspace: its folder and what it depends on there.
struct Package {
    folder: String,
    dependencies: BTreeSet<String>,
}

pub(super) fn choose() -> anyhow::Result<Choice> {
    let (base, name) = match output("git", &["merge-base", "HEAD", MAIN]) {
        Ok(base) => (base.trim().to_owned(), format!("the merge base with {MAIN}")),
        Err(_) => ("HEAD".to_owned(), "the last commit".to_owned()),
    };
    let files = output("git", &["diff", "--name-only", &base]).and_then(|changed| {
        let new = output("git", &["ls-files", "--others", "--exclude-standard"])?;
        Ok(format!("{changed}{new}"))
    });
    let Ok(files) = files else {
        return Ok(Choice {
            packages: Vec::new(),
            reason: "git does not know what changed".into(),
        });
    };
    let files: Vec<&str> = files.lines().collect();
    let (packages, why) = affected(&files, &workspace()?);
    Ok(Choice { packages, reason: format!("since {name}, {why}") })
}

fn affected(files: &[&str], workspace: &BTreeMap<String, Package>) -> (Vec<String>, String) {
    if files.is_empty() {
        return (Vec::new(), "nothing changed".to_owned());
    }
    let mut changed = BTreeSet::new();
    for file in files {
        let owner = workspace.iter().find(|(_, package)| {
            file.strip_prefix(package.folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        });
        match owner {
            Some((name, _)) => changed.insert(name.as_str()),
            // The manifest of the workspace, documents that tests read, and the like.
            None => return (Vec::new(), format!("{file} changed, which is in no package")),
        };
    }
    let mut all = changed.clone();
    while let Some(next) = workspace.iter().find(|(name, package)| {
        !all.contains(name.as_str())
            && package.dependencies.iter().any(|name| all.contains(name.as_str()))
    }) {
        all.insert(next.0);
    }
    let names = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(", ");
    let dependents: BTreeSet<&str> = all.difference(&changed).copied().collect();
    let mut why = format!("files of {} changed", names(&changed));
    if !dependents.is_empty() {
        why += &format!(", and {} depend on that", names(&dependents));
    }
    let packages = all.into_iter().filter(|name| *name != APART).map(str::to_owned).collect();
    (packages, why)
}

fn workspace() -> anyhow::Result<BTreeMap<String, Package>> {
    let text = cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .output()
        .context("could not start cargo")?;
    let metadata: Value = serde_json::from_slice(&text.stdout).context("cargo metadata")?;
    let root = crate::root();
    let list = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let word = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let each = list(&metadata, "packages").into_iter().map(|package| {
        let manifest = word(&package, "manifest_path");
        let path = std::path::Path::new(&manifest).strip_prefix(&root).ok();
        let folder = path.and_then(std::path::Path::parent).unwrap_or(std::path::Path::new(""));
        let dependencies = list(&package, "dependencies");
        let dependencies = dependencies.iter().map(|dependency| word(dependency, "name")).collect();
        let folder = folder.display().to_string().replace('\\', "/");
        (word(&package, "name"), Package { folder, dependencies })
    });
    Ok(each.collect())
}

fn output(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = command(program).args(args).output()?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
#[path = "affected_tests.rs"]
mod tests;
