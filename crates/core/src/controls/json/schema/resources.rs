//! Where the schemas in a document are, and what the references between them mean.

use std::collections::{HashMap, hash_map::Entry};

use serde_json::{Map, Value};

use super::{Draft, ResourceId, uri};
use crate::codec::connect::percent_decode;

/// The longest URI. A long one at the root would be in memory once for each part with an id.
const URI_BYTES: usize = 2 << 10;

/// A part of the document with a URI of its own.
#[derive(Debug)]
pub(super) struct SchemaResource<'a> {
    uri: String,
    root: &'a Value,
    pub(super) draft: Draft,
    anchors: HashMap<&'a str, &'a Value>,
}

/// All schemas of a document, as far as they have been found.
#[derive(Debug)]
pub(super) struct Resources<'a> {
    all: Vec<SchemaResource<'a>>,
    by_uri: HashMap<String, ResourceId>,
    /// The resource of each schema.
    places: HashMap<*const Value, ResourceId>,
    /// The numbers of the names of dynamic anchors, and the schemas that have them. The empty
    /// name is that of `$recursiveAnchor`.
    dynamic_names: HashMap<&'a str, usize>,
    pub(super) dynamic: Vec<HashMap<ResourceId, &'a Value>>,
}

/// What a keyword contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Schema,
    Schemas,
    SchemaOrSchemas,
    NamedSchemas,
    /// By name, either a schema or a list of names.
    Dependencies,
}

impl Holds {
    /// `None`: no schemas, as far as this draft knows.
    pub(super) fn of(keyword: &str, draft: Draft) -> Option<Self> {
        let (since, holds) = match keyword {
            "additionalProperties" | "not" => (Draft::Draft4, Self::Schema),
            "additionalItems" if draft < Draft::Draft2020 => (Draft::Draft4, Self::Schema),
            "items" if draft < Draft::Draft2020 => (Draft::Draft4, Self::SchemaOrSchemas),
            "items" => (Draft::Draft2020, Self::Schema),
            "allOf" | "anyOf" | "oneOf" => (Draft::Draft4, Self::Schemas),
            "properties" | "patternProperties" | "definitions" => {
                (Draft::Draft4, Self::NamedSchemas)
            }
            "dependencies" => (Draft::Draft4, Self::Dependencies),
            "contains" | "propertyNames" => (Draft::Draft6, Self::Schema),
            "if" | "then" | "else" => (Draft::Draft7, Self::Schema),
            "$defs" | "dependentSchemas" => (Draft::Draft2019, Self::NamedSchemas),
            "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => {
                (Draft::Draft2019, Self::Schema)
            }
            "prefixItems" => (Draft::Draft2020, Self::Schemas),
            _ => return None,
        };
        (draft >= since).then_some(holds)
    }

    /// The schemas in the value of a keyword, whatever else is there.
    pub(super) fn schemas(self, value: &Value) -> impl Iterator<Item = &Value> {
        let (one, list, named) = match (self, value) {
            (Self::Schemas | Self::SchemaOrSchemas, Value::Array(values)) => {
                (None, Some(values.iter()), None)
            }
            (Self::NamedSchemas | Self::Dependencies, Value::Object(values)) => {
                (None, None, Some(values.values()))
            }
            (Self::Schema | Self::SchemaOrSchemas, value) => (Some(value), None, None),
            _ => (None, None, None),
        };
        let all = one.into_iter().chain(list.into_iter().flatten());
        all.chain(named.into_iter().flatten()).filter(|value| is_schema(value))
    }
}

pub(super) fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// In the older drafts everything beside a reference is ignored.
pub(super) fn is_only_reference(fields: &Map<String, Value>, draft: Draft) -> bool {
    draft <= Draft::Draft7 && fields.get("$ref").is_some_and(Value::is_string)
}

impl<'a> Resources<'a> {
    pub(super) fn of(schema: &'a Value, draft: Draft) -> Result<Self, String> {
        let draft = draft_of(schema, draft)?;
        let root =
            SchemaResource { uri: String::new(), root: schema, draft, anchors: HashMap::new() };
        let mut resources = Self {
            all: vec![root],
            by_uri: HashMap::from([(String::new(), 0)]),
            places: HashMap::new(),
            dynamic_names: HashMap::new(),
            dynamic: Vec::new(),
        };
        resources.register(schema, 0)?;
        Ok(resources)
    }

    pub(super) fn draft(&self, id: ResourceId) -> Draft {
        self.all.get(id).map_or_else(Draft::default, |resource| resource.draft)
    }

    /// The resource of a schema that has been found.
    pub(super) fn place(&self, schema: &Value) -> ResourceId {
        self.places.get(&std::ptr::from_ref(schema)).copied().unwrap_or_default()
    }

    /// Finds the schemas in one that is part of a resource: its ids and anchors, and where the
    /// next ones are. Only where the draft expects schemas: an example may have an `$id`, too.
    fn register(&mut self, schema: &'a Value, around: ResourceId) -> Result<(), String> {
        let mut waiting = vec![(schema, around)];
        while let Some((schema, around)) = waiting.pop() {
            if self.places.contains_key(&std::ptr::from_ref(schema)) {
                continue;
            }
            let Value::Object(fields) = schema else {
                self.places.insert(std::ptr::from_ref(schema), around);
                continue;
            };
            let resource = self.name(schema, fields, around)?;
            self.places.insert(std::ptr::from_ref(schema), resource);
            let draft = self.draft(resource);
            for (keyword, value) in fields {
                let below = Holds::of(keyword, draft).map(|holds| holds.schemas(value));
                waiting.extend(below.into_iter().flatten().map(|below| (below, resource)));
            }
        }
        Ok(())
    }

