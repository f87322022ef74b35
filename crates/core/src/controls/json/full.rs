//! The check of a whole answer against a whole JSON Schema.

use serde_json::Value;

use super::{
    machine::Violation,
    schema::{CompiledSchema, Draft, Misfit},
};
use crate::codec::json::JsonSize;

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
        if !JsonSize::BACKEND.fits(text) {
            return Err(whole("has too many values to be checked against its schema".to_owned()));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_too_many_values_does_not_match() {
        let (_, full) = Full::compile(r#"{"type":"array"}"#).unwrap();
        let answer = |values: usize| format!("[{}]", vec!["0"; values].join(","));
        assert!(full.check(&answer(10_000)).is_ok());
        assert!(full.check(&answer(200_000)).unwrap_err().what.contains("too many values"));
    }
}
