//! The words that the machine looks for in tools and results, for recordings: they may stay where
//! everything else is replaced.

use super::{meta, native, tool_names};

/// Whether a tool is called so by a client that is in the table, or is one of the backend's own, or
/// whether this is the other name of such a tool.
pub(crate) fn is_tool(name: &str) -> bool {
    tool_names::is_builtin(name)
        || tool_names::alias_of(name).is_some()
        || native::is_known_tool(name)
        || meta::LIST.contains(&name)
        || meta::CALL.contains(&name)
}

/// Whether a tool in the table has a parameter of that name.
pub(crate) fn is_parameter(name: &str) -> bool {
    native::is_known_parameter(name)
}

/// How much of a tool's name is what models put before it.
pub(crate) fn tool_prefix(name: &str) -> usize {
    tool_names::PREFIXES.iter().find(|prefix| name.starts_with(**prefix)).map_or(0, |p| p.len())
}

/// How results begin that are refusals or errors. Lower case.
pub(crate) fn failure_beginnings() -> impl Iterator<Item = &'static str> {
    native::failure_beginnings()
}