    /// Notes the names that a schema gives itself. Returns its resource, which may be a new one.
    fn name(
        &mut self,
        schema: &'a Value,
        fields: &'a Map<String, Value>,
        around: ResourceId,
    ) -> Result<ResourceId, String> {
        let text = |name| fields.get(name).and_then(Value::as_str);
        let mut draft = self.draft(around);
        let id = text(if draft == Draft::Draft4 { "id" } else { "$id" });
        let id = id.filter(|_| !is_only_reference(fields, draft)).unwrap_or_default();
        let (own, fragment) = id.split_once('#').unwrap_or((id, ""));
        let mut resource = around;
        if !own.is_empty() {
            let base = self.all.get(around).map(|around| around.uri.as_str()).unwrap_or_default();
            let uri = uri::resolve(base, own);
            if uri.len() > URI_BYTES {
                return Err(format!("it has an id of more than {URI_BYTES} bytes"));
            }
            draft = draft_of(schema, draft)?;
            if self.all.first().is_some_and(|root| std::ptr::eq(root.root, schema)) {
                if let Some(root) = self.all.first_mut() {
                    root.uri.clone_from(&uri);
                }
            } else {
                resource = self.all.len();
                let anchors = HashMap::new();
                self.all.push(SchemaResource { uri: uri.clone(), root: schema, draft, anchors });
            }
            if let Entry::Vacant(slot) = self.by_uri.entry(uri) {
                slot.insert(resource);
            }
        }
        if draft <= Draft::Draft7 {
            self.anchor(resource, Some(fragment).filter(|name| !name.is_empty()), schema);
            return Ok(resource);
        }
        self.anchor(resource, text("$anchor"), schema);
        let dynamic = if draft == Draft::Draft2020 {
            self.anchor(resource, text("$dynamicAnchor"), schema);
            text("$dynamicAnchor")
        } else {
            fields.get("$recursiveAnchor").filter(|value| **value == Value::Bool(true)).map(|_| "")
        };
        if let Some(name) = dynamic {
            let next = self.dynamic_names.len();
            let number = *self.dynamic_names.entry(name).or_insert(next);
            self.dynamic.resize_with(self.dynamic_names.len(), HashMap::new);
            if let Some(schemas) = self.dynamic.get_mut(number) {
                schemas.entry(resource).or_insert(schema);
            }
        }
        Ok(resource)
    }

    fn anchor(&mut self, resource: ResourceId, name: Option<&'a str>, schema: &'a Value) {
        if let (Some(name), Some(resource)) = (name, self.all.get_mut(resource)) {
            resource.anchors.entry(name).or_insert(schema);
        }
    }

    /// The schema that a reference means, which is registered if it was not yet.
    pub(super) fn find(&mut self, reference: &str, from: ResourceId) -> Result<&'a Value, String> {
        let missing = || {
            format!(
                "it refers to `{reference:.200}`, which is not part of it, and ibeam does not \
                 fetch schemas"
            )
        };
        let (own, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let mut place = from;
        if !own.is_empty() {
            let base = self.all.get(from).map(|from| from.uri.as_str()).unwrap_or_default();
            place = *self.by_uri.get(&uri::resolve(base, own)).ok_or_else(missing)?;
        }
        let resource = self.all.get(place).ok_or_else(missing)?;
        let fragment = percent_decode(fragment);
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return resource.anchors.get(fragment.as_str()).copied().ok_or_else(missing);
        }
        let mut target = resource.root;
        for token in fragment.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let below = match target {
                Value::Object(values) => values.get(&token),
                Value::Array(values) => token.parse().ok().and_then(|at: usize| values.get(at)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            target = below.ok_or_else(missing)?;
            place = self.places.get(&std::ptr::from_ref(target)).copied().unwrap_or(place);
        }
        if !is_schema(target) {
            return Err(format!("it refers to `{reference:.200}`, which is not a schema"));
        }
        self.register(target, place)?;
        Ok(target)
    }

    /// The number of a dynamic anchor, if the reference leads to one.
    pub(super) fn dynamic_anchor(&self, reference: &str, target: &Value) -> Option<usize> {
        let name = reference.split_once('#').map(|(_, fragment)| percent_decode(fragment))?;
        let number = *self.dynamic_names.get(name.as_str())?;
        let at = self.dynamic.get(number)?.get(&self.place(target))?;
        std::ptr::eq(*at, target).then_some(number)
    }
}

/// The draft that a schema names, or else the one around it.
fn draft_of(schema: &Value, around: Draft) -> Result<Draft, String> {
    match schema.get("$schema") {
        None => Ok(around),
        Some(Value::String(uri)) => Draft::named(uri).ok_or_else(|| {
            format!("its `$schema` is `{uri:.200}`, which is not one of the supported drafts")
        }),
        Some(_) => Err("its `$schema` is not a string".to_owned()),
    }
}
