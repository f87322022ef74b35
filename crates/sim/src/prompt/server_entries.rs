//! The entries that the service itself writes at the beginning of a prompt, and the tags around
//! texts of the user.

use bytes::Bytes;
use serde_json::json;

/// The size of the system entry, as it was seen on the wire.
const SYSTEM_BYTES: usize = 2262;
/// How an entry with environment, rules and tools begins.
const CONTEXT: &str = "<user_info>";

/// The service's own system text, with the same id in every run.
pub(crate) fn system_text() -> String {
    const HEAD: &str =
        "You are an AI coding assistant that works in the user's editor and terminal. ";
    const MORE: &str = "Follow the instructions of the user and use the tools that you have. ";
    let frame = system_json("").len();
    let mut text = HEAD.to_owned();
    while frame + text.len() < SYSTEM_BYTES {
        text.push_str(MORE);
    }
    text.truncate(SYSTEM_BYTES - frame);
    text
}

/// The system entry as a blob.
pub(crate) fn system_entry() -> Bytes {
    system_json(&system_text()).into()
}

fn system_json(text: &str) -> String {
    json!({ "role": "system", "content": text }).to_string()
}

/// The entry with environment, rules and the namespaces of tools.
pub(crate) fn context_text(rules: &[String], namespaces: &[&str]) -> String {
    let mut text = format!("{CONTEXT}\nOperating system: simulated\n</user_info>");
    if !rules.is_empty() {
        text.push_str(&format!("\n<rules>\n{}\n</rules>", rules.join("\n\n")));
    }
    if !namespaces.is_empty() {
        text.push_str(&format!("\n<dynamic_tools>\n{}\n</dynamic_tools>", namespaces.join("\n")));
    }
    text
}

/// Whether the service wrote this user entry.
pub(crate) fn is_context(text: &str) -> bool {
    text.starts_with(CONTEXT)
}

/// The rules in a user entry that consists of them, or in one of the service's own.
pub(crate) fn rules_in(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("<rules>")?;
    let (rules, _) = rest.rsplit_once("</rules>")?;
    (before.trim().is_empty() || is_context(text)).then(|| rules.trim())
}

/// Whether this text lists a namespace for the meta tools.
pub(crate) fn names_namespace(text: &str, namespace: &str) -> bool {
    let listed = text
        .split_once("<dynamic_tools>")
        .and_then(|(_, rest)| rest.split_once("</dynamic_tools>").map(|(listed, _)| listed));
    !namespace.is_empty() && listed.is_some_and(|listed| listed.contains(namespace))
}

/// The text of the user as the prompt has it.
pub(crate) fn query(text: &str) -> String {
    format!("<user_query>\n{text}\n</user_query>")
}

/// The text of the user without its tags.
pub(crate) fn without_query_tags(text: &str) -> &str {
    let body = match text.trim_start().strip_prefix("<timestamp>") {
        Some(rest) => rest.split_once("</timestamp>").map_or(text, |(_, rest)| rest),
        None => text,
    };
    let inner = body.trim().strip_prefix("<user_query>");
    inner.and_then(|inner| inner.strip_suffix("</user_query>")).map_or(text, str::trim)
}

#[cfg(test)]
#[path = "server_entries_tests.rs"]
mod tests;
