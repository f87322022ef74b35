//! The crates that the workspace is made of, from `cargo metadata`.

use serde_json::Value;

use crate::metadata::{each, reachable, text, word};

pub(super) struct CrateGraph {
    pub(super) crates: Vec<ResolvedCrate>,
}

pub(super) struct ResolvedCrate {
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

impl CrateGraph {
    pub(super) fn new(metadata: &Value) -> anyhow::Result<Self> {
        let members: Vec<&str> =
            each(metadata, "workspace_members").filter_map(Value::as_str).collect();
        let all = reachable(metadata, &members, |_| true)?;
        let shipped = reachable(metadata, &members, |kind| kind != "dev")?;
        let inside = each(metadata, "packages").filter(|package| all.contains(word(package, "id")));
        let crates = inside.map(|package| ResolvedCrate {
            name: word(package, "name").to_owned(),
            version: word(package, "version").to_owned(),
            license: text(package, "license").map(str::to_owned),
            source: text(package, "source").map(str::to_owned),
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
}
