//! A client's tool as its JSON Schema declares it, and calls that fit.

use serde_json::{Map, Value};

use super::table::{Capability, Entry, Slot, TABLE};
use crate::{codec::json::JsonSize, model::Tool};

/// A tool of the client that counts as one of the table's kinds.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub(super) name: String,
    pub(super) capability: Capability,
    parameters: Vec<Parameter>,
    numbers_lines: bool,
}

/// One declared parameter.
#[derive(Clone, Debug)]
struct Parameter {
    name: String,
    slot: Option<Slot>,
    required: bool,
    kinds: Vec<String>,
    description: String,
    /// The type of an array's items, where it is declared.
    items: Option<Value>,
    fallback: Option<Value>,
    /// The highest value that the schema allows.
    maximum: Option<usize>,
    choices: Vec<Value>,
}

/// The unit of a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
}

/// A value on its way into a call.
#[derive(Clone, Debug)]
pub(super) struct Given {
    slot: Slot,
    value: Value,
    /// Without a place for it, the tool does not fit.
    needed: bool,
}

/// A value that the call makes no sense without.
pub(super) fn must(slot: Slot, value: impl Into<Value>) -> Given {
    Given { slot, value: value.into(), needed: true }
}

/// A value that is left out when the tool has no place for it.
pub(super) fn may(slot: Slot, value: impl Into<Value>) -> Given {
    Given { slot, value: value.into(), needed: false }
}

impl Fitted {
    /// What the tool counts as; nothing for a tool that the table does not know.
    pub(super) fn of(tool: &Tool, entry: &Entry) -> Option<Self> {
        if !entry.names.iter().any(|known| same(known, &tool.name)) {
            return None;
        }
        let schema = JsonSize::CLIENT.parse(tool.schema.as_ref()?.get())?;
        let properties = schema.get("properties")?.as_object()?;
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let parameters = properties
            .iter()
            .map(|(name, schema)| {
                Parameter::of(name, schema, required.contains(&name.as_str()), entry)
            })
            .collect();
        Some(Self {
            name: tool.name.clone(),
            capability: entry.capability,
            parameters,
            numbers_lines: numbers_lines(&tool.description),
        })
    }

    /// How early the table names it: of several tools of one kind the first wins.
    pub(super) fn rank(&self) -> usize {
        TABLE
            .iter()
            .filter(|entry| entry.capability == self.capability)
            .find_map(|entry| entry.names.iter().position(|known| same(known, &self.name)))
            .unwrap_or(usize::MAX)
    }

    pub(super) fn has(&self, slot: Slot) -> bool {
        self.parameter(slot).is_some()
    }

    /// The highest value that the schema allows for this parameter.
    pub(super) fn maximum(&self, slot: Slot) -> Option<usize> {
        self.parameter(slot)?.maximum
    }

    /// The highest value that only the parameter's description speaks of.
    pub(super) fn said_maximum(&self, slot: Slot) -> Option<usize> {
        let text = &self.parameter(slot)?.description;
        ["maximum of ", "maximum: ", "maximum ", "max: ", "max ", "at most ", "up to "]
            .iter()
            .find_map(|words| {
                let (_, after) = text.split_once(words)?;
                let end = after.find(|c: char| !c.is_ascii_digit() && c != ',');
                let digits = after.get(..end.unwrap_or(after.len()))?;
                digits.replace(',', "").parse().ok()
            })
    }

    /// Whether the tool's description says that lines come with their numbers.
    pub(super) fn numbers_lines(&self) -> bool {
        self.numbers_lines
    }

    /// Whether what the schema says of this parameter holds one of these words.
    pub(super) fn says(&self, slot: Slot, words: &[&str]) -> bool {
        self.parameter(slot)
            .is_some_and(|found| words.iter().any(|word| found.description.contains(word)))
    }

    /// Counts lines from 0. Tools that do so say it.
    pub(super) fn counts_from_zero(&self) -> bool {
        self.says(Slot::FirstLine, &["0-based", "0-indexed", "zero-based", "zero-indexed"])
    }

    /// The unit of its time limit; `None` if it is unknown, because a guess could be wrong a
    /// thousandfold.
    pub(super) fn time_unit(&self) -> Option<Unit> {
        let limit = self.parameter(Slot::Timeout)?;
        let (name, text) = (limit.name.to_lowercase(), &limit.description);
        if name.ends_with("ms") || text.contains("millisecond") || text.contains("(ms)") {
            Some(Unit::Milliseconds)
        } else if name.contains("sec") || text.contains("second") {
            Some(Unit::Seconds)
        } else {
            None
        }
    }

    /// Whether its time limit only ends the waiting, not the command.
    pub(super) fn returns_early(&self) -> bool {
        self.parameter(Slot::Timeout).is_some_and(|limit| same(&limit.name, "yield_time_ms"))
    }

    /// The names of an edit's two texts, where the tool takes a list of edits.
    pub(super) fn edit_keys(&self) -> Option<(String, String)> {
        let items = self.parameter(Slot::Edits)?.items.as_ref()?;
        let keys = items.get("properties")?.as_object()?;
        let entry = TABLE.iter().find(|entry| entry.capability == Capability::Edit)?;
        let key = |slot| keys.keys().find(|key| slot_of(key, entry) == Some(slot)).cloned();
        Some((key(Slot::Old)?, key(Slot::New)?))
    }

