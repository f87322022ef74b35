//! The two functions through which newer builds offer client tools to the model: one lists them,
//! the other calls one. They are usually gone before a call reaches the client side, but not
//! always.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::tools::{PROVIDER, Toolbox, argument_values};

/// The names of the function that lists tools, newest first.
const LIST: [&str; 2] = ["GetDynamicTools", "GetMcpTools"];
/// The names of the function that calls one.
const CALL: [&str; 2] = ["CallDynamicTool", "CallMcpTool"];

/// What the model wants of a meta tool.
#[derive(Debug, PartialEq)]
pub(super) enum MetaCall {
    List(CatalogueQuery),
    Call { tool: String, arguments: String },
}

/// Which tools are asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CatalogueQuery {
    namespace: String,
    tool: String,
    pattern: String,
}

/// Reads a call of a meta tool; `None` if `name` is another tool.
pub(super) fn read(name: &str, args: &BTreeMap<String, Bytes>) -> Option<MetaCall> {
    let is = |names: [&str; 2]| names.contains(&name);
    if !is(LIST) && !is(CALL) {
        return None;
    }
    let mut args = argument_values(args);
    let text = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| args.get(*name).and_then(Value::as_str));
        found.unwrap_or_default().to_owned()
    };
    let (namespace, tool) = (text(["namespace", "server"]), text(["toolName", "tool_name"]));
    if is(LIST) {
        let pattern = text(["pattern", "query"]);
        return Some(MetaCall::List(CatalogueQuery { namespace, tool, pattern }));
    }
    let inner = ["arguments", "args"].iter().find_map(|name| args.remove(*name));
    Some(MetaCall::Call { tool, arguments: inner_arguments(inner).to_string() })
}

/// The arguments inside a wrapper: an object, or the text of one.
fn inner_arguments(inner: Option<Value>) -> Value {
    let inner = match inner {
        Some(Value::String(text)) => serde_json::from_str(&text).ok(),
        other => other,
    };
    inner.filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()))
}

/// The tools that the model asks for, with their whole schemas, or why there are none.
pub(super) fn catalogue(toolbox: &Toolbox, query: &CatalogueQuery) -> Result<String, String> {
    if !query.namespace.is_empty() && query.namespace != PROVIDER {
        let namespace = &query.namespace;
        return Err(format!("There is no namespace `{namespace}`. Available: {PROVIDER}."));
    }
    let pattern = query.pattern.trim_matches('*').to_lowercase();
    let fits = |name: &str, description: &str| {
        (query.tool.is_empty() || name == query.tool)
            && (name.to_lowercase().contains(&pattern)
                || description.to_lowercase().contains(&pattern))
    };
    let tools: Vec<Value> = toolbox
        .described()
        .filter(|tool| fits(tool.name, tool.description))
        .map(|tool| {
            json!({
                "toolName": tool.name,
                "description": tool.description,
                "inputSchema": tool.schema,
            })
        })
        .collect();
    Ok(json!({ "namespace": PROVIDER, "tools": tools }).to_string())
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
