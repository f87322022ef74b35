//! What is wrong with a graph of crates.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    config::{CrateSpec, DenyConfig},
    graph::{CrateGraph, ResolvedCrate},
    spdx,
};

const CRATES_IO: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

pub(super) fn faults(config: &DenyConfig, graph: &CrateGraph) -> Vec<String> {
    let mut faults = denied(config, graph);
    faults.extend(wildcards(graph));
    faults.extend(duplicates(config, graph));
    faults.extend(licenses(config, graph));
    faults.extend(sources(config, graph));
    faults
}

fn denied(config: &DenyConfig, graph: &CrateGraph) -> Vec<String> {
    let is_denied = |one: &&ResolvedCrate| config.denied.iter().any(|spec| one.is(spec));
    graph.crates.iter().filter(is_denied).map(|one| format!("{one} is denied")).collect()
}

fn wildcards(graph: &CrateGraph) -> Vec<String> {
    let each =
        graph.crates.iter().flat_map(|one| one.wildcards.iter().map(move |name| (one, name)));
    each.map(|(one, name)| format!("{one} accepts any version of {name}")).collect()
}

/// Of crates that only tests lead to, a second version costs little: cargo-deny leaves them out
/// by default, too.
fn duplicates(config: &DenyConfig, graph: &CrateGraph) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut unused: Vec<&CrateSpec> = config.skipped.iter().collect();
    for one in graph.crates.iter().filter(|one| !one.dev_only) {
        unused.retain(|spec| !one.is(spec));
        if !config.skipped.iter().any(|spec| one.is(spec)) {
            versions.entry(&one.name).or_default().insert(&one.version);
        }
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    let several = several.map(|(name, versions)| {
        let versions: Vec<&str> = versions.into_iter().collect();
        format!("{name} is there in {} versions: {}", versions.len(), versions.join(", "))
    });
    let unused = unused.into_iter();
    let unused = unused.map(|spec| format!("{} is skipped, but not in the graph", spec.text));
    several.chain(unused).collect()
}

fn licenses(config: &DenyConfig, graph: &CrateGraph) -> Vec<String> {
    let mut faults = Vec::new();
    let mut unused: BTreeSet<&str> = config.allowed.iter().map(String::as_str).collect();
    for one in graph.crates.iter().filter(|one| !one.dev_only) {
        let Some(license) = &one.license else {
            faults.push(format!("{one} names no license"));
            continue;
        };
        let own = config.exceptions.iter().filter(|(spec, _)| one.is(spec));
        let own: Vec<&String> = own.flat_map(|(_, licenses)| licenses).collect();
        let mut allowed = |name: &str| {
            unused.remove(name);
            own.iter().any(|own| *own == name) || config.allowed.iter().any(|own| own == name)
        };
        match spdx::satisfied(license, &mut allowed) {
            Ok(true) => {}
            Ok(false) => faults.push(format!("{one} is under {license}, which is not allowed")),
            Err(error) => faults.push(format!("{one}: {error:#}")),
        }
    }
    faults.extend(unused.into_iter().map(|name| format!("{name} is allowed, but no crate has it")));
    let stale = config.exceptions.iter().map(|(spec, _)| spec);
    let stale = stale.filter(|spec| !graph.crates.iter().any(|one| one.is(spec)));
    faults.extend(stale.map(|spec| format!("the exception for {} is unused", spec.text)));
    faults
}

fn sources(config: &DenyConfig, graph: &CrateGraph) -> Vec<String> {
    let known = |source: &str| {
        let git =
            source.strip_prefix("git+").map(|url| url.split(['?', '#']).next().unwrap_or(url));
        CRATES_IO.contains(&source) || config.allowed_git.iter().any(|url| git == Some(url))
    };
    let unknown = graph.crates.iter().filter_map(|one| {
        let source = one.source.as_deref().filter(|source| !known(source))?;
        Some(format!("{one} comes from {source}"))
    });
    unknown.collect()
}

impl ResolvedCrate {
    fn is(&self, spec: &CrateSpec) -> bool {
        spec.matches(&self.name, &self.version)
    }
}

impl std::fmt::Display for ResolvedCrate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}
