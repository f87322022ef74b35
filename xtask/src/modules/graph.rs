//! Modules of one crate, and where each uses another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a module is used for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UseSite {
    /// From the root of the repository.
    pub(super) file: String,
    pub(super) line: usize,
}

#[derive(Debug, Default)]
pub(super) struct ModuleGraph {
    modules: BTreeMap<String, BTreeMap<String, UseSite>>,
}

impl ModuleGraph {
    pub(super) fn add_module(&mut self, name: &str) {
        self.modules.entry(name.to_owned()).or_default();
    }

    /// The first site stays; a module that uses itself is not an edge.
    pub(super) fn add_use(&mut self, from: &str, to: &str, site: UseSite) {
        if from != to {
            self.add_module(to);
            let used = self.modules.entry(from.to_owned()).or_default();
            used.entry(to.to_owned()).or_insert(site);
        }
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    pub(super) fn used_by(&self, module: &str) -> impl Iterator<Item = &str> {
        self.modules.get(module).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// Every use of one module by another.
    pub(super) fn uses(&self) -> impl Iterator<Item = (&str, &str, &UseSite)> {
        self.modules.iter().flat_map(|(from, used)| {
            used.iter().map(move |(to, site)| (from.as_str(), to.as_str(), site))
        })
    }

    /// A shortest cycle of each knot of modules, with the place of every use in it.
    pub(super) fn cycles(&self) -> Vec<String> {
        let mut knotted = BTreeSet::new();
        let mut cycles = Vec::new();
        for start in self.modules() {
            if knotted.contains(start) {
                continue;
            }
            let Some(cycle) = self.path(start, start) else { continue };
            let knot = self.modules().filter(|it| self.joined(start, it)).collect::<Vec<_>>();
            let sites = cycle.windows(2).filter_map(|pair| {
                let [from, to] = pair else { return None };
                let site = self.modules.get(*from)?.get(*to)?;
                Some(format!("\n    {}:{}: {from} uses {to}", site.file, site.line))
            });
            cycles.push(format!(
                "cycle {}, in a knot of {}{}",
                cycle.join(" → "),
                knot.len(),
                sites.collect::<String>()
            ));
            knotted.extend(knot);
        }
        cycles
    }

    /// Each of the two uses the other in the end.
    fn joined(&self, one: &str, other: &str) -> bool {
        self.path(one, other).is_some() && self.path(other, one).is_some()
    }

    /// The shortest way, with both ends, in at least one step.
    fn path<'a>(&'a self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut ways = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for next in way.last().into_iter().flat_map(|last| self.used_by(last)) {
                let longer = || way.iter().copied().chain([next]).collect();
                if next == to {
                    return Some(longer());
                }
                if seen.insert(next) {
                    ways.push_back(longer());
                }
            }
        }
        None
    }
}
