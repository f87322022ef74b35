//! The two functions through which newer builds offer client tools to the model: one lists them,
//! the other calls one. They are usually gone before a call reaches the client side, but not
//! always.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::tools::{DescribedTool, PROVIDER, Toolbox, argument_values};
use crate::codec::json::JsonSize;

/// The names of the function that lists tools, newest first.
pub(super) const LIST: [&str; 2] = ["GetDynamicTools", "GetMcpTools"];
/// The names of the function that calls one.
pub(super) const CALL: [&str; 2] = ["CallDynamicTool", "CallMcpTool"];

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
        Some(Value::String(text)) => JsonSize::BACKEND.parse(&text),
        other => other,
    };
    inner.filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()))
}

/// A call as one of the function that calls tools.
pub(super) fn wrapped(name: &str, arguments: &str) -> Value {
    json!({ "namespace": PROVIDER, "toolName": name, "arguments": object(arguments) })
}

/// Arguments as an object: anything else ends the run.
pub(super) fn object(arguments: &str) -> Value {
    match JsonSize::CLIENT.parse(arguments) {
        Some(value @ Value::Object(_)) => value,
        _ if arguments.trim().is_empty() => Value::Object(Map::new()),
        _ => json!({ "input": arguments }),
    }
}

/// The tools as a part of a system prompt; `None` without any.
pub(super) fn catalogue_text(toolbox: &Toolbox) -> Option<String> {
    if toolbox.is_empty() {
        return None;
    }
    let call = CALL[0];
    let tools: Vec<String> = toolbox.described().map(|tool| describe(&tool).to_string()).collect();
    Some(format!(
        "<client_tools>\nThese tools run in the user's own client. They are called as {call} with \
         {{\"namespace\":\"{PROVIDER}\",\"toolName\":\"…\",\"arguments\":{{…}}}}, where \
         `toolName` and `arguments` are as described here, one tool on each line:\n{}\n\
         </client_tools>",
        tools.join("\n")
    ))
}

fn describe(tool: &DescribedTool<'_>) -> Value {
    json!({
        "toolName": tool.name,
        "description": tool.description,
        "inputSchema": tool.schema,
    })
}

/// The tools that the model requests, with their whole schemas, or why there are none.
pub(super) fn catalogue(toolbox: &Toolbox, query: &CatalogueQuery) -> Result<String, String> {
    if !query.namespace.is_empty() && query.namespace != PROVIDER {
        let namespace = &query.namespace;
        return Err(format!("There is no namespace `{namespace}`. Available: {PROVIDER}."));
    }
    let pattern = query.pattern.trim_matches('*').to_lowercase();
    let fits = |tool: &DescribedTool<'_>| {
        (query.tool.is_empty() || toolbox.resolve(&query.tool) == Some(tool.own))
            && (tool.name.to_lowercase().contains(&pattern)
                || tool.description.to_lowercase().contains(&pattern))
    };
    let tools: Vec<Value> =
        toolbox.described().filter(|tool| fits(tool)).map(|tool| describe(&tool)).collect();
    Ok(json!({ "namespace": PROVIDER, "tools": tools }).to_string())
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
