//! The client's tools, as MCP wants them listed.

use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{codec::json::JsonSize, model::Tool};

/// A tool as it is listed.
pub(super) fn listed(tool: &Tool) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolEntry<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        input_schema: Value,
    }
    let input_schema = Value::Object(schema(tool));
    to_raw_value(&ToolEntry { name: &tool.name, description: &tool.description, input_schema }).ok()
}

/// The schema as the client wrote it, as far as MCP lets it: clients of it check that it is
/// one of an object, and refuse the whole list for one tool that is not.
fn schema(tool: &Tool) -> Map<String, Value> {
    let written = tool.schema.as_deref().and_then(|raw| JsonSize::CLIENT.parse(raw.get()));
    let mut schema = match written {
        Some(Value::Object(schema)) => schema,
        _ => Map::new(),
    };
    schema.insert("type".to_owned(), json!("object"));
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        schema.remove("properties");
    }
    if schema.get("required").is_some_and(|required| !is_list_of_names(required)) {
        schema.remove("required");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            // The two schemas that are not objects, in their long forms.
            match property {
                Value::Object(_) => {}
                Value::Bool(false) => *property = json!({ "not": {} }),
                _ => *property = json!({}),
            }
        }
    }
    schema
}

fn is_list_of_names(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

/// The arguments of a call as JSON text; `None` if they are not an object.
pub(super) fn arguments(written: Option<&RawValue>) -> Option<String> {
    match written {
        None => Some("{}".to_owned()),
        Some(raw) => {
            JsonSize::BACKEND.parse(raw.get()).filter(Value::is_object).map(|map| map.to_string())
        }
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
