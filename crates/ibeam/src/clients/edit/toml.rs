//! TOML.

use std::fmt;

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value as Toml};

use super::{EditRefused, KeyRemoval, SettingsDocument, split_mark};

#[derive(Debug)]
pub(crate) struct TomlDocument {
    mark: &'static str,
    /// The editor ends lines as Unix does.
    carriage: bool,
    root: DocumentMut,
}

impl fmt::Display for TomlDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mark)?;
        let text = self.root.to_string();
        if self.carriage { f.write_str(&carriage(&text)) } else { f.write_str(&text) }
    }
}

/// New lines end as those around them do.
fn carriage(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(body) if !body.ends_with('\r') => {
                out.push_str(body);
                out.push_str("\r\n");
            }
            _ => out.push_str(line),
        }
    }
    out
}

impl SettingsDocument for TomlDocument {
    fn parse(text: &str) -> Result<Self, EditRefused> {
        let (mark, text) = split_mark(text);
        let root = text.parse::<DocumentMut>().map_err(|error| {
            let why = error.message().replace('\n', "; ");
            match error.span().and_then(|span| text.get(..span.start)) {
                Some(before) => EditRefused::at(before.matches('\n').count() + 1, why),
                None => EditRefused::new(why),
            }
        })?;
        // Only where every line does: what is written must not change another line's end.
        let lines = text.matches('\n').count();
        let carriage = lines > 0 && text.matches("\r\n").count() == lines;
        Ok(Self { mark, carriage, root })
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        let mut item: &Item = self.root.as_item();
        for key in path {
            item = item.as_table_like()?.get(key)?;
        }
        of_item(item)
    }

    /// A new object becomes a table with a header of its own.
    fn set(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        if self.get(path).as_ref() == Some(wanted) {
            return Ok(());
        }
        let mut above: &mut Item = self.root.as_item_mut();
        for (depth, key) in way.iter().enumerate() {
            let made = if above.is_inline_table() { inline() } else { implicit() };
            let table = above.as_table_like_mut().ok_or_else(|| in_the_way(way, depth))?;
            above = table.entry(key).or_insert(made);
        }
        let new =
            if above.is_inline_table() { Item::Value(to_value(wanted)) } else { to_item(wanted) };
        let table = above.as_table_like_mut().ok_or_else(|| in_the_way(way, way.len()))?;
        // A value keeps the comment behind it.
        let decor = table.get(last).and_then(Item::as_value).map(|value| value.decor().clone());
        let there = table.entry(last).or_insert(Item::None);
        *there = new;
        if let (Some(value), Some(decor)) = (there.as_value_mut(), decor) {
            *value.decor_mut() = decor;
        }
        Ok(())
    }
}

impl KeyRemoval for TomlDocument {
    fn remove(&mut self, path: &[&str]) {
        let Some((last, way)) = path.split_last() else { return };
        let mut table: &mut dyn TableLike = self.root.as_table_mut();
        for key in way {
            let Some(next) = table.get_mut(key).and_then(Item::as_table_like_mut) else { return };
            table = next;
        }
        table.remove(last);
    }
}

/// A value as it stands behind an equals sign, on one line.
pub(crate) fn literal(value: &Value) -> String {
    to_value(value).to_string()
}

/// The value at the first `depth` keys is not a table.
fn in_the_way(way: &[&str], depth: usize) -> EditRefused {
    EditRefused::in_the_way(way.get(..depth).unwrap_or(way), "a table")
}

fn inline() -> Item {
    Item::Value(Toml::InlineTable(InlineTable::new()))
}

/// A table on the way to another: it gets no header.
fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn to_item(value: &Value) -> Item {
    let Value::Object(map) = value else { return Item::Value(to_value(value)) };
    let mut table = Table::new();
    for (key, value) in map {
        table.insert(key, Item::Value(to_value(value)));
    }
    Item::Table(table)
}

/// TOML has no null; what is null is not written.
fn to_value(value: &Value) -> Toml {
    match value {
        Value::Null => Toml::from(""),
        Value::Bool(value) => Toml::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Toml::from(whole),
            (None, float) => Toml::from(float.unwrap_or_default()),
        },
        Value::String(text) => Toml::from(text.as_str()),
        Value::Array(items) => Toml::Array(items.iter().map(to_value).collect::<Array>()),
        Value::Object(map) => Toml::InlineTable(
            map.iter().map(|(key, value)| (key.as_str(), to_value(value))).collect(),
        ),
    }
}

fn of_item(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(of_value(value)),
        Item::Table(table) => Some(of_table(table)),
        Item::ArrayOfTables(tables) => {
            Some(Value::Array(tables.iter().map(|table| of_table(table)).collect()))
        }
    }
}

fn of_table(table: &dyn TableLike) -> Value {
    let pairs = table.iter().filter_map(|(key, item)| Some((key.to_owned(), of_item(item)?)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn of_value(value: &Toml) -> Value {
    match value {
        Toml::String(text) => Value::from(text.value().as_str()),
        Toml::Integer(number) => Value::from(*number.value()),
        Toml::Float(number) => Value::from(*number.value()),
        Toml::Boolean(value) => Value::from(*value.value()),
        Toml::Datetime(time) => Value::from(time.value().to_string()),
        Toml::Array(items) => Value::Array(items.iter().map(of_value).collect()),
        Toml::InlineTable(table) => of_table(table),
    }
}

#[cfg(test)]
#[path = "toml_tests.rs"]
mod tests;