    /// The arguments of a call with these values; `None` when the tool has no place for a needed
    /// one, or requires something that is not there.
    pub(super) fn fill(&self, given: &[Given]) -> Option<Value> {
        let mut arguments = Map::new();
        for Given { slot, value, needed } in given {
            let placed =
                self.parameter(*slot).and_then(|found| Some((found, found.convert(*slot, value)?)));
            match placed {
                Some((found, value)) => drop(arguments.insert(found.name.clone(), value)),
                None if *needed => return None,
                None => {}
            }
        }
        for missing in self.parameters.iter().filter(|found| found.required) {
            if !arguments.contains_key(&missing.name) {
                arguments.insert(missing.name.clone(), missing.default()?);
            }
        }
        Some(Value::Object(arguments))
    }

    fn parameter(&self, slot: Slot) -> Option<&Parameter> {
        self.parameters.iter().find(|found| found.slot == Some(slot))
    }
}

impl Parameter {
    fn of(name: &str, schema: &Value, required: bool, entry: &Entry) -> Self {
        let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let mut kinds = Vec::new();
        let mut items = None;
        collect(schema, &mut kinds, &mut items, 4);
        let choices = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
        Self {
            name: name.to_owned(),
            slot: slot_of(name, entry),
            required,
            kinds,
            description: text.to_lowercase(),
            items,
            fallback: schema.get("default").cloned(),
            maximum: maximum(schema),
            choices,
        }
    }

    fn takes(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|found| found == kind)
    }

    /// The value in a type that the schema takes.
    fn convert(&self, slot: Slot, value: &Value) -> Option<Value> {
        let fits = match value {
            Value::Null => self.takes("null"),
            Value::Bool(_) => self.takes("boolean"),
            Value::Number(number) => {
                self.takes("number") || (self.takes("integer") && number.as_f64()?.fract() == 0.0)
            }
            Value::String(_) => self.takes("string"),
            Value::Array(_) => self.takes("array"),
            Value::Object(_) => self.takes("object"),
        };
        let converted = match value {
            _ if fits => value.clone(),
            // A program and its arguments: only a shell reads a command line.
            Value::String(line) if slot == Slot::Command && self.takes("array") => {
                match self.name.as_str() {
                    "commands" => vec![line.as_str()].into(),
                    _ => vec!["bash", "-lc", line].into(),
                }
            }
            Value::String(text) if self.takes("array") => vec![text.as_str()].into(),
            Value::Number(number) if self.takes("integer") => {
                #[expect(clippy::cast_possible_truncation, reason = "a time limit in whole units")]
                let whole = number.as_f64()?.ceil() as i64;
                whole.into()
            }
            Value::Number(number) if self.takes("string") => number.to_string().into(),
            Value::Array(texts) if self.takes("string") => {
                let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
                texts.join(",").into()
            }
            _ => return None,
        };
        (self.choices.is_empty() || self.choices.contains(&converted)).then_some(converted)
    }

    /// What stands for a required value that the built-in tool does not have.
    fn default(&self) -> Option<Value> {
        if let Some(value) = &self.fallback {
            return Some(value.clone());
        }
        if self.kinds.iter().any(|kind| kind == "null") {
            return Some(Value::Null);
        }
        // A switch is off, except the one by which a client asks its user first.
        let asks = self.name.to_lowercase().contains("approv");
        (self.kinds == ["boolean"]).then_some(Value::Bool(asks))
    }
}

/// The declared types, through `anyOf` and its kin, and what an array holds.
fn collect(schema: &Value, kinds: &mut Vec<String>, items: &mut Option<Value>, depth: usize) {
    match schema.get("type") {
        Some(Value::String(kind)) => kinds.push(kind.clone()),
        Some(Value::Array(many)) => {
            kinds.extend(many.iter().filter_map(Value::as_str).map(ToOwned::to_owned));
        }
        _ => {}
    }
    if let Some(found) = schema.get("items") {
        *items = Some(found.clone());
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    for key in ["anyOf", "oneOf", "allOf"] {
        for variant in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            collect(variant, kinds, items, depth);
        }
    }
}

/// `maximum` and `exclusiveMaximum`, also as fractions: they are numbers, not integers.
fn maximum(schema: &Value) -> Option<usize> {
    let whole = |key: &str| {
        let number = schema.get(key)?.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and no file has that many lines"
        )]
        let whole = number as usize;
        Some(whole)
    };
    let below = whole("exclusiveMaximum").map(|number| number.saturating_sub(1));
    whole("maximum").into_iter().chain(below).min()
}

/// How reading tools say in their description that they number lines.
fn numbers_lines(description: &str) -> bool {
    let text = description.to_lowercase();
    ["cat -n", "line numbers", "its line number", "lines in the output are numbered", "line_number"]
        .iter()
        .any(|words| text.contains(words))
}

fn slot_of(name: &str, entry: &Entry) -> Option<Slot> {
    entry.slots.iter().find_map(|(slot, names)| {
        // The case of flags matters: `-a` is not `-A`.
        let same = |known: &&str| match name.starts_with('-') {
            true => *known == name,
            false => !known.starts_with('-') && same(known, name),
        };
        names.iter().any(same).then_some(*slot)
    })
}

/// Whether two names are the same but for case and punctuation.
pub(super) fn same(one: &str, other: &str) -> bool {
    fn plain(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
    }
    plain(one).eq(plain(other))
}
