//! When two values are the same, by the rules of JSON Schema: 1 is 1.0, and the order of
//! members does not matter. `serde_json` compares how a number is stored.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::number::Decimal;

/// How many bytes of text count as one step.
const TEXT_STEP: usize = 64;

/// Counts steps up to a limit.
#[derive(Debug)]
pub(super) struct Steps {
    left: u64,
}

/// The limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfSteps;

impl Steps {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn take(&mut self, steps: u64) -> Result<(), OutOfSteps> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(OutOfSteps),
        }
    }
}

/// The steps that a text takes to be read once.
pub(super) fn text_steps(text: &str) -> u64 {
    u64::try_from(1 + text.len() / TEXT_STEP).unwrap_or(u64::MAX)
}

/// Recursion ends with the values, which the parser keeps below 128 levels.
pub(super) fn equal(one: &Value, other: &Value, steps: &mut Steps) -> Result<bool, OutOfSteps> {
    steps.take(1)?;
    Ok(match (one, other) {
        (Value::String(one), Value::String(other)) => {
            steps.take(text_steps(one))?;
            one == other
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || Decimal::of(one) == Decimal::of(other)
        }
        (Value::Array(one), Value::Array(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.iter().zip(other) {
                if !equal(one, other, steps)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(one), Value::Object(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (name, one) in one {
                let Some(other) = other.get(name) else { return Ok(false) };
                if !equal(one, other, steps)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => one == other,
    })
}

/// Whether two of the values are the same. Only those with the same hash are compared.
pub(super) fn has_duplicate(values: &[Value], steps: &mut Steps) -> Result<bool, OutOfSteps> {
    let mut hashed = Vec::with_capacity(values.len());
    for value in values {
        hashed.push((hash(value, steps)?, value));
    }
    hashed.sort_by_key(|(hash, _)| *hash);
    for alike in hashed.chunk_by(|one, next| one.0 == next.0) {
        for (at, (_, one)) in alike.iter().enumerate() {
            for (_, other) in alike.iter().skip(at + 1) {
                if equal(one, other, steps)? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// The same for values that are the same.
fn hash(value: &Value, steps: &mut Steps) -> Result<u64, OutOfSteps> {
    steps.take(1)?;
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0_u8.hash(&mut hasher),
        Value::Bool(value) => (1_u8, value).hash(&mut hasher),
        Value::Number(value) => (2_u8, Decimal::of(value)).hash(&mut hasher),
        Value::String(value) => {
            steps.take(text_steps(value))?;
            (3_u8, value).hash(&mut hasher);
        }
        Value::Array(values) => {
            4_u8.hash(&mut hasher);
            for value in values {
                hash(value, steps)?.hash(&mut hasher);
            }
        }
        Value::Object(values) => {
            let mut sum = 0_u64;
            for (name, value) in values {
                let mut member = DefaultHasher::new();
                (name, hash(value, steps)?).hash(&mut member);
                sum = sum.wrapping_add(member.finish());
            }
            (5_u8, sum).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}
