//! One text for all renderings of a JSON value: key order, white space, escapes and
//! the form of numbers (`1`, `1.0`, `1e0`) do not matter.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::json::JsonSize;

/// The canonical form of JSON text. What is not JSON, or too much of it, stands for itself, trimmed.
pub(crate) fn canonical(text: &str) -> String {
    let Some(value) = JsonSize::CLIENT.parse(text) else {
        return text.trim().to_owned();
    };
    let mut out = String::with_capacity(text.len());
    write_value(&value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => write_number(number, out),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            // Sorted here, so that no feature of the JSON library changes a hash.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (place, (key, member)) in members.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

fn write_number(number: &Number, out: &mut String) {
    // Above this a float does not know its own last digit.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        Some(0.0) => write!(out, "0"),
        Some(value) if value.fract() == 0.0 && value.abs() <= EXACT => write!(out, "{value:.0}"),
        _ => write!(out, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use super::canonical;
    use crate::codec::json::MOST_OBJECTS;

    /// A tree of it would be a hundred times as large.
    #[test]
    fn text_of_too_many_objects_stands_for_itself() {
        let text = |count: usize| format!(" [{}]", vec!["{ }"; count].join(","));
        assert!(!canonical(&text(MOST_OBJECTS)).contains(' '));
        let huge = text(3 * MOST_OBJECTS);
        assert_eq!(canonical(&huge), huge.trim());
    }

    #[test]
    fn equal_values_have_one_canonical_form() {
        for (a, b) in [
            (r#"{"b":1,"a":[1.0,-0.0]}"#, "{ \"a\" : [1e0, 0],\n\"b\": 1.0 }"),
            (r#"{"k":"\u00e9\/"}"#, r#"{"k":"é/"}"#),
            ("not json ", " not json"),
        ] {
            assert_eq!(canonical(a), canonical(b));
        }
        for (a, b) in [("[1,2]", "[2,1]"), ("1", "1.5"), ("\"1\"", "1"), ("null", "{}")] {
            assert_ne!(canonical(a), canonical(b));
        }
    }
}
