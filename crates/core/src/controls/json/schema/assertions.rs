//! The keywords that concern a value alone, without another schema: whether it satisfies them, and
//! the message if it does not.

use serde_json::{Map, Number, Value};

use super::{
    Keyword, Side, Sized, Types,
    number::Decimal,
    values::{OutOfSteps, Steps, equal, has_duplicate, text_steps},
};

/// Doubles from here on have no fraction, and are written as integers of more than 64 bits.
const BIG: f64 = 18_446_744_073_709_551_616.0;

/// Whether a value is as a keyword demands. Keywords that apply schemas demand nothing here.
pub(super) fn holds(
    keyword: &Keyword,
    value: &Value,
    steps: &mut Steps,
) -> Result<bool, OutOfSteps> {
    Ok(match (keyword, value) {
        (Keyword::Nothing, _) => false,
        (Keyword::Type { allowed, zero_fraction }, value) => {
            has_type(value, *allowed, *zero_fraction)
        }
        (Keyword::Const(wanted), value) => equal(wanted, value, steps)?,
        (Keyword::Enum(allowed), value) => {
            for allowed in allowed {
                if equal(allowed, value, steps)? {
                    return Ok(true);
                }
            }
            false
        }
        (Keyword::Bound { side, limit, .. }, Value::Number(value)) => {
            let value = Decimal::of(value);
            match side {
                Side::Minimum => value >= *limit,
                Side::ExclusiveMinimum => value > *limit,
                Side::Maximum => value <= *limit,
                Side::ExclusiveMaximum => value < *limit,
            }
        }
        (Keyword::MultipleOf { divisor, .. }, Value::Number(value)) => {
            Decimal::of(value).is_multiple_of(*divisor)
        }
        (Keyword::Size { of, least, limit }, value) => {
            let size = match (of, value) {
                (Sized::Text, Value::String(text)) => {
                    steps.take(text_steps(text))?;
                    text.chars().count()
                }
                (Sized::Array, Value::Array(values)) => values.len(),
                (Sized::Object, Value::Object(values)) => values.len(),
                _ => return Ok(true),
            };
            if *least { size as u64 >= *limit } else { size as u64 <= *limit }
        }
        (Keyword::Required(names), Value::Object(values)) => {
            steps.take(names.len() as u64)?;
            missing(names, values).is_none()
        }
        (Keyword::DependentRequired(dependent), Value::Object(values)) => {
            let names = dependent.iter().map(|(_, names)| 1 + names.len());
            steps.take(names.sum::<usize>() as u64)?;
            missing_dependent(dependent, values).is_none()
        }
        (Keyword::UniqueItems, Value::Array(values)) => !has_duplicate(values, steps)?,
        _ => true,
    })
}

/// What is wrong with a value that is not as demanded, without the value itself: it may be
/// long, and it is not ours to repeat.
pub(super) fn words(keyword: &Keyword, value: &Value) -> String {
    match (keyword, value) {
        (Keyword::Nothing, _) => "no value is allowed here".to_owned(),
        (Keyword::Type { allowed, .. }, _) => format!("value is not of type {}", allowed.names()),
        (Keyword::Const(_), _) => "value is not the one that `const` allows".to_owned(),
        (Keyword::Enum(_), _) => "value is not one of those that `enum` allows".to_owned(),
        (Keyword::Bound { side, written, .. }, _) => match side {
            Side::Minimum => format!("value is less than the minimum of {written}"),
            Side::ExclusiveMinimum => format!("value is not greater than {written}"),
            Side::Maximum => format!("value is greater than the maximum of {written}"),
            Side::ExclusiveMaximum => format!("value is not less than {written}"),
        },
        (Keyword::MultipleOf { written, .. }, _) => format!("value is not a multiple of {written}"),
        (Keyword::Size { of, least, limit }, _) => {
            let than = if *least { "fewer" } else { "more" };
            let unit = match of {
                Sized::Text => "character",
                Sized::Array => "element",
                Sized::Object => "member",
            };
            let s = if *limit == 1 { "" } else { "s" };
            format!("value has {than} than {limit} {unit}{s}")
        }
        (Keyword::Pattern(pattern), _) => {
            format!("value does not match the pattern {}", pattern.source())
        }
        (Keyword::Required(names), Value::Object(values)) => {
            let name = missing(names, values).unwrap_or_default();
            format!("the required property {name:?} is missing")
        }
        (Keyword::DependentRequired(dependent), Value::Object(values)) => {
            let (by, name) = missing_dependent(dependent, values).unwrap_or_default();
            format!("the property {name:?}, which {by:?} requires, is missing")
        }
        (Keyword::UniqueItems, _) => "two elements are the same".to_owned(),
        _ => "value does not fit".to_owned(),
    }
}

fn has_type(value: &Value, allowed: Types, zero_fraction: bool) -> bool {
    match value {
        Value::Null => allowed.has(Types::NULL),
        Value::Bool(_) => allowed.has(Types::BOOLEAN),
        Value::String(_) => allowed.has(Types::STRING),
        Value::Array(_) => allowed.has(Types::ARRAY),
        Value::Object(_) => allowed.has(Types::OBJECT),
        Value::Number(number) => {
            allowed.has(Types::NUMBER)
                || (allowed.has(Types::INTEGER) && is_integer(number, zero_fraction))
        }
    }
}

/// Draft 4 asks how a number is written: there 1.0 is not an integer.
fn is_integer(number: &Number, zero_fraction: bool) -> bool {
    if number.is_i64() || number.is_u64() {
        return true;
    }
    let big = number.as_f64().is_some_and(|value| value.abs() >= BIG);
    (zero_fraction || big) && Decimal::of(number).is_integer()
}

fn missing<'a>(names: &'a [String], values: &Map<String, Value>) -> Option<&'a str> {
    names.iter().find(|name| !values.contains_key(*name)).map(String::as_str)
}

fn missing_dependent<'a>(
    dependent: &'a [(String, Vec<String>)],
    values: &Map<String, Value>,
) -> Option<(&'a str, &'a str)> {
    let mut asked = dependent.iter().filter(|(name, _)| values.contains_key(name));
    asked.find_map(|(name, names)| Some((name.as_str(), missing(names, values)?)))
}
