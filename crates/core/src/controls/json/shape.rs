//! The part of a JSON Schema that can be checked while the JSON is still being written:
//! types, names, required names, fixed values, items. What else a schema says is left to
//! the check of the whole; nothing here refuses what that would accept.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Schemas that refer to each other this many times in a row say nothing early.
const REFS: usize = 16;

/// A schema with more parts than this is only checked as a whole.
const NODES: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

/// A schema, taken apart.
#[derive(Debug, Default)]
pub(super) struct SchemaShape {
    nodes: Vec<ShapeNode>,
}

/// One schema of it.
#[derive(Debug, Default)]
pub(super) struct ShapeNode {
    /// Names of types as the schema has them; `None`: any.
    types: Option<Vec<String>>,
    /// The values of `enum` or `const`.
    values: Option<Vec<Value>>,
    properties: HashMap<String, Option<ShapeId>>,
    /// No others.
    closed: bool,
    /// What others must be.
    others: Option<ShapeId>,
    required: Vec<String>,
    items: Option<ShapeId>,
}

impl SchemaShape {
    /// Anything, as long as it is an object.
    pub(super) fn object() -> Self {
        let types = Some(vec!["object".to_owned()]);
        Self { nodes: vec![ShapeNode { types, ..ShapeNode::default() }] }
    }

    pub(super) fn of(schema: &Value) -> Self {
        if has_ids(schema, 0) {
            // References then mean something else in one place than in another.
            return Self::default();
        }
        let mut builder = ShapeBuilder {
            root: schema,
            nodes: Vec::new(),
            known: HashMap::new(),
            waiting: Vec::new(),
        };
        // The root comes first, also when it is only a reference.
        builder.node(schema);
        while let Some((at, schema)) = builder.waiting.pop() {
            builder.fill(at, schema);
        }
        Self { nodes: builder.nodes }
    }

    pub(super) fn root(&self) -> Option<ShapeId> {
        (!self.nodes.is_empty()).then_some(ShapeId(0))
    }

    pub(super) fn node(&self, id: ShapeId) -> Option<&ShapeNode> {
        self.nodes.get(id.0)
    }
}

impl ShapeNode {
    /// Why no value of this kind can be right here.
    pub(super) fn refuses(&self, kind: JsonType) -> Option<String> {
        if let Some(types) = &self.types
            && !types.iter().any(|name| kind.is(name))
        {
            return Some(format!("should be {} but is {}", types.join(" or "), kind.name()));
        }
        let values = self.values.as_ref()?;
        let none = !values.iter().any(|value| JsonType::of(value) == kind);
        none.then(|| format!("is not one of the allowed values, but {}", kind.name()))
    }

    /// Why this value cannot be right here; neither object nor array.
    pub(super) fn refuses_scalar(&self, value: &Value) -> Option<String> {
        let kind = JsonType::of(value);
        if let Some(types) = &self.types
            && kind == JsonType::Number
            && !types.iter().any(|name| name == "number")
            && value.as_f64().is_some_and(|number| number.fract() != 0.0)
        {
            return Some("should be a whole number".to_owned());
        }
        let values = self.values.as_ref()?;
        let known = values.iter().any(|known| match (known, value) {
            (Value::Number(a), Value::Number(b)) => {
                a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a))
            }
            _ => known == value,
        });
        (!known).then(|| "is not one of the allowed values".to_owned())
    }

    /// Whether the schema has no room for a property of this name.
    pub(super) fn forbids(&self, name: &str) -> bool {
        self.closed && !self.properties.contains_key(name)
    }

    pub(super) fn property(&self, name: &str) -> Option<ShapeId> {
        self.properties.get(name).copied().unwrap_or(self.others)
    }

    pub(super) fn required(&self) -> &[String] {
        &self.required
    }

    pub(super) fn items(&self) -> Option<ShapeId> {
        self.items
    }
}

impl JsonType {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
        }
    }

    fn is(self, name: &str) -> bool {
        name == self.name() || (self == Self::Number && name == "integer")
    }
}

struct ShapeBuilder<'a> {
    root: &'a Value,
    nodes: Vec<ShapeNode>,
    /// Schemas that are referred to, by their pointer.
    known: HashMap<String, Option<ShapeId>>,
    /// Schemas whose parts were not looked at: how far down they go is up to the client,
    /// so not by recursion.
    waiting: Vec<(usize, &'a Map<String, Value>)>,
}

impl<'a> ShapeBuilder<'a> {
    fn node(&mut self, schema: &'a Value) -> Option<ShapeId> {
        let mut pointer = None;
        let mut schema = schema;
        for _ in 0..REFS {
            let Some(next) = reference(schema) else { break };
            if let Some(known) = self.known.get(&next) {
                return *known;
            }
            schema = self.root.pointer(&next)?;
            pointer = Some(next);
        }
        let Value::Object(schema) = schema else { return None };
        if schema.contains_key("$ref") || self.nodes.len() >= NODES {
            return None;
        }
        let at = self.nodes.len();
        self.nodes.push(ShapeNode::default());
        if let Some(pointer) = pointer {
            self.known.insert(pointer, Some(ShapeId(at)));
        }
        self.waiting.push((at, schema));
        Some(ShapeId(at))
    }

    fn fill(&mut self, at: usize, schema: &'a Map<String, Value>) {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let types = match schema.get("type") {
            Some(Value::String(one)) => Some(vec![one.clone()]),
            Some(many) => texts(many),
            None => None,
        };
        let values = match (schema.get("const"), schema.get("enum")) {
            (Some(one), _) => Some(vec![one.clone()]),
            (None, Some(Value::Array(many))) => Some(many.clone()),
            (None, _) => None,
        };
        let mut properties = HashMap::new();
        if let Some(Value::Object(known)) = schema.get("properties") {
            for (name, schema) in known {
                properties.insert(name.clone(), self.node(schema));
            }
        }
        // Which names the patterns mean is not looked at here.
        let plain = !schema.contains_key("patternProperties");
        let others = schema.get("additionalProperties").filter(|_| plain);
        let closed = others == Some(&Value::Bool(false));
        let others = others.and_then(|schema| self.node(schema));
        // With `prefixItems` it would depend on the place, and on the draft.
        let items = schema.get("items").filter(|_| !schema.contains_key("prefixItems"));
        let items = items.and_then(|schema| self.node(schema));
        let required = schema.get("required").and_then(texts).unwrap_or_default();
        if let Some(node) = self.nodes.get_mut(at) {
            *node = ShapeNode { types, values, properties, closed, others, required, items };
        }
    }
}

/// The pointer of a reference within the document.
fn reference(schema: &Value) -> Option<String> {
    let reference = schema.as_object()?.get("$ref")?.as_str()?;
    let pointer = reference.strip_prefix('#')?;
    // Anchors and escapes are left to the check of the whole.
    (pointer.is_empty() || (pointer.starts_with('/') && !pointer.contains('%')))
        .then(|| pointer.to_owned())
}

/// Whether a part of the schema has an id of its own.
fn has_ids(schema: &Value, depth: usize) -> bool {
    match schema {
        Value::Object(parts) => {
            // A property may be called `id`: then it is a schema and no text.
            let own = |name| parts.get(name).is_some_and(Value::is_string);
            (depth > 0 && (own("$id") || own("id")))
                || parts.values().any(|part| has_ids(part, depth + 1))
        }
        Value::Array(parts) => parts.iter().any(|part| has_ids(part, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
