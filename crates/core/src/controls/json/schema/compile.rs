//! Reads a schema: each of its parts becomes one node, however often it is referred to.
//! A keyword with a value that it cannot have is an error, since a schema that is misread
//! would be worse than one that is refused.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use super::{
    CompiledSchema, Draft, Keyword, Node, NodeId, PropertyKeywords, ResourceId, Side, Sized, Types,
    number::Decimal,
    pattern::{Pattern, Patterns},
    resources::{Holds, Resources, is_only_reference, is_schema},
};

pub(super) fn compile(schema: &Value, draft: Draft) -> Result<CompiledSchema, String> {
    if !is_schema(schema) {
        return Err("it is neither an object nor a boolean".to_owned());
    }
    let mut compiler = Compiler {
        resources: Resources::of(schema, draft)?,
        numbers: HashMap::new(),
        queue: VecDeque::new(),
        patterns: Patterns::default(),
    };
    let root = compiler.node(schema);
    let mut nodes = Vec::new();
    // Nodes are numbered in the order of the queue.
    while let Some(part) = compiler.queue.pop_front() {
        nodes.push(compiler.read(part).map_err(|what| located(schema, part, what))?);
    }
    let Compiler { resources, numbers, .. } = compiler;
    let number = |schema: &Value| numbers.get(&std::ptr::from_ref(schema)).copied();
    let anchors = resources.dynamic.iter().map(|schemas| {
        let schemas = schemas.iter();
        schemas.filter_map(|(resource, schema)| Some((*resource, number(schema)?))).collect()
    });
    Ok(CompiledSchema { nodes, root, dynamic: anchors.collect() })
}

/// The message of an error with the place of the part that it is about.
fn located(schema: &Value, part: &Value, what: String) -> String {
    match path_to(schema, part) {
        Some(path) if !path.is_empty() => format!("{what} (at `{path:.200}`)"),
        _ => what,
    }
}

/// A JSON Pointer from one value to another in it. Recursion ends with the levels of the
/// document, which the parser limits.
fn path_to(value: &Value, part: &Value) -> Option<String> {
    if std::ptr::eq(value, part) {
        return Some(String::new());
    }
    let below = |name: &str, value: &Value| {
        let rest = path_to(value, part)?;
        Some(format!("/{}{rest}", name.replace('~', "~0").replace('/', "~1")))
    };
    match value {
        Value::Object(values) => values.iter().find_map(|(name, value)| below(name, value)),
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(at, value)| below(&at.to_string(), value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

struct Compiler<'a> {
    resources: Resources<'a>,
    numbers: HashMap<*const Value, NodeId>,
    queue: VecDeque<&'a Value>,
    patterns: Patterns,
}

/// The keywords of one schema that are being read.
struct KeywordReader<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    fields: &'a Map<String, Value>,
    draft: Draft,
    resource: ResourceId,
    keywords: Vec<Keyword>,
}

impl<'a> Compiler<'a> {
    /// The number of a schema's node, which is read when its turn comes.
    fn node(&mut self, schema: &'a Value) -> NodeId {
        let next = self.numbers.len();
        *self.numbers.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.queue.push_back(schema);
            next
        })
    }

    fn read(&mut self, schema: &'a Value) -> Result<Node, String> {
        let resource = self.resources.place(schema);
        let mut node = Node { resource, ..Node::default() };
        match schema {
            Value::Object(fields) => {
                let draft = self.resources.draft(resource);
                let keywords = Vec::new();
                let mut reader =
                    KeywordReader { compiler: self, fields, draft, resource, keywords };
                reader.read()?;
                node.keywords = reader.keywords;
            }
            Value::Bool(false) => node.keywords.push(Keyword::Nothing),
            _ => {}
        }
        node.unevaluated = node.keywords.iter().any(|keyword| {
            matches!(keyword, Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_))
        });
        node.keywords.shrink_to_fit();
        Ok(node)
    }
}

/// Says what the value of a keyword should have been.
fn must_be(keyword: &str, wanted: &str) -> String {
    format!("`{keyword}` must be {wanted}")
}

