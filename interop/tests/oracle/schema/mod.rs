//! The JSON Schema validator of `core` against the validator of others.

mod agreement;
