//! The JSON Schema validator of `core` against the specification's own test suite, and
//! against the validator of others.

mod agreement;
mod suite;
