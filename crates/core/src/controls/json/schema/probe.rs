//! The validator by itself, for the suites in `interop`.

use super::{CompiledSchema, Draft, Misfit};

/// A compiled schema. Not part of the API of this crate.
#[derive(Debug)]
pub struct JsonSchema(CompiledSchema);

impl JsonSchema {
    /// Compiles a schema; `dialect` is its `$schema` if it has none.
    ///
    /// # Errors
    /// Says why the schema cannot be used.
    pub fn compile(schema: &str, dialect: &str) -> Result<Self, String> {
        let draft = Draft::named(dialect).ok_or("the dialect is unknown")?;
        let schema = serde_json::from_str(schema).map_err(|error| error.to_string())?;
        CompiledSchema::compile(&schema, draft).map(Self)
    }

    /// Checks JSON against the schema.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn check(&self, json: &str) -> Result<(), String> {
        let value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        self.0.check(&value).map_err(|misfit| match misfit {
            Misfit::Invalid { path, what } => format!("{path}: {what}"),
            Misfit::TooMuch => "takes too long".to_owned(),
        })
    }
}
