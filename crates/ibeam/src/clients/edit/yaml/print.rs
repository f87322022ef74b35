//! New lines of YAML, in the layout of the text around them.

use serde_json::Value;

use super::read::plain;

/// On one line. JSON is YAML.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        _ => value.to_string(),
    }
}

/// Words that older readers take for a switch.
const SWITCHES: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];

/// A text that means itself without quotes.
fn is_plain(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(word)
        && matches!(plain(text), Value::String(_))
        && !SWITCHES.contains(&text.to_ascii_lowercase().as_str())
}

pub(super) fn block_pair(key: &str, value: &Value, column: usize, step: usize) -> String {
    let pad = " ".repeat(column);
    let key = flow(&Value::from(key));
    match value {
        Value::Object(map) if !map.is_empty() => {
            let pairs = map.iter().map(|(k, v)| block_pair(k, v, column + step, step));
            format!("{pad}{key}:\n{}", pairs.collect::<String>())
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| block_item(item, column + step, step));
            format!("{pad}{key}:\n{}", items.collect::<String>())
        }
        _ => format!("{pad}{key}: {}\n", flow(value)),
    }
}

pub(super) fn block_item(value: &Value, column: usize, step: usize) -> String {
    let pad = " ".repeat(column);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let pairs: String =
                map.iter().map(|(k, v)| block_pair(k, v, column + 2, step)).collect();
            format!("{pad}- {}", pairs.trim_start())
        }
        _ => format!("{pad}- {}\n", flow(value)),
    }
}
