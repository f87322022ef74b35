//! The names of a client's tools: its own, those that the model is offered, and those that model
//! providers accept.
//!
//! *Invariant:* no name stands for two tools: an alias or a cleaned name that another tool has gets
//! a number. The same tools in the same order have the same names.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// Prefixes that models put before a tool's name.
pub(super) const PREFIXES: [&str; 6] =
    ["ibeam/", "ibeam:", "ibeam-", "mcp__ibeam__", "mcp_ibeam_", "mcp_"];

/// Cursor's own tools, with whose names a client's may collide.
const BUILTIN: [&str; 9] =
    ["read", "write", "ls", "delete", "grep", "glob", "shell", "web_search", "web_fetch"];

/// What an alias has behind the client's name.
const ALIAS_END: &str = "_tool";

/// Longer names are not accepted.
const LONGEST: usize = 64;

/// Whether the backend has a tool of its own with this name.
pub(super) fn is_builtin(name: &str) -> bool {
    // Longer names would only be copied.
    let plain = || wire_name(name).to_lowercase().replace('-', "_");
    name.len() <= LONGEST && BUILTIN.contains(&plain().as_str())
}

/// What this name is an alias of, if it is one of a name that a built-in tool has.
pub(super) fn alias_of(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_count = name.len() - stem.len() <= 2;
    stem.strip_suffix(ALIAS_END).filter(|own| is_count && is_builtin(own))
}

/// Model providers accept `[A-Za-z0-9_-]{1,64}` as a tool's name.
pub(super) fn wire_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    if clean.is_empty() { "tool".to_owned() } else { clean }
}

/// The names of all tools of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolNames {
    /// In the order of the request.
    tools: Vec<ToolName>,
    /// Where the tool with a client's name is. Of two with one name the first counts.
    places: HashMap<String, usize>,
    taken: TakenNames,
    aliased: bool,
}

/// One tool's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolName {
    /// The client's.
    pub(super) own: String,
    /// The one that the model is offered.
    pub(super) offered: String,
    /// The same as model providers accept it.
    pub(super) wire: String,
    /// What it is offered as where built-in tools keep their names to themselves.
    alias: Option<String>,
}

impl ToolNames {
    /// `aliased`: a tool is not offered with the name of a built-in one.
    pub(super) fn new<'a>(own: impl Iterator<Item = &'a str>, aliased: bool) -> Self {
        let mut tools: Vec<ToolName> =
            own.map(|own| ToolName { own: own.to_owned(), ..ToolName::default() }).collect();
        let mut places = HashMap::with_capacity(tools.len());
        for (at, tool) in tools.iter().enumerate() {
            places.entry(tool.own.clone()).or_insert(at);
        }
        let mut taken = TakenNames::default();
        taken.names.extend(tools.iter().map(|tool| tool.own.clone()));
        // The others first: their names do not depend on whether there are aliases.
        for tool in tools.iter_mut().filter(|tool| !is_builtin(&tool.own)) {
            tool.offered.clone_from(&tool.own);
            tool.wire = taken.wire_of(&tool.own, &tool.own);
        }
        for tool in tools.iter_mut().filter(|tool| is_builtin(&tool.own)) {
            let alias = taken.free(&format!("{}{ALIAS_END}", tool.own), "");
            tool.offered = if aliased { alias.clone() } else { tool.own.clone() };
            tool.wire = taken.wire_of(&tool.offered, &tool.own);
            taken.names.insert(alias.clone());
            tool.alias = Some(alias);
        }
        Self { tools, places, taken, aliased }
    }

    /// In the order of the request.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter()
    }

    /// The tool that the model means. What it is offered counts most; but a stored conversation
    /// may have the names of a time with other aliases.
    pub(super) fn resolve(&self, asked: &str) -> Option<&ToolName> {
        let bare = PREFIXES.iter().find_map(|prefix| asked.strip_prefix(prefix));
        let both = || [Some(asked), bare].into_iter().flatten();
        let find = |is: &dyn Fn(&ToolName) -> bool| self.tools.iter().find(|tool| is(tool));
        let now = |name: &str| {
            find(&|tool| tool.offered == name).or_else(|| find(&|tool| tool.wire == name))
        };
        let before = |name: &str| {
            find(&|tool| tool.own == name)
                .or_else(|| find(&|tool| tool.alias.as_deref() == Some(name)))
        };
        // A name without what providers refuse may be that of several tools.
        let cleaned = |name: &str| {
            let is = |known: &str| known.chars().count() == name.len() && wire_name(known) == name;
            let aliases = self.tools.iter().filter(|tool| tool.alias.is_some());
            let mut found =
                aliases.filter(|tool| is(&tool.own) || tool.alias.as_deref().is_some_and(is));
            found.next().filter(|_| found.next().is_none())
        };
        both()
            .find_map(now)
            .or_else(|| both().find_map(before))
            .or_else(|| both().find_map(cleaned))
    }

    /// What the model reads in the history of a call of this tool. One that the client does not
    /// have any more gets no name of another one.
    pub(super) fn offered<'a>(&'a self, own: &'a str) -> Cow<'a, str> {
        match self.of(own) {
            Some(tool) => Cow::Borrowed(&tool.offered),
            None if self.aliased && is_builtin(own) => {
                Cow::Owned(self.taken.first_free(&format!("{own}{ALIAS_END}"), ""))
            }
            None if self.taken.is_taken(own) => Cow::Owned(self.taken.first_free(own, "")),
            None => Cow::Borrowed(own),
        }
    }

    /// The same as model providers accept it.
    pub(super) fn wire(&self, own: &str) -> String {
        match self.of(own) {
            Some(tool) => tool.wire.clone(),
            None => self.taken.first_free(&wire_name(&self.offered(own)), "_"),
        }
    }

    fn of(&self, own: &str) -> Option<&ToolName> {
        self.places.get(own).and_then(|at| self.tools.get(*at))
    }
}