impl<'a> KeywordReader<'_, 'a> {
    /// Reads all keywords, in the order in which values are checked.
    fn read(&mut self) -> Result<(), String> {
        self.below()?;
        if is_only_reference(self.fields, self.draft) {
            return self.references();
        }
        self.types()?;
        self.numbers()?;
        self.sizes()?;
        self.names()?;
        self.references()?;
        self.in_place()?;
        self.members()?;
        self.elements()?;
        for (keyword, make) in [
            ("unevaluatedItems", Keyword::UnevaluatedItems as fn(NodeId) -> Keyword),
            ("unevaluatedProperties", Keyword::UnevaluatedProperties),
        ] {
            let node = self.schema(keyword);
            self.keywords.extend(node.map(make));
        }
        Ok(())
    }

    // === values of keywords ===

    /// The value of a keyword that is there since some draft.
    fn since(&self, draft: Draft, keyword: &str) -> Option<&'a Value> {
        self.fields.get(keyword).filter(|_| self.draft >= draft)
    }

    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.fields.get(keyword)
    }

    fn text(&self, keyword: &str) -> Result<Option<&'a str>, String> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| must_be(keyword, "a string"));
        self.get(keyword).map(text).transpose()
    }

    fn flag(&self, keyword: &str) -> Result<bool, String> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| must_be(keyword, "a boolean"));
        self.get(keyword).map_or(Ok(false), flag)
    }

    fn count(&self, keyword: &str) -> Result<Option<u64>, String> {
        let count = |value: &Value| {
            let number = value.as_number().and_then(|number| Decimal::of(number).count());
            number.ok_or_else(|| must_be(keyword, "a non-negative integer"))
        };
        self.get(keyword).map(count).transpose()
    }

    /// The node of a keyword that holds one schema. What else it may hold is checked in `below`.
    fn schema(&mut self, keyword: &str) -> Option<NodeId> {
        Holds::of(keyword, self.draft)?;
        let schema = self.get(keyword).filter(|value| is_schema(value))?;
        Some(self.compiler.node(schema))
    }

    fn schemas(&mut self, keyword: &str) -> Option<Vec<NodeId>> {
        Holds::of(keyword, self.draft)?;
        let schemas = self.get(keyword)?.as_array()?;
        Some(schemas.iter().map(|schema| self.compiler.node(schema)).collect())
    }

    fn named(&mut self, keyword: &str) -> Vec<(String, NodeId)> {
        let schemas = Holds::of(keyword, self.draft).and_then(|_| self.get(keyword)?.as_object());
        let schemas = schemas.into_iter().flatten().filter(|(_, value)| is_schema(value));
        schemas.map(|(name, schema)| (name.clone(), self.compiler.node(schema))).collect()
    }

    /// Makes nodes of everything that is a schema, used or not, and checks the rest.
    fn below(&mut self) -> Result<(), String> {
        for (keyword, value) in self.fields {
            let Some(holds) = Holds::of(keyword, self.draft) else { continue };
            let wanted = match (holds, value) {
                (Holds::Schema | Holds::SchemaOrSchemas, value) if is_schema(value) => None,
                (Holds::Schemas, Value::Array(values)) if values.is_empty() => {
                    Some("a list of at least one schema")
                }
                (Holds::Schemas | Holds::SchemaOrSchemas, Value::Array(values)) => {
                    (!values.iter().all(is_schema)).then_some("a list of schemas")
                }
                (Holds::NamedSchemas, Value::Object(values)) => {
                    (!values.values().all(is_schema)).then_some("an object of schemas")
                }
                (Holds::Dependencies, Value::Object(values)) => {
                    let fits = |value: &Value| is_schema(value) || value.is_array();
                    (!values.values().all(fits)).then_some("an object of schemas or lists")
                }
                (Holds::Schema, _) => Some("a schema: an object or a boolean"),
                (Holds::Schemas | Holds::SchemaOrSchemas, _) => Some("a list of schemas"),
                (Holds::NamedSchemas | Holds::Dependencies, _) => Some("an object of schemas"),
            };
            if let Some(wanted) = wanted {
                return Err(must_be(keyword, wanted));
            }
            for schema in holds.schemas(value) {
                self.compiler.node(schema);
            }
        }
        Ok(())
    }

    // === assertions ===

    fn types(&mut self) -> Result<(), String> {
        if let Some(value) = self.get("type") {
            let names =
                value.as_array().map_or_else(|| vec![value], |names| names.iter().collect());
            let mut allowed = Types::default();
            for name in names {
                let known = name.as_str().and_then(Types::named).ok_or_else(|| {
                    let names = Types::NAMES.join(", ");
                    format!("`type` has {name:.100}, which is not one of {names}")
                })?;
                allowed = allowed.with(known);
            }
            if allowed == Types::default() {
                return Err(must_be("type", "a type or a list of at least one"));
            }
            let zero_fraction = self.draft > Draft::Draft4;
            self.keywords.push(Keyword::Type { allowed, zero_fraction });
        }
        if let Some(value) = self.get("enum") {
            let values = value.as_array().ok_or_else(|| must_be("enum", "a list"))?;
            self.keywords.push(Keyword::Enum(values.clone()));
        }
        if let Some(value) = self.since(Draft::Draft6, "const") {
            self.keywords.push(Keyword::Const(value.clone()));
        }
        Ok(())
    }

    fn numbers(&mut self) -> Result<(), String> {
        let number = |keyword: &str, value: &'a Value| {
            value.as_number().ok_or_else(|| must_be(keyword, "a number"))
        };
        for (keyword, side, beside, exclusive) in [
            ("minimum", Side::Minimum, "exclusiveMinimum", Side::ExclusiveMinimum),
            ("maximum", Side::Maximum, "exclusiveMaximum", Side::ExclusiveMaximum),
        ] {
            let mut bounds = vec![(keyword, side)];
            if self.draft > Draft::Draft4 {
                bounds.push((beside, exclusive));
            } else if self.flag(beside)? {
                bounds = vec![(keyword, exclusive)];
            }
            for (keyword, side) in bounds {
                let Some(value) = self.get(keyword) else { continue };
                let written = number(keyword, value)?.clone();
                let limit = Decimal::of(&written);
                self.keywords.push(Keyword::Bound { side, limit, written });
            }
        }
        if let Some(value) = self.get("multipleOf") {
            let written = number("multipleOf", value)?.clone();
            let divisor = Decimal::of(&written);
            if !divisor.is_positive() {
                return Err(must_be("multipleOf", "greater than 0"));
            }
            self.keywords.push(Keyword::MultipleOf { divisor, written });
        }
        Ok(())
    }

    fn sizes(&mut self) -> Result<(), String> {
        for (keyword, of, least) in [
            ("minLength", Sized::Text, true),
            ("maxLength", Sized::Text, false),
            ("minItems", Sized::Array, true),
            ("maxItems", Sized::Array, false),
            ("minProperties", Sized::Object, true),
            ("maxProperties", Sized::Object, false),
        ] {
            if let Some(limit) = self.count(keyword)? {
                self.keywords.push(Keyword::Size { of, least, limit });
            }
        }
        if let Some(pattern) = self.text("pattern")? {
            let pattern = self.compiler.patterns.compile(pattern)?;
            self.keywords.push(Keyword::Pattern(pattern));
        }
        if self.flag("uniqueItems")? {
            self.keywords.push(Keyword::UniqueItems);
        }
        Ok(())
    }

    fn names(&mut self) -> Result<(), String> {
        let list = |keyword: &str, value: &Value| {
            let names = value.as_array().and_then(|names| {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            });
            names.ok_or_else(|| must_be(keyword, "a list of strings"))
        };
        if let Some(value) = self.get("required") {
            self.keywords.push(Keyword::Required(list("required", value)?));
        }
        let mut dependent: Vec<(String, Vec<String>)> = Vec::new();
        if let Some(value) = self.since(Draft::Draft2019, "dependentRequired") {
            let wanted = || must_be("dependentRequired", "an object of lists of strings");
            for (name, names) in value.as_object().ok_or_else(wanted)? {
                dependent.push((name.clone(), list("dependentRequired", names)?));
            }
        }
        if let Some(Value::Object(values)) = self.get("dependencies") {
            for (name, names) in values.iter().filter(|(_, names)| names.is_array()) {
                dependent.push((name.clone(), list("dependencies", names)?));
            }
        }
        if !dependent.is_empty() {
            self.keywords.push(Keyword::DependentRequired(dependent));
        }
        Ok(())
    }

    // === schemas for the same value ===

    fn references(&mut self) -> Result<(), String> {
        for keyword in ["$id", "$anchor", "$dynamicAnchor"] {
            if self.draft >= Draft::Draft2019 {
                self.text(keyword)?;
            }
        }
        if let Some(reference) = self.text("$ref")? {
            let target = self.compiler.resources.find(reference, self.resource)?;
            let node = self.compiler.node(target);
            self.keywords.push(Keyword::Ref(node));
        }
        let dynamic = match self.draft {
            Draft::Draft4 | Draft::Draft6 | Draft::Draft7 => return Ok(()),
            Draft::Draft2019 => "$recursiveRef",
            Draft::Draft2020 => "$dynamicRef",
        };
        if let Some(reference) = self.text(dynamic)? {
            let target = self.compiler.resources.find(reference, self.resource)?;
            let fallback = self.compiler.node(target);
            let anchor = self.compiler.resources.dynamic_anchor(reference, target);
            self.keywords.push(match anchor {
                Some(anchor) => Keyword::DynamicRef { anchor, fallback },
                None => Keyword::Ref(fallback),
            });
        }
        Ok(())
    }

    fn in_place(&mut self) -> Result<(), String> {
        for (keyword, make) in [
            ("allOf", Keyword::AllOf as fn(Vec<NodeId>) -> Keyword),
            ("anyOf", Keyword::AnyOf),
            ("oneOf", Keyword::OneOf),
        ] {
            let nodes = self.schemas(keyword);
            self.keywords.extend(nodes.map(make));
        }
        let not = self.schema("not");
        self.keywords.extend(not.map(Keyword::Not));
        if let Some(test) = self.schema("if") {
            let (then, otherwise) = (self.schema("then"), self.schema("else"));
            self.keywords.push(Keyword::If { test, then, otherwise });
        }
        let mut dependent = self.named("dependentSchemas");
        dependent.extend(self.named("dependencies"));
        if !dependent.is_empty() {
            self.keywords.push(Keyword::DependentSchemas(dependent));
        }
        Ok(())
    }

    // === schemas for what is inside the value ===

    fn members(&mut self) -> Result<(), String> {
        let mut patterns: Vec<(Pattern, NodeId)> = Vec::new();
        for (pattern, node) in self.named("patternProperties") {
            patterns.push((self.compiler.patterns.compile(&pattern)?, node));
        }
        let named: HashMap<String, NodeId> = self.named("properties").into_iter().collect();
        let additional = self.schema("additionalProperties");
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            let members = PropertyKeywords { named, patterns, additional };
            self.keywords.push(Keyword::Members(Box::new(members)));
        }
        let names = self.schema("propertyNames");
        self.keywords.extend(names.map(Keyword::PropertyNames));
        Ok(())
    }

    fn elements(&mut self) -> Result<(), String> {
        let list = if self.draft >= Draft::Draft2020 { "prefixItems" } else { "items" };
        let prefix = self.schemas(list);
        // Without a list, `items` speaks of all elements.
        let rest = if self.draft < Draft::Draft2020 && prefix.is_some() {
            self.schema("additionalItems")
        } else {
            self.schema("items")
        };
        if prefix.is_some() || rest.is_some() {
            let prefix = prefix.unwrap_or_default();
            self.keywords.push(Keyword::Elements { prefix, rest });
        }
        let (mut least, mut most) = (None, None);
        if self.draft >= Draft::Draft2019 {
            (least, most) = (self.count("minContains")?, self.count("maxContains")?);
        }
        if let Some(node) = self.schema("contains") {
            let evaluates = self.draft >= Draft::Draft2020;
            let least = least.unwrap_or(1);
            self.keywords.push(Keyword::Contains { node, least, most, evaluates });
        }
        Ok(())
    }
}
