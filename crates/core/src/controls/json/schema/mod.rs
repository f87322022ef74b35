//! JSON Schema: a schema is compiled into a list of nodes, and values are checked against
//! it. Drafts 4, 6, 7, 2019-09 and 2020-12, with every keyword that can refuse a value.
//!
//! What is absent: `format` and `content…` are annotations and refuse nothing, nothing is
//! fetched, and the meta-schemas are not included. The author of a schema is a client, so
//! everything here has a limit that does not depend on the clock.

mod assertions;
mod bounds;
mod check;
mod compile;
mod number;
mod pattern;
pub(in crate::controls) mod probe;
mod resources;
mod uri;
mod values;

use std::collections::HashMap;

use serde_json::{Number, Value};

use self::{number::Decimal, pattern::Pattern};

/// The versions of JSON Schema that are understood, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controls) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    #[default]
    Draft2020,
}

impl Draft {
    /// The draft that a `$schema` names.
    pub(in crate::controls) fn named(uri: &str) -> Option<Self> {
        let uri = uri.trim_end_matches('#');
        let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        Some(match rest.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Self::Draft4,
            "draft-06/schema" => Self::Draft6,
            "draft-07/schema" => Self::Draft7,
            "draft/2019-09/schema" => Self::Draft2019,
            "draft/2020-12/schema" | "schema" => Self::Draft2020,
            _ => return None,
        })
    }
}

/// A compiled schema.
#[derive(Debug)]
pub(in crate::controls) struct CompiledSchema {
    nodes: Vec<Node>,
    root: NodeId,
    /// For each name of dynamic anchors, the nodes that have it, by resource.
    dynamic: Vec<HashMap<ResourceId, NodeId>>,
}

/// Why a value is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::controls) enum Misfit {
    /// What is wrong, and a JSON Pointer to where.
    Invalid { path: String, what: String },
    /// Finding out takes more steps or more levels than allowed.
    TooMuch,
}

type NodeId = usize;
type ResourceId = usize;

/// A schema or a part of one: what it demands, in the order in which that is checked.
#[derive(Debug, Default)]
struct Node {
    resource: ResourceId,
    /// Has a keyword that asks which members or elements the others have looked at.
    unevaluated: bool,
    keywords: Vec<Keyword>,
}

#[derive(Debug)]
enum Keyword {
    /// The schema `false`.
    Nothing,
    Type {
        allowed: Types,
        zero_fraction: bool,
    },
    Enum(Vec<Value>),
    Const(Value),
    Bound {
        side: Side,
        limit: Decimal,
        written: Number,
    },
    MultipleOf {
        divisor: Decimal,
        written: Number,
    },
    Size {
        of: Sized,
        least: bool,
        limit: u64,
    },
    Pattern(Pattern),
    Required(Vec<String>),
    /// Names that a member asks for.
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, NodeId)>),
    Members(Box<PropertyKeywords>),
    PropertyNames(NodeId),
    Elements {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: Option<u64>,
        evaluates: bool,
    },
    UniqueItems,
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    If {
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Ref(NodeId),
    /// A reference to the node that has the anchor in the outermost resource on the way here.
    DynamicRef {
        anchor: usize,
        fallback: NodeId,
    },
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

#[derive(Debug, Default)]
struct PropertyKeywords {
    named: HashMap<String, NodeId>,
    patterns: Vec<(Pattern, NodeId)>,
    additional: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Minimum,
    ExclusiveMinimum,
    Maximum,
    ExclusiveMaximum,
}

/// What has a size that a keyword can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sized {
    Text,
    Array,
    Object,
}

/// A set of the seven types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NAMES: [&'static str; 7] =
        ["null", "boolean", "integer", "number", "string", "array", "object"];
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(1 << 1);
    const INTEGER: Self = Self(1 << 2);
    const NUMBER: Self = Self(1 << 3);
    const STRING: Self = Self(1 << 4);
    const ARRAY: Self = Self(1 << 5);
    const OBJECT: Self = Self(1 << 6);

    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    fn names(self) -> String {
        let names = Self::NAMES.iter().enumerate().filter(|(at, _)| self.has(Self(1 << at)));
        names.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

impl CompiledSchema {
    /// Compiles a schema. `draft` counts where the schema does not name one.
    ///
    /// # Errors
    /// Says why the schema cannot be used.
    pub(in crate::controls) fn compile(schema: &Value, draft: Draft) -> Result<Self, String> {
        let compiled = compile::compile(schema, draft)?;
        bounds::check(&compiled)?;
        Ok(compiled)
    }

    /// Finds the first thing that is wrong with `value`.
    ///
    /// # Errors
    /// What is wrong, or that it takes too long to find out.
    pub(in crate::controls) fn check(&self, value: &Value) -> Result<(), Misfit> {
        check::check(self, value, check::STEPS).0
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
