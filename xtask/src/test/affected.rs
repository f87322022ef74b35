//! Which packages a change concerns: those that have a changed file, and those that depend on
//! them. `--fast` tests only these.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    command::{command, output},
    metadata::{each, metadata, word},
};

/// What changes are counted from, if there is such a branch.
const MAIN: &str = "origin/main";
/// It is not part of a fast run.
const APART: &str = "ibeam-interop";

/// The packages to test; none means all of them.
pub(super) struct AffectedPackages {
    pub(super) packages: Vec<String>,
    pub(super) reason: String,
}

/// A package of the workspace: its folder and what it depends on there.
struct WorkspacePackage {
    folder: String,
    dependencies: BTreeSet<String>,
}

pub(super) fn choose() -> anyhow::Result<AffectedPackages> {
    let git = |args: &[&str]| output(command("git").args(args));
    let (base, name) = match git(&["merge-base", "HEAD", MAIN]) {
        Ok(base) => (base.trim().to_owned(), format!("the merge base with {MAIN}")),
        Err(_) => ("HEAD".to_owned(), "the last commit".to_owned()),
    };
    let files = git(&["diff", "--name-only", &base]).and_then(|changed| {
        let new = git(&["ls-files", "--others", "--exclude-standard"])?;
        Ok(format!("{changed}{new}"))
    });
    let Ok(files) = files else {
        return Ok(AffectedPackages {
            packages: Vec::new(),
            reason: "git does not know what changed".into(),
        });
    };
    let files: Vec<&str> = files.lines().collect();
    let (packages, why) = affected(&files, &workspace()?);
    Ok(AffectedPackages { packages, reason: format!("since {name}, {why}") })
}

fn affected(
    files: &[&str],
    workspace: &BTreeMap<String, WorkspacePackage>,
) -> (Vec<String>, String) {
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

fn workspace() -> anyhow::Result<BTreeMap<String, WorkspacePackage>> {
    let metadata = metadata(&["--no-deps"])?;
    let root = crate::root();
    let packages = each(&metadata, "packages").map(|package| {
        let path = Path::new(word(package, "manifest_path")).strip_prefix(&root).ok();
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let dependencies = each(package, "dependencies");
        let dependencies = dependencies.map(|one| word(one, "name").to_owned()).collect();
        let folder = folder.display().to_string().replace('\\', "/");
        (word(package, "name").to_owned(), WorkspacePackage { folder, dependencies })
    });
    Ok(packages.collect())
}

#[cfg(test)]
#[path = "affected_tests.rs"]
mod tests;
