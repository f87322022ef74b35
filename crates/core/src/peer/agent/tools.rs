//! Client tools on the wire: definitions go out as MCP tools, calls come back
//! with each argument as an encoded `google.protobuf.Value`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use ibeam_proto::agent::{
    McpArgs, McpDescriptor, McpInstructions, McpMetaToolOptions, McpToolDefinition,
    McpToolDescriptor,
};
use prost::Message as _;
use prost_types::{Struct, Value, value::Kind};

use super::{
    service_facts::McpStatus,
    tool_names::{PREFIXES, ToolNames},
};
use crate::{
    codec::{json::JsonSize, pbwalk},
    model::Tool,
};

/// The name of the pseudo MCP server that the client's tools belong to.
pub(super) const PROVIDER: &str = "ibeam";

/// How deep a schema or an argument may nest.
const MAX_DEPTH: usize = 64;

/// How many values one argument may be made of. An empty one takes two bytes on the wire and about
/// a hundred in memory.
const MAX_VALUES: usize = 100_000;

/// How deep prost decodes messages.
const WIRE_DEPTH: usize = 100;

/// How much is kept of an argument that does not decode.
const TEXT_CAP: usize = 64 * 1024;

/// The tools of one request, under the names the backend sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Toolbox {
    definitions: Vec<McpToolDefinition>,
    /// Of all tools of the request, also of those that it does not allow.
    names: Arc<ToolNames>,
    status: McpStatus,
}

/// One tool of the client, as the model reads about it.
#[derive(Debug)]
pub(super) struct DescribedTool<'a> {
    pub(super) name: &'a str,
    /// The client's name for it.
    pub(super) own: &'a str,
    pub(super) description: &'a str,
    pub(super) schema: serde_json::Value,
}

impl Toolbox {
    #[cfg(test)]
    pub(super) fn new(tools: &[Tool]) -> Self {
        Self::of(tools, tools, false)
    }

    /// The tools that a request allows, `offered`, of all that it has. `aliased`: under other names
    /// where they would collide with built-in ones.
    #[must_use]
    pub(super) fn of(all: &[Tool], offered: &[Tool], aliased: bool) -> Self {
        let names = ToolNames::new(all.iter().map(|tool| tool.name.as_str()), aliased);
        let offered: HashSet<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
        let both = all.iter().zip(names.iter());
        let both = both.filter(|(tool, _)| offered.contains(tool.name.as_str()));
        let definitions = both.map(|(tool, name)| McpToolDefinition {
            name: name.wire.clone(),
            description: match name.note() {
                Some(note) if tool.description.is_empty() => note,
                Some(note) => format!("{}\n\n{note}", tool.description),
                None => tool.description.clone(),
            },
            input_schema: encode_schema(tool.schema.as_deref().map(|raw| raw.get())),
            provider_identifier: PROVIDER.to_owned(),
            tool_name: name.offered.clone(),
            ..McpToolDefinition::default()
        });
        let definitions = definitions.collect();
        Self { definitions, names: Arc::new(names), ..Self::default() }
    }

    /// The names of the tools, for the history.
    pub(super) fn tool_names(&self) -> Arc<ToolNames> {
        Arc::clone(&self.names)
    }

    /// The state of the server that has these tools.
    pub(super) fn with_status(self, status: McpStatus) -> Self {
        Self { status, ..self }
    }

    pub(super) fn status(&self) -> McpStatus {
        self.status
    }

    #[must_use]
    pub(super) fn definitions(&self) -> &[McpToolDefinition] {
        &self.definitions
    }

    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// The tools as the meta tools know them; `None` without any.
    pub(super) fn meta_options(&self) -> Option<McpMetaToolOptions> {
        if self.is_empty() {
            return None;
        }
        let tools = self.definitions.iter().map(|tool| McpToolDescriptor {
            tool_name: tool.tool_name.clone(),
            description: Some(tool.description.clone()),
            input_schema: tool.input_schema_json.is_none().then(|| tool.input_schema.clone()),
            input_schema_json: tool.input_schema_json.clone(),
            ..McpToolDescriptor::default()
        });
        let server = McpDescriptor {
            server_name: PROVIDER.to_owned(),
            server_identifier: PROVIDER.to_owned(),
            tools: tools.collect(),
            ..McpDescriptor::default()
        };
        Some(McpMetaToolOptions { enabled: true, descriptors: vec![server] })
    }

