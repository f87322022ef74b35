//! The check of a whole answer against a whole JSON Schema.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::{
    bounds::{Bounds, Cost},
    machine::Violation,
};

/// A schema beyond this is refused.
const SCHEMA_BYTES: usize = 256 << 10;

/// How hard one pattern may try on one text, and how large it may become.
const PATTERN_STEPS: usize = 10_000;
const PATTERN_BYTES: usize = 1 << 20;

/// The longest piece of the validator's words that is passed on.
const WORDS: usize = 300;

/// A schema that answers can be held against.
#[derive(Debug)]
pub(super) struct Full {
    validator: Box<Validator>,
    bounds: Bounds,
}

impl Full {
    /// # Errors
    /// Says why it is none.
    pub(super) fn compile(text: &str) -> Result<(Value, Self), String> {
        if text.len() > SCHEMA_BYTES {
            return Err(format!("it is larger than {} KiB", SCHEMA_BYTES >> 10));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !schema.is_object() {
            return Err("it is not an object".to_owned());
        }
        // Before the validator sees it.
        let bounds = Bounds::of(&schema)?;
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS).size_limit(PATTERN_BYTES);
        // Nothing is fetched that a schema refers to.
        let validator =
            jsonschema::options().offline().with_pattern_options(patterns).build(&schema);
        let validator = validator.map_err(|error| capped(&error.to_string()))?;
        Ok((schema, Self { validator: Box::new(validator), bounds }))
    }

    /// Finds the first thing that is wrong with the JSON in `text`.
    pub(super) fn check(&self, text: &str) -> Result<(), Violation> {
        let value: Value = serde_json::from_str(text).map_err(|error| Violation {
            path: String::new(),
            what: format!("is no valid JSON: {error}"),
        })?;
        let whole = |what: &str| Violation { path: String::new(), what: what.to_owned() };
        match self.bounds.cost(&value) {
            Cost::TooMuch => return Err(whole("takes too long to hold against its schema")),
            // What is wrong is told with everything that was tried: too much to keep.
            Cost::Much if !self.validator.is_valid(&value) => {
                return Err(whole("does not fit its schema"));
            }
            Cost::Much => return Ok(()),
            Cost::Little => {}
        }
        self.validator.validate(&value).map_err(|error| Violation {
            path: error.instance_path().to_string(),
            // Without the value itself, which may be long.
            what: format!("does not fit: {}", capped(&error.masked().to_string())),
        })
    }
}

fn capped(text: &str) -> String {
    match text.get(..text.floor_char_boundary(WORDS)) {
        Some(head) if head.len() < text.len() => format!("{head}…"),
        _ => text.to_owned(),
    }
}
