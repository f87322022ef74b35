//! `THIRD-PARTY.txt`: the licences of the crates that are in the program, which their licences
//! want to go with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::metadata::{each, metadata, reachable, text, word};

/// How the files are called that hold a licence.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Data of others in our own crates: its name, and the folder with its licence.
const DATA: [(&str, &str); 1] =
    [("OpenAI's vocabularies (tiktoken)", "crates/core/assets/vocabularies")];

/// The text, for the crates that a build for this target has.
pub(crate) fn notices(triple: &str) -> anyhow::Result<String> {
    // Of Apple's universal program, one half stands for both.
    let platform = triple.replace("universal-", "aarch64-");
    let graph = metadata(&["--filter-platform", &platform])?;
    let own = each(&graph, "packages")
        .find(|package| text(package, "source").is_none() && word(package, "name") == "ibeam")
        .context("the workspace has no package `ibeam`")?;
    // Not what only build scripts and tests use.
    let inside = reachable(&graph, &[word(own, "id")], str::is_empty)?;

    let mut list = String::new();
    // Many crates have the same text; each text is there once, below the names of its crates.
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut packages: Vec<&Value> = each(&graph, "packages").collect();
    packages.sort_by_key(|package| (word(package, "name"), word(package, "version")));
    for package in packages {
        if text(package, "source").is_none() || !inside.contains(word(package, "id")) {
            continue;
        }
        let name = format!("{} {}", word(package, "name"), word(package, "version"));
        let licence = text(package, "license").unwrap_or("see its text below");
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
