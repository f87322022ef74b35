//! What `cargo metadata` reports about the crates of the workspace.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::Value;

use crate::command::{cargo, output};

pub(crate) fn metadata(options: &[&str]) -> anyhow::Result<Value> {
    let text = output(cargo().args(["metadata", "--format-version=1", "--locked"]).args(options))?;
    serde_json::from_str(&text).context("cargo metadata")
}

/// The ids of the packages that these lead to by dependencies of these kinds. The kind of a usual
/// dependency is empty.
pub(crate) fn reachable<'a>(
    metadata: &'a Value,
    from: &[&'a str],
    follows: impl Fn(&str) -> bool,
) -> anyhow::Result<BTreeSet<&'a str>> {
    let nodes = metadata.get("resolve").context("cargo resolved nothing")?;
    let nodes: BTreeMap<&str, &Value> =
        each(nodes, "nodes").map(|node| (word(node, "id"), node)).collect();
    let mut seen = BTreeSet::new();
    let mut next = from.to_vec();
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo did not resolve {id}"))?;
        for dependency in each(node, "deps") {
            if each(dependency, "dep_kinds").any(|kind| follows(word(kind, "kind"))) {
                next.push(word(dependency, "pkg"));
            }
        }
    }
    Ok(seen)
}

pub(crate) fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Empty for what is missing or null.
pub(crate) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    text(value, key).unwrap_or_default()
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}
