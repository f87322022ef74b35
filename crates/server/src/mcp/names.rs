//! Names of tools among the tools of others: `mcp__server__tool`.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

/// No API takes a longer one.
const LONGEST: usize = 64;
/// Of a hash, in hexadecimal digits.
const HASHED: usize = 8;

/// A tool of a server, as the server itself calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolOrigin {
    pub server: String,
    pub tool: String,
}

/// Gives every tool a name of its own, from which its origin is found again.
///
/// Of several that would have the same name, the first in order keeps it, so that the names do not
/// depend on which server started first.
#[must_use]
pub fn table(origins: impl IntoIterator<Item = ToolOrigin>) -> BTreeMap<String, ToolOrigin> {
    let origins: BTreeSet<ToolOrigin> = origins.into_iter().collect();
    let mut table = BTreeMap::new();
    for origin in origins {
        let plain = plain(&origin);
        let name = if plain.len() > LONGEST || table.contains_key(&plain) {
            hashed(&plain, &origin)
        } else {
            plain
        };
        table.insert(name, origin);
    }
    table
}

fn plain(origin: &ToolOrigin) -> String {
    format!("mcp__{}__{}", clean(&origin.server), clean(&origin.tool))
}

fn hashed(plain: &str, origin: &ToolOrigin) -> String {
    let mut hash = Sha256::new();
    hash.update((origin.server.len() as u64).to_be_bytes());
    hash.update(&origin.server);
    hash.update(&origin.tool);
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Only ASCII is left in it.
    let head: String = plain.chars().take(LONGEST - HASHED - 1).collect();
    format!("{head}_{}", hash.get(..HASHED).unwrap_or_default())
}

fn clean(text: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if legal(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(server: &str, tool: &str) -> ToolOrigin {
        ToolOrigin { server: server.to_owned(), tool: tool.to_owned() }
    }

    fn name(server: &str, tool: &str) -> String {
        table([origin(server, tool)]).into_keys().next().unwrap()
    }

    #[test]
    fn valid_tool_names_are_kept() {
        assert_eq!(name("hybrid-memory", "memory_stats"), "mcp__hybrid-memory__memory_stats");
        assert_eq!(name("my server", "a.b/c"), "mcp__my_server__a_b_c");
    }

    #[test]
    fn long_tool_names_are_cut_and_stay_distinct() {
        let (one, two) = ("t".repeat(80), "t".repeat(81));
        let names = table([origin("s", &one), origin("s", &two)]);
        assert_eq!(names.len(), 2);
        for (name, origin) in &names {
            assert_eq!(name.len(), LONGEST, "{name}");
            assert!(origin.tool == one || origin.tool == two);
        }
    }

    #[test]
    fn colliding_tool_names_are_distinct_in_any_order() {
        let all = [
            origin("a", "b__c"),
            origin("a__b", "c"),
            origin("x", "y.z"),
            origin("x", "y_z"),
            origin("x", "ü"),
            origin("x", "ö"),
        ];
        let forward = table(all.clone());
        assert_eq!(forward.len(), all.len());
        assert_eq!(forward, table(all.iter().rev().cloned()));
        for origin in &all {
            assert!(forward.values().any(|found| found == origin));
        }
        assert_eq!(forward["mcp__a__b__c"], origin("a", "b__c"));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(forward.keys().all(|name| name.chars().all(legal) && name.len() <= LONGEST));
    }

    #[test]
    fn duplicate_tool_is_listed_once() {
        assert_eq!(table([origin("a", "b"), origin("a", "b")]).len(), 1);
    }
}
