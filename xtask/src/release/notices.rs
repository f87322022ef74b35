//! `THIRD-PARTY.txt`: the licences of the crates that are in the program, which their licences
//! want to go with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::command::cargo;

/// How the files are called that hold a licence.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Data of others in our own crates: its name, and the folder with its licence.
const DATA: [(&str, &str); 1] =
    [("OpenAI's vocabularies (tiktoken)", "crates/core/assets/vocabularies")];

/// The text, for the crates that a build for this target has.
pub(crate) fn text(triple: &str) -> anyhow::Result<String> {
    // Of Apple's universal program, one half stands for both.
    let platform = triple.replace("universal-", "aarch64-");
    let output = cargo()
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &platform])
        .output()
        .context("could not start cargo")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let graph: Value = serde_json::from_slice(&output.stdout)?;
    let inside = reachable(&graph)?;

    let mut list = String::new();
    // Many crates have the same text; each is told once, below the names of its crates.
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut packages: Vec<&Value> = each(&graph, "packages").collect();
    packages.sort_by_key(|package| (word(package, "name"), word(package, "version")));
    for package in packages {
        if !has(package, "source") || !inside.contains(word(package, "id")) {
            continue;
        }
        let name = format!("{} {}", word(package, "name"), word(package, "version"));
        let licence =
            package.get("license").and_then(Value::as_str).unwrap_or("see its text below");
        list.push_str(&format!("{name}: {licence}\n"));
        let manifest = Path::new(word(package, "manifest_path"));
        for text in licences(manifest.parent().context("a manifest is in a folder")?)? {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    for (name, folder) in DATA {
        let found = licences(&crate::root().join(folder))?;
        if found.is_empty() {
            bail!("{folder} has no licence");
        }
        for text in found {
            texts.entry(text).or_default().insert(name.to_owned());
        }
    }
    let mut blocks: Vec<(String, String)> = texts
        .into_iter()
        .map(|(text, names)| (names.into_iter().collect::<Vec<_>>().join(", "), text))
        .collect();
    blocks.sort();
    let mut out = format!("ibeam contains these crates, each under its own licence:\n\n{list}");
    for (names, text) in blocks {
        out.push_str(&format!("\n{}\n{names}\n\n{}\n", "-".repeat(72), text.trim_end()));
    }
    Ok(out)
}

/// The ids of the packages that are linked into the program: no build scripts, no tests.
fn reachable(graph: &Value) -> anyhow::Result<BTreeSet<&str>> {
    let nodes: BTreeMap<&str, &Value> = graph
        .get("resolve")
        .into_iter()
        .flat_map(|resolve| each(resolve, "nodes"))
        .map(|node| (word(node, "id"), node))
        .collect();
    let own = each(graph, "packages")
        .find(|package| !has(package, "source") && word(package, "name") == "ibeam")
        .context("the workspace has no package `ibeam`")?;
    let mut seen = BTreeSet::new();
    let mut next = vec![word(own, "id")];
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo does not tell about {id}"))?;
        for dependency in each(node, "deps") {
            // A kind of its own is `dev` or `build`.
            if each(dependency, "dep_kinds").any(|kind| !has(kind, "kind")) {
                next.push(word(dependency, "pkg"));
            }
        }
    }
    Ok(seen)
}

fn licences(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.push(text);
        }
    }
    Ok(texts)
}

fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Cargo writes `null` for what is not there.
fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}