    /// The same tools with their schemas as JSON text alone; `None` if they have them so.
    pub(super) fn with_schema_text(&self) -> Option<Self> {
        if self.definitions.iter().all(|tool| tool.input_schema_json.is_some()) {
            return None;
        }
        let definitions = self.definitions.iter().map(|tool| McpToolDefinition {
            input_schema: Bytes::new(),
            input_schema_json: Some(schema_of(tool).to_string()),
            ..tool.clone()
        });
        let (names, status) = (self.tool_names(), self.status);
        Some(Self { definitions: definitions.collect(), names, status })
    }

    /// The names under which the tools are offered.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().map(|tool| tool.tool_name.as_str())
    }

    /// The client's name for the tool that a call means: `tool_name` first, then
    /// `name`, each with and without the prefixes that models invent.
    #[must_use]
    pub(super) fn client_name(&self, call: &McpArgs) -> Option<&str> {
        [&call.tool_name, &call.name].into_iter().find_map(|asked| self.resolve(asked))
    }

    /// The names in a call, without the prefixes that models invent.
    pub(super) fn bare_names<'a>(
        &self,
        call: &'a McpArgs,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        [&call.tool_name, &call.name].into_iter().map(|asked| {
            let bare = PREFIXES.iter().find_map(|prefix| asked.strip_prefix(prefix));
            bare.unwrap_or(asked)
        })
    }

    /// The client's name for the tool that the model calls by this one.
    #[must_use]
    pub(super) fn resolve(&self, asked: &str) -> Option<&str> {
        let meant = self.names.resolve(asked)?;
        self.names().any(|name| name == meant.offered).then_some(meant.own.as_str())
    }

    /// The tools as the model reads about them.
    pub(super) fn described(&self) -> impl Iterator<Item = DescribedTool<'_>> {
        self.definitions.iter().map(|tool| DescribedTool {
            name: &tool.tool_name,
            own: self.resolve(&tool.tool_name).unwrap_or(&tool.tool_name),
            description: &tool.description,
            schema: schema_of(tool),
        })
    }

    /// What the model reads about them, for counting.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        self.definitions.iter().map(|tool| {
            let text = tool.input_schema_json.as_deref();
            let schema =
                text.map_or_else(|| String::from_utf8_lossy(&tool.input_schema), Into::into);
            format!("{} {} {schema}", tool.name, tool.description)
        })
    }

    /// The instructions for their use; `None` without tools.
    #[must_use]
    pub(super) fn instructions(&self) -> Option<McpInstructions> {
        if self.is_empty() {
            return None;
        }
        Some(McpInstructions {
            server_name: PROVIDER.to_owned(),
            instructions: "These tools run in the user's own client and are the only way to \
                           reach the user's files, shell and network. Use them instead of any \
                           built-in tool."
                .to_owned(),
            server_identifier: PROVIDER.to_owned(),
        })
    }
}

/// The arguments of a call as JSON text.
#[must_use]
pub(super) fn arguments_json(args: &BTreeMap<String, Bytes>) -> String {
    serde_json::Value::Object(argument_values(args)).to_string()
}

/// The arguments of a call. A value that does not decode is kept as a string rather than lost;
/// one of more than [`MAX_VALUES`] values is null.
#[must_use]
pub(super) fn argument_values(
    args: &BTreeMap<String, Bytes>,
) -> serde_json::Map<String, serde_json::Value> {
    args.iter()
        .map(|(key, bytes)| {
            let mut left = MAX_VALUES;
            let value = if count_values(VALUE, bytes, WIRE_DEPTH, &mut left).is_none() {
                serde_json::Value::Null
            } else {
                let text = || String::from_utf8_lossy(bytes.get(..TEXT_CAP).unwrap_or(bytes));
                Value::decode(bytes.clone()).map_or_else(
                    |_| serde_json::Value::String(text().into_owned()),
                    |value| to_json(value, MAX_DEPTH),
                )
            };
            (key.clone(), value)
        })
        .collect()
}

