//! The check of a whole answer against a whole JSON Schema.

use serde_json::Value;

use super::{
    machine::Violation,
    schema::{CompiledSchema, Draft, Misfit},
};

/// A schema beyond this is refused.
const SCHEMA_BYTES: usize = 256 << 10;

/// The longest message that is passed on: a schema's own words may be in it.
const WORDS: usize = 300;

/// A schema that answers can be held against.
#[derive(Debug)]
pub(super) struct Full {
    schema: CompiledSchema,
}

impl Full {
    /// # Errors
    /// Says why the schema cannot be used.
    pub(super) fn compile(text: &str) -> Result<(Value, Self), String> {
        if text.len() > SCHEMA_BYTES {
            return Err(format!("it is larger than {} KiB", SCHEMA_BYTES >> 10));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !value.is_object() {
            return Err("it is not an object".to_owned());
        }
        let schema =
            CompiledSchema::compile(&value, Draft::default()).map_err(|what| capped(&what))?;
        Ok((value, Self { schema }))
    }

    /// Finds the first thing that is wrong with the JSON in `text`.
    pub(super) fn check(&self, text: &str) -> Result<(), Violation> {
        let whole = |what: String| Violation { path: String::new(), what };
        let value: Value = serde_json::from_str(text)
            .map_err(|error| whole(format!("is not valid JSON: {error}")))?;
        self.schema.check(&value).map_err(|misfit| match misfit {
            Misfit::TooMuch => whole("takes too long to check against its schema".to_owned()),
            Misfit::Invalid { path, what } => {
                Violation { path, what: format!("does not fit: {}", capped(&what)) }
            }
        })
    }
}

fn capped(text: &str) -> String {
    match text.get(..text.floor_char_boundary(WORDS)) {
        Some(head) if head.len() < text.len() => format!("{head}…"),
        _ => text.to_owned(),
    }
}
