//! JSON as people write it: with comments and commas at the end.

use std::fmt;

use ibeam_core::jsonc;
use jsonc_parser::{
    ParseOptions,
    cst::{
        CstArray, CstContainerNode, CstInputValue, CstLeafNode, CstNode, CstObject, CstRootNode,
    },
    errors::ParseError,
};
use serde_json::{Map, Value};

use super::{EditRefused, KeyRemoval, ListDocument, SettingsDocument, split_mark};

/// What clients read: the rest of what the parser knows is JSON5.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// More than anyone nests by hand; the parser calls itself.
const MAX_DEPTH: usize = 128;

/// A text whose value is an object, or nothing yet.
pub(crate) struct JsonDocument {
    /// The parser would drop it.
    mark: &'static str,
    root: CstRootNode,
}

impl fmt::Debug for JsonDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").finish_non_exhaustive()
    }
}

impl fmt::Display for JsonDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.mark, self.root)
    }
}

impl SettingsDocument for JsonDocument {
    fn parse(text: &str) -> Result<Self, EditRefused> {
        let (mark, text) = split_mark(text);
        if jsonc::depth(text) > MAX_DEPTH {
            return Err(EditRefused::new("it is nested too deeply"));
        }
        let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| malformed(&error))?;
        match root.value() {
            None | Some(CstNode::Container(CstContainerNode::Object(_))) => {}
            Some(_) => return Err(EditRefused::new("its value is not an object")),
        }
        Ok(Self { mark, root })
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        let mut object = self.root.object_value()?;
        let Some((last, way)) = path.split_last() else { return value(&object.into()) };
        for key in way {
            object = object.object_value(key)?;
        }
        object.get(last)?.value().as_ref().and_then(value)
    }

    fn set(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        if self.get(path).as_ref() == Some(wanted) {
            return self.refuse_twice(path);
        }
        let object = self.object(way, path)?;
        match object.get(last) {
            Some(there) => there.set_value(input(wanted)),
            None => {
                object.append(last, input(wanted));
            }
        }
        Ok(())
    }
}

impl ListDocument for JsonDocument {
    fn push_unique(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        let object = self.object(way, path)?;
        let array = object
            .array_value_or_create(last)
            .ok_or_else(|| EditRefused::in_the_way(path, "an array"))?;
        if !has(&array, wanted) {
            array.append(input(wanted));
        }
        Ok(())
    }
}

impl KeyRemoval for JsonDocument {
    fn remove(&mut self, path: &[&str]) {
        let Some((last, way)) = path.split_last() else { return };
        let Some(mut object) = self.root.object_value() else { return };
        for key in way {
            let Some(next) = object.object_value(key) else { return };
            object = next;
        }
        if let Some(there) = object.get(last) {
            there.remove();
        }
    }
}

impl JsonDocument {
    /// For a client that reads plain JSON, and refuses a file with anything else in it as a
    /// whole: such a file must not be written.
    ///
    /// # Errors
    /// As with [`Self::parse`], or there is a comment, or a comma at an end.
    pub(crate) fn parse_strict(text: &str) -> Result<Self, EditRefused> {
        let document = Self::parse(text)?;
        let (_, plain) = split_mark(text);
        if plain.trim().is_empty() {
            return Ok(document);
        }
        match serde_json::from_str::<serde::de::IgnoredAny>(plain) {
            Ok(_) => Ok(document),
            Err(error) => Err(EditRefused::at(
                error.line(),
                "its client reads plain JSON: comments and trailing commas are not allowed",
            )),
        }
    }

    /// The object at `way`, which is made if need be.
    fn object(&self, way: &[&str], path: &[&str]) -> Result<CstObject, EditRefused> {
        self.refuse_twice(path)?;
        let mut object = self
            .root
            .object_value_or_create()
            .ok_or_else(|| EditRefused::new("it is not an object"))?;
        for (depth, key) in way.iter().enumerate() {
            object = object.object_value_or_create(key).ok_or_else(|| {
                EditRefused::in_the_way(way.get(..=depth).unwrap_or(way), "an object")
            })?;
        }
        Ok(object)
    }

    /// Of two keys of one name clients take the last, and others the first.
    fn refuse_twice(&self, path: &[&str]) -> Result<(), EditRefused> {
        let mut object = self.root.object_value();
        for (depth, key) in path.iter().enumerate() {
            let Some(here) = object else { return Ok(()) };
            let same = here
                .properties()
                .iter()
                .filter(|p| p.decoded_name().as_deref() == Some(key))
                .count();
            if same > 1 {
                let name = path.get(..=depth).unwrap_or(path).join(".");
                return Err(EditRefused::new(format!("`{name}` appears twice")));
            }
            object = here.object_value(key);
        }
        Ok(())
    }
}

fn has(array: &CstArray, wanted: &Value) -> bool {
    array.elements().iter().any(|element| value(element).as_ref() == Some(wanted))
}

fn malformed(error: &ParseError) -> EditRefused {
    EditRefused::at(error.line_display(), error.kind().to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(
            map.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

/// What a node means. `None` if it is not a value.
fn value(node: &CstNode) -> Option<Value> {
    match node {
        CstNode::Container(CstContainerNode::Object(object)) => {
            let pairs = object.properties().into_iter().filter_map(|property| {
                Some((property.decoded_name()?, value(&property.value()?)?))
            });
            Some(Value::Object(pairs.collect::<Map<_, _>>()))
        }
        CstNode::Container(CstContainerNode::Array(array)) => {
            Some(Value::Array(array.elements().iter().filter_map(value).collect()))
        }
        CstNode::Container(CstContainerNode::Root(_) | CstContainerNode::ObjectProp(_)) => None,
        CstNode::Leaf(leaf) => match leaf {
            CstLeafNode::BooleanLit(node) => Some(Value::Bool(node.value())),
            CstLeafNode::NullKeyword(_) => Some(Value::Null),
            CstLeafNode::NumberLit(node) => serde_json::from_str(&node.to_string()).ok(),
            CstLeafNode::StringLit(node) => node.decoded_value().ok().map(Value::String),
            CstLeafNode::WordLit(_)
            | CstLeafNode::Token(_)
            | CstLeafNode::Whitespace(_)
            | CstLeafNode::Newline(_)
            | CstLeafNode::Comment(_) => None,
        },
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
