//! Tools and their results, in MCP's words.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ibeam_core::{
    child::HostedResult,
    model::{Image, ImageSource, Tool, ToolContent},
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

/// A tool as it is listed.
pub(super) fn offered(tool: &Tool) -> rmcp::model::Tool {
    let description = Some(tool.description.clone()).filter(|text| !text.is_empty());
    rmcp::model::Tool::new_with_raw(
        tool.name.clone(),
        description.map(Into::into),
        Arc::new(schema(tool)),
    )
}

/// The schema as the client wrote it, as far as MCP lets it: clients of it check that it is
/// one of an object, and refuse the whole list for one tool that is not.
fn schema(tool: &Tool) -> JsonObject {
    let written = tool.schema.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut schema: JsonObject = written.unwrap_or_default();
    schema.insert("type".to_owned(), json!("object"));
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        schema.remove("properties");
    }
    if schema.get("required").is_some_and(|required| !is_list_of_names(required)) {
        schema.remove("required");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            // The two schemas that are no objects, in their long forms.
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

/// A result as the caller gets it.
pub(super) fn result(result: HostedResult) -> CallToolResult {
    let content = result.content.into_iter().map(|part| match part {
        ToolContent::Text(text) => ContentBlock::text(text),
        ToolContent::Image(Image { source: ImageSource::Inline { mime, data } }) => {
            ContentBlock::image(STANDARD.encode(data), mime)
        }
    });
    let content = content.collect();
    if result.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
