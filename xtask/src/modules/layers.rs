//! The layers of a crate as ARCHITECTURE.md draws them: a block of code whose language is
//! `modules CRATE`, with one layer a line. A module may use those in the lines above its own,
//! except where a line such as `api ↛ driver` says otherwise.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{DOCUMENT, graph::ModuleGraph};

const OPENING: &str = "```modules ";
const MUST_NOT_USE: char = '↛';

#[derive(Debug)]
pub(super) struct CrateLayers {
    /// The crate's folder from the root of the repository.
    pub(super) name: String,
    /// Where the block begins.
    pub(super) line: usize,
    layers: Vec<Vec<String>>,
    /// A module, and one that it must not use.
    forbidden: BTreeSet<(String, String)>,
}

/// All blocks of a document.
pub(super) fn parse(document: &str) -> Vec<CrateLayers> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(document.lines());
    while let Some((line, text)) = lines.next() {
        let Some(name) = text.strip_prefix(OPENING) else { continue };
        let (mut layers, mut forbidden) = (Vec::new(), BTreeSet::new());
        for (_, text) in lines.by_ref().take_while(|(_, text)| *text != "```") {
            if let Some((from, to)) = text.split_once(MUST_NOT_USE) {
                let pairs = |from: String| words(to).into_iter().map(move |to| (from.clone(), to));
                forbidden.extend(words(from).into_iter().flat_map(pairs));
            } else {
                layers.push(words(text));
            }
        }
        blocks.push(CrateLayers { name: name.trim().to_owned(), line, layers, forbidden });
    }
    blocks
}

/// The modules of a line, without the comment at its end.
fn words(line: &str) -> Vec<String> {
    let modules = line.split_once('#').map_or(line, |(modules, _)| modules);
    modules.split_whitespace().map(str::to_owned).collect()
}

impl CrateLayers {
    /// The place of a module's line, counted from the lowest layer.
    pub(super) fn layer_of(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.iter().any(|it| it == module))
    }

    pub(super) fn faults(&self, graph: &ModuleGraph) -> Vec<String> {
        let Self { name, line, .. } = self;
        let mut faults = Vec::new();
        let mut named = BTreeSet::new();
        for module in self.layers.iter().flatten() {
            if !named.insert(module.as_str()) {
                faults.push(format!("{DOCUMENT}:{line}: {name} has module {module} twice"));
            }
        }
        for module in named.iter().filter(|module| !graph.modules().any(|it| it == **module)) {
            faults.push(format!("{DOCUMENT}:{line}: {name} does not have a module {module}"));
        }
        for module in graph.modules().filter(|module| !named.contains(module)) {
            faults.push(format!("{DOCUMENT}:{line}: module {module} of {name} is missing"));
        }
        for (from, to, site) in graph.uses() {
            if let Some(reason) = self.reason_against(from, to) {
                faults.push(format!(
                    "{}:{}: {from} must not use {to}: {DOCUMENT} {reason}",
                    site.file, site.line
                ));
            }
        }
        faults
    }

    fn reason_against(&self, from: &str, to: &str) -> Option<String> {
        if self.forbidden.contains(&(from.to_owned(), to.to_owned())) {
            return Some(format!("says {from} {MUST_NOT_USE} {to}"));
        }
        match self.layer_of(to)?.cmp(&self.layer_of(from)?) {
            Ordering::Less => None,
            Ordering::Equal => Some(format!("has {to} in the same line")),
            Ordering::Greater => Some(format!("has {to} in a line below it")),
        }
    }
}
