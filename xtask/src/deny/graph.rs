//! The crates that the workspace is made of, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::Value;

pub(super) struct Graph {
    pub(super) crates: Vec<Crate>,
}

pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// None for a folder.
    pub(super) source: Option<String>,
    /// Dependencies that accept any version and are not folders.
    pub(super) wildcards: Vec<String>,
    /// Only tests, examples and benches lead to it.
    pub(super) dev_only: bool,
}

impl Graph {
    pub(super) fn parse(metadata: &[u8]) -> anyhow::Result<Self> {
        let metadata: Value = serde_json::from_slice(metadata)?;
        let nodes = metadata.get("resolve").context("cargo resolved nothing")?;
        let nodes: BTreeMap<&str, &Value> =
            each(nodes, "nodes").map(|node| (word(node, "id"), node)).collect();
        let members: Vec<&str> =
            each(&metadata, "workspace_members").filter_map(Value::as_str).collect();
        let all = reachable(&nodes, &members, true);
        let shipped = reachable(&nodes, &members, false);
        let inside =
            each(&metadata, "packages").filter(|package| all.contains(word(package, "id")));
        let crates = inside.map(|package| Crate {
            name: word(package, "name").to_owned(),
            version: word(package, "version").to_owned(),
            license: text(package, "license"),
            source: text(package, "source"),
            wildcards: each(package, "dependencies")
                .filter(|dependency| {
                    word(dependency, "req") == "*" && text(dependency, "path").is_none()
                })
                .map(|dependency| word(dependency, "name").to_owned())
                .collect(),
            dev_only: !shipped.contains(word(package, "id")),
        });
        Ok(Self { crates: crates.collect() })
    }

    pub(super) fn len(&self) -> usize {
        self.crates.len()
    }
}

fn reachable<'a>(
    nodes: &BTreeMap<&'a str, &'a Value>,
    from: &[&'a str],
    dev: bool,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next = from.to_vec();
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes.get(id).into_iter().flat_map(|node| each(node, "deps")) {
            if dev || each(dependency, "dep_kinds").any(|kind| word(kind, "kind") != "dev") {
                next.push(word(dependency, "pkg"));
            }
        }
    }
    seen
}

fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Empty where there is none.
fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}
