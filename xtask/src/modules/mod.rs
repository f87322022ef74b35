//! The step `modules`: which top-level modules of a crate use which, held to the layers that
//! ARCHITECTURE.md draws.

mod graph;
mod layers;
mod source;

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use self::{graph::ModuleGraph, layers::CrateLayers};

const DOCUMENT: &str = "ARCHITECTURE.md";

pub(crate) fn check() -> anyhow::Result<()> {
    let faults = faults(&crate::root())?;
    if !faults.is_empty() {
        bail!("the modules have faults:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Prints the graph of each crate below `root`.
fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let path = root.join(DOCUMENT);
    let text = crate::read(&path)?;
    let document = layers::parse(&text);
    let names = crates(root)?;
    let mut faults: Vec<String> = document
        .iter()
        .filter(|layers| !names.contains(&layers.name))
        .map(|layers| format!("{DOCUMENT}:{}: there is no crate {}", layers.line, layers.name))
        .collect();
    for name in &names {
        let graph = source::read(root, name)?;
        let layers = document.iter().find(|layers| layers.name == *name);
        print!("{}", drawn(name, &graph, layers));
        faults.extend(faults_of(name, &graph, layers));
    }
    Ok(faults)
}

fn faults_of(name: &str, graph: &ModuleGraph, layers: Option<&CrateLayers>) -> Vec<String> {
    let mut faults: Vec<String> =
        graph.cycles().into_iter().map(|it| format!("{name}: {it}")).collect();
    match layers {
        Some(layers) => faults.extend(layers.faults(graph)),
        None => faults.push(format!("{name}: {DOCUMENT} has no block ```modules {name}")),
    }
    faults
}

/// The folders below `crates`, and the tasks, as paths from the root.
fn crates(root: &Path) -> anyhow::Result<Vec<String>> {
    let folder = root.join("crates");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            names.push(format!("crates/{}", entry.file_name().to_string_lossy()));
        }
    }
    names.sort();
    if root.join("xtask").exists() {
        names.push("xtask".to_owned());
    }
    Ok(names)
}

/// One line for each module, in the order of the document, or by name.
fn drawn(name: &str, graph: &ModuleGraph, layers: Option<&CrateLayers>) -> String {
    let mut modules: Vec<&str> = graph.modules().collect();
    if let Some(layers) = layers {
        modules.sort_by_key(|module| layers.layer_of(module).unwrap_or(usize::MAX));
    }
    let width = modules.iter().map(|module| module.len()).max().unwrap_or_default();
    let lines = modules.into_iter().map(|module| {
        let used: Vec<&str> = graph.used_by(module).collect();
        format!("    {module:width$} → {}", used.join(" ")).trim_end_matches([' ', '→']).to_owned()
    });
    let lines: Vec<String> = std::iter::once(format!("  {name}")).chain(lines).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