/// `google.protobuf.Value` and what it is made of: for each type, which of its fields hold a message
/// of which type.
const VALUE: usize = 0;
const VALUE_FIELDS: [&[(u32, usize)]; 4] = [
    &[(5, 1), (6, 3)], // Value: a struct or a list
    &[(1, 2)],         // Struct: entries
    &[(2, VALUE)],     // an entry: its value
    &[(1, VALUE)],     // ListValue
];

/// Takes the fields of a value and of all inside it off what is left; `None` when that is not enough.
fn count_values(kind: usize, bytes: &[u8], depth: usize, left: &mut usize) -> Option<()> {
    // Deeper messages are not decoded.
    let Some(depth) = depth.checked_sub(1) else { return Some(()) };
    for field in pbwalk::fields(bytes) {
        *left = left.checked_sub(1)?;
        let inner = VALUE_FIELDS.get(kind).and_then(|fields| {
            fields.iter().find(|(number, _)| *number == field.number).map(|(_, inner)| *inner)
        });
        if let Some((inner, payload)) = inner.zip(field.payload) {
            count_values(inner, payload, depth, left)?;
        }
    }
    Some(())
}

/// The reverse of [`arguments_json`], for tests.
#[cfg(test)]
pub(super) fn arguments_map(json: &str) -> BTreeMap<String, Bytes> {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_str(json) else {
        return BTreeMap::new();
    };
    object
        .into_iter()
        .map(|(key, value)| (key, from_json(value, MAX_DEPTH).encode_to_vec().into()))
        .collect()
}

/// A JSON Schema as the encoded `Value` that the backend wants. A tool without one
/// takes an empty object.
fn encode_schema(json: Option<&str>) -> Bytes {
    let parsed = json.and_then(|text| JsonSize::CLIENT.parse(text));
    let schema = parsed
        .filter(serde_json::Value::is_object)
        .unwrap_or_else(|| serde_json::json!({ "type": "object", "properties": {} }));
    from_json(schema, MAX_DEPTH).encode_to_vec().into()
}

/// The schema that a definition has, in either form.
fn schema_of(tool: &McpToolDefinition) -> serde_json::Value {
    if let Some(text) = &tool.input_schema_json {
        return serde_json::from_str(text).unwrap_or_default();
    }
    Value::decode(tool.input_schema.clone())
        .map_or(serde_json::Value::Null, |schema| to_json(schema, MAX_DEPTH))
}

fn from_json(value: serde_json::Value, depth: usize) -> Value {
    let kind = match value {
        _ if depth == 0 => Kind::NullValue(0),
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(flag) => Kind::BoolValue(flag),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(0.0)),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(items) => Kind::ListValue(prost_types::ListValue {
            values: items.into_iter().map(|item| from_json(item, depth - 1)).collect(),
        }),
        serde_json::Value::Object(fields) => Kind::StructValue(Struct {
            fields: fields
                .into_iter()
                .map(|(key, item)| (key, from_json(item, depth - 1)))
                .collect(),
        }),
    };
    Value { kind: Some(kind) }
}

fn to_json(value: Value, depth: usize) -> serde_json::Value {
    match value.kind {
        _ if depth == 0 => serde_json::Value::Null,
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(flag)) => flag.into(),
        Some(Kind::NumberValue(number)) => number_to_json(number),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => {
            list.values.into_iter().map(|item| to_json(item, depth - 1)).collect()
        }
        Some(Kind::StructValue(object)) => serde_json::Value::Object(
            object.fields.into_iter().map(|(key, item)| (key, to_json(item, depth - 1))).collect(),
        ),
    }
}

/// Every number travels as a double; whole ones become integers again, since
/// tools refuse `3.0` where their schema says integer.
fn number_to_json(number: f64) -> serde_json::Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        let whole = number as i64;
        return whole.into();
    }
    serde_json::Number::from_f64(number).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
