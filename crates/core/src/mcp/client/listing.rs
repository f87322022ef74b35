//! The tools of a server, collected page by page and within limits.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::codec::jsonrpc;

/// Tools of one server. Models do badly with fewer already.
pub(super) const MAX_TOOLS: usize = 512;
/// Pages of a list.
pub(super) const MAX_PAGES: usize = 64;
/// Of a description, in bytes.
const DESCRIPTION: usize = 8 << 10;
/// Of a schema, in bytes. A larger one cannot be cut, so its tool is left out.
const SCHEMA: usize = 128 << 10;

/// A tool as its server has it.
#[derive(Clone, Debug)]
pub struct ToolInfo {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Arc<RawValue>,
}

/// What was left out of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// There are more tools than are kept.
    TooManyTools,
    /// The list does not end.
    TooManyPages,
    /// The schema of this tool is too large.
    LargeSchema(String),
    /// A tool without a name, or whose schema is not an object.
    Malformed,
}

/// A list that is being read.
#[derive(Debug, Default)]
pub struct ToolListing {
    pub tools: Vec<ToolInfo>,
    pub notes: Vec<Note>,
    pages: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerTool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Map<String, Value>,
}

impl ToolListing {
    /// Adds a page. Returns the cursor of the next one, if there is one.
    ///
    /// # Errors
    /// It is not a page of tools.
    pub fn add(&mut self, page: &RawValue) -> Result<Option<String>, &'static str> {
        let page: ToolPage<'_> = jsonrpc::read(Some(page)).ok_or("its answer cannot be read")?;
        for tool in page.tools {
            if self.tools.len() == MAX_TOOLS {
                self.notes.push(Note::TooManyTools);
                return Ok(None);
            }
            match info(tool) {
                Ok(tool) => self.tools.push(tool),
                Err(note) => self.notes.push(note),
            }
        }
        self.pages += 1;
        if self.pages == MAX_PAGES && page.next_cursor.is_some() {
            self.notes.push(Note::TooManyPages);
            return Ok(None);
        }
        Ok(page.next_cursor)
    }
}

fn info(tool: &RawValue) -> Result<ToolInfo, Note> {
    let tool: ServerTool = jsonrpc::read(Some(tool)).ok_or(Note::Malformed)?;
    // Written again, so that a server that orders its keys at random has the same tools after
    // a restart.
    let schema = Value::Object(tool.input_schema).to_string();
    if schema.len() > SCHEMA {
        return Err(Note::LargeSchema(tool.name));
    }
    let schema = RawValue::from_string(schema).map_err(|_| Note::Malformed)?;
    let mut description = tool.description.unwrap_or_default();
    description.truncate(description.floor_char_boundary(DESCRIPTION));
    Ok(ToolInfo { name: tool.name, description, schema: schema.into() })
}