impl ToolName {
    /// What to say about a tool of which the client's instructions know another name.
    pub(super) fn note(&self) -> Option<String> {
        // Only names as short as those of built-in tools have an alias.
        (self.offered != self.own).then(|| format!("Instructions call this tool `{}`.", self.own))
    }
}

/// Names that are in use, in any form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TakenNames {
    names: HashSet<String>,
    /// Cleaned names, which no other tool may have.
    wires: HashSet<String>,
    /// The number with which the search goes on.
    next: HashMap<String, usize>,
}

impl TakenNames {
    fn is_taken(&self, name: &str) -> bool {
        self.names.contains(name) || self.wires.contains(name)
    }

    /// A cleaned name of its own for the tool that is offered as `offered`.
    fn wire_of(&mut self, offered: &str, own: &str) -> String {
        let clean = wire_name(offered);
        let is_own = clean == own || clean == offered;
        let wire =
            if is_own && !self.wires.contains(&clean) { clean } else { self.free(&clean, "_") };
        self.wires.insert(wire.clone());
        wire
    }

    /// This name, or with the first number with which it is not in use.
    fn free(&mut self, name: &str, before_number: &str) -> String {
        let from = self.next.get(name).copied().unwrap_or(2);
        let (free, number) = self.search(name, before_number, from);
        self.next.insert(name.to_owned(), number);
        free
    }

    fn first_free(&self, name: &str, before_number: &str) -> String {
        let from = self.next.get(name).copied().unwrap_or(2);
        self.search(name, before_number, from).0
    }

    fn search(&self, name: &str, before_number: &str, from: usize) -> (String, usize) {
        let is_free = |name: &str| !self.is_taken(name) && !self.wires.contains(&wire_name(name));
        if is_free(name) {
            return (name.to_owned(), from);
        }
        // The longest number still fits.
        let stem: String = name.chars().take(LONGEST - 8).collect();
        let numbered = (from..).map(|n| (format!("{stem}{before_number}{n}"), n));
        let mut free = numbered.filter(|(name, _)| is_free(name));
        free.next().unwrap_or_else(|| (name.to_owned(), from))
    }
}

#[cfg(test)]
#[path = "tool_names_tests.rs"]
mod tests;
