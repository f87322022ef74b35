//! YAML. The text is parsed to know that it is well-formed and where things are; then
//! lines are put between those that are there. It is never printed anew.

use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::Refused;

const MARK: &str = "\u{feff}";

/// More than anyone nests by hand.
const DEEPEST: usize = 64;

/// A text with one document, whose value is a mapping, a sequence or nothing yet.
#[derive(Debug)]
pub(crate) struct Document {
    marked: bool,
    text: String,
    /// `None` for a text without a value.
    root: Option<Node>,
}

/// Where a value stands: bytes of the text.
#[derive(Clone, Debug)]
struct Node {
    start: usize,
    /// Behind its last character; comments and blank lines below it are not in it.
    end: usize,
    /// Of its first character.
    column: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Scalar(Value),
    Mapping {
        flow: bool,
        pairs: Vec<(String, Node)>,
    },
    Sequence {
        flow: bool,
        items: Vec<Node>,
    },
    /// Another name for something above: left alone.
    Alias,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.marked { MARK } else { "" };
        write!(f, "{mark}{}", self.text)
    }
}

impl Document {
    /// # Errors
    /// The text is not well-formed, holds several documents, or a key twice.
    pub(crate) fn parse(text: &str) -> Result<Self, Refused> {
        let (marked, text) = match text.strip_prefix(MARK) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let root = Reader::new(text).document()?;
        Ok(Self { marked, text: text.to_owned(), root })
    }

    /// The value at a path.
    pub(crate) fn get(&self, path: &[&str]) -> Option<Value> {
        self.node(path).map(value)
    }

    /// Puts a value at a path. What leads there is made if need be.
    ///
    /// # Errors
    /// Something else stands in the way.
    pub(crate) fn set(&mut self, path: &[&str], wanted: &Value) -> Result<(), Refused> {
        if path.is_empty() || self.get(path).as_ref() == Some(wanted) {
            return Ok(());
        }
        let meant = |whole: &mut Value| at(whole, path).map(|at| *at = wanted.clone());
        self.checked(meant, |document| document.put(path, wanted))
    }

    fn put(&mut self, path: &[&str], wanted: &Value) -> Result<(), Refused> {
        if let Some(node) = self.node(path) {
            let (start, end) = (node.start, node.end);
            match node.kind {
                Kind::Scalar(_) if start < end => return self.splice(start, end, &flow(wanted)),
                Kind::Scalar(_) => return self.splice(start, end, &format!(" {}", flow(wanted))),
                Kind::Mapping { flow: true, .. } | Kind::Sequence { flow: true, .. } => {
                    return self.splice(start, end, &flow(wanted));
                }
                Kind::Mapping { .. } | Kind::Sequence { .. } | Kind::Alias => {
                    return Err(Refused::in_the_way(path, "plain value"));
                }
            }
        }
        let (way, wanted) = self.missing(path, wanted.clone());
        let Some((key, above)) = way.split_last() else { return Ok(()) };
        let Some(parent) = self.node(above) else {
            return self.append(&block_pair(key, &wanted, 0, self.step()));
        };
        let parent = parent.clone();
        match &parent.kind {
            Kind::Mapping { flow: false, pairs } => {
                let end = pairs.last().map_or(parent.end, |(_, node)| node.end);
                let lines = block_pair(key, &wanted, parent.column, self.step());
                self.below(end, &lines)
            }
            Kind::Mapping { flow: true, pairs } => {
                let item = format!("{}: {}", flow(&Value::from(*key)), flow(&wanted));
                self.inside(&parent, pairs.last().map(|(_, node)| node.end), &item)
            }
            // `key:` with nothing behind it.
            Kind::Scalar(Value::Null) if parent.start == parent.end && !above.is_empty() => {
                let column = self.column_of_key(above);
                let lines = block_pair(key, &wanted, column + self.step(), self.step());
                self.below(parent.end, &lines)
            }
            Kind::Scalar(_) | Kind::Sequence { .. } | Kind::Alias => {
                Err(Refused::in_the_way(above, "mapping"))
            }
        }
    }

    /// Puts a value at the end of the sequence at a path, unless it is there. An empty path
    /// is the document itself.
    ///
    /// # Errors
    /// Something else stands in the way.
    pub(crate) fn push_unique(&mut self, path: &[&str], wanted: &Value) -> Result<(), Refused> {
        let meant = |whole: &mut Value| {
            let list = at(whole, path)?;
            if list.is_null() {
                *list = Value::Array(Vec::new());
            }
            let list = list.as_array_mut()?;
            if !list.contains(wanted) {
                list.push(wanted.clone());
            }
            Some(())
        };
        self.checked(meant, |document| document.push(path, wanted))
    }

    fn push(&mut self, path: &[&str], wanted: &Value) -> Result<(), Refused> {
        let Some(node) = self.node(path) else {
            if path.is_empty() {
                return self.append(&block_item(wanted, 0, self.step()));
            }
            return self.put(path, &Value::Array(vec![wanted.clone()]));
        };
        let node = node.clone();
        match &node.kind {
            Kind::Sequence { items, .. } if items.iter().any(|item| value(item) == *wanted) => {
                Ok(())
            }
            Kind::Sequence { flow: false, items } => {
                let end = items.last().map_or(node.end, |item| item.end);
                let column = items.first().map_or(node.column, |item| self.dash(item));
                let lines = block_item(wanted, column, self.step());
                self.below(end, &lines)
            }
            Kind::Sequence { flow: true, items } => {
                self.inside(&node, items.last().map(|item| item.end), &flow(wanted))
            }
            Kind::Scalar(Value::Null) if node.start == node.end && !path.is_empty() => {
                let column = self.column_of_key(path);
                let lines = block_item(wanted, column + self.step(), self.step());
                self.below(node.end, &lines)
            }
            Kind::Scalar(_) | Kind::Mapping { .. } | Kind::Alias => {
                Err(Refused::in_the_way(path, "list"))
            }
        }
    }

    /// Edits, and holds the outcome against what is meant: lines may fit where they were put
    /// and say something else there.
    fn checked(
        &mut self,
        meant: impl FnOnce(&mut Value) -> Option<()>,
        edit: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let before = (self.text.clone(), self.root.clone());
        let mut wanted = self.get(&[]).unwrap_or_default();
        let outcome = edit(self).and_then(|()| {
            let right = meant(&mut wanted).is_some() && self.get(&[]).unwrap_or_default() == wanted;
            if right {
                Ok(())
            } else {
                Err(Refused::new("its layout is one that cannot be edited"))
            }
        });
        if outcome.is_err() {
            (self.text, self.root) = before;
        }
        outcome
    }

    /// Where the dash before an item stands in its line.
    fn dash(&self, item: &Node) -> usize {
        let before = self.text.get(..item.start).unwrap_or_default().trim_end();
        match before.strip_suffix('-') {
            Some(before) => before.chars().rev().take_while(|c| *c != '\n').count(),
            None => item.column.saturating_sub(2),
        }
    }

    fn node(&self, path: &[&str]) -> Option<&Node> {
        let mut node = self.root.as_ref()?;
        for key in path {
            let Kind::Mapping { pairs, .. } = &node.kind else { return None };
            node = &pairs.iter().find(|(name, _)| name == key)?.1;
        }
        Some(node)
    }

    /// The first part of the path that is not there, and the value it then has.
    fn missing<'a>(&self, path: &'a [&'a str], mut wanted: Value) -> (&'a [&'a str], Value) {
        let mut way = path;
        while let Some((last, above)) = way.split_last() {
            if above.is_empty() || self.node(above).is_some() {
                break;
            }
            wanted = Value::Object(Map::from_iter([((*last).to_owned(), wanted)]));
            way = above;
        }
        (way, wanted)
    }

    /// Where the key of a pair begins in its line.
    fn column_of_key(&self, path: &[&str]) -> usize {
        let above = path.split_last().and_then(|(_, above)| self.node(above));
        above.map_or(0, |node| node.column)
    }

    /// How far this text goes in: that of its first nested mapping.
    fn step(&self) -> usize {
        let Some(Node { column, kind: Kind::Mapping { pairs, .. }, .. }) = &self.root else {
            return 2;
        };
        let nested = pairs.iter().find_map(|(_, node)| match &node.kind {
            Kind::Mapping { flow: false, .. } => Some(node.column.saturating_sub(*column)),
            _ => None,
        });
        nested.filter(|step| (1..=8).contains(step)).unwrap_or(2)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Lines below the line in which `end` is.
    fn below(&mut self, end: usize, lines: &str) -> Result<(), Refused> {
        let rest = self.text.get(end..).unwrap_or_default();
        match rest.find('\n') {
            Some(at) => {
                let lines = self.ended(lines);
                self.splice(end + at + 1, end + at + 1, &lines)
            }
            None => self.append(lines),
        }
    }

    /// Lines at the end of the text. One that has no line end stays without.
    fn append(&mut self, lines: &str) -> Result<(), Refused> {
        let at = self.text.len();
        let new = self.ended(lines);
        if self.text.is_empty() || self.text.ends_with('\n') {
            return self.splice(at, at, &new);
        }
        let end = self.line_end();
        let new = format!("{end}{}", new.strip_suffix(end).unwrap_or(&new));
        self.splice(at, at, &new)
    }

    fn ended(&self, lines: &str) -> String {
        lines.replace('\n', self.line_end())
    }

    /// Something more between the brackets of a flow collection.
    fn inside(&mut self, node: &Node, last: Option<usize>, item: &str) -> Result<(), Refused> {
        match last {
            Some(end) => self.splice(end, end, &format!(", {item}")),
            None => self.splice(node.start + 1, node.start + 1, item),
        }
    }

    fn splice(&mut self, start: usize, end: usize, new: &str) -> Result<(), Refused> {
        let (Some(before), Some(after)) = (self.text.get(..start), self.text.get(end..)) else {
            return Err(Refused::new("it has a place that cannot be edited"));
        };
        let text = format!("{before}{new}{after}");
        // The proof that the lines fit where they were put.
        let root = Reader::new(&text).document()?;
        (self.text, self.root) = (text, root);
        Ok(())
    }
}

/// The place of a path in a value, with the mappings that lead there.
fn at<'a>(whole: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    let mut place = whole;
    for key in path {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = place.as_object_mut()?.entry(*key).or_insert(Value::Null);
    }
    Some(place)
}

fn value(node: &Node) -> Value {
    match &node.kind {
        Kind::Scalar(value) => value.clone(),
        Kind::Mapping { pairs, .. } => {
            let pairs = pairs.iter().map(|(key, node)| (key.clone(), value(node)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        Kind::Sequence { items, .. } => Value::Array(items.iter().map(value).collect()),
        Kind::Alias => Value::Null,
    }
}

/// On one line. JSON is YAML.
fn flow(value: &Value) -> String {
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

fn block_pair(key: &str, value: &Value, column: usize, step: usize) -> String {
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

fn block_item(value: &Value, column: usize, step: usize) -> String {
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

/// What a scalar without quotes means.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match serde_json::from_str::<Value>(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => Value::from(text),
        },
    }
}

struct Reader<'a> {
    text: &'a str,
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Byte offsets of characters, as far as they were asked for: markers count those.
    chars: usize,
    bytes: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, parser: Parser::new_from_str(text), chars: 0, bytes: 0 }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Refused> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Refused::at(error.marker().line(), error.info())),
            None => Err(Refused::new("it ends too early")),
        }
    }

    fn document(&mut self) -> Result<Option<Node>, Refused> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::StreamStart | Event::DocumentEnd | Event::Nothing, _) => {}
                (Event::DocumentStart(_), span) => {
                    if root.is_some() {
                        return Err(Refused::at(span.start.line(), "it holds several documents"));
                    }
                    let event = self.next()?;
                    let node = self.node(event, DEEPEST)?;
                    // A document of comments alone.
                    let empty =
                        matches!(node.kind, Kind::Scalar(Value::Null)) && node.start == node.end;
                    root = (!empty).then_some(node);
                }
                (_, span) => return Err(Refused::at(span.start.line(), "it is no document")),
            }
        }
    }

    fn node(&mut self, (event, span): (Event<'a>, Span), left: usize) -> Result<Node, Refused> {
        let left = left
            .checked_sub(1)
            .ok_or_else(|| Refused::at(span.start.line(), "it is nested too deeply"))?;
        let (start, column) = (self.byte(&span.start), span.start.col());
        let flow = |mark: char, start: usize| {
            self.text.get(start..).is_some_and(|rest| rest.starts_with(mark))
        };
        let (kind, end) = match event {
            Event::Scalar(text, style, _, tag) => {
                let value = match style {
                    ScalarStyle::Plain if tag.is_none() => plain(&text),
                    _ => Value::from(text.into_owned()),
                };
                let end = self.byte(&span.end);
                let text = self.text.get(start..).unwrap_or_default();
                if start == end && text.starts_with(':') {
                    // Nothing, which is put before the colon of its key.
                    return Ok(Node {
                        start: start + 1,
                        end: start + 1,
                        column,
                        kind: Kind::Scalar(value),
                    });
                }
                (Kind::Scalar(value), self.trimmed(start, end))
            }
            Event::SequenceStart(..) => {
                let flow = flow('[', start);
                let mut items = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => break self.byte(&span.end),
                        event => items.push(self.node(event, left)?),
                    }
                };
                let end = if flow { end } else { items.last().map_or(start, |n| n.end) };
                (Kind::Sequence { flow, items }, end)
            }
            Event::MappingStart(..) => {
                let flow = flow('{', start);
                let mut pairs: Vec<(String, Node)> = Vec::new();
                let end = loop {
                    let (event, at) = self.next()?;
                    let key = match event {
                        Event::MappingEnd => break self.byte(&at.end),
                        Event::Scalar(key, ..) => key.into_owned(),
                        _ => return Err(Refused::at(at.start.line(), "a key is no text")),
                    };
                    if pairs.iter().any(|(there, _)| *there == key) {
                        return Err(Refused::at(
                            at.start.line(),
                            format!("`{key}` is there twice"),
                        ));
                    }
                    let event = self.next()?;
                    pairs.push((key, self.node(event, left)?));
                };
                let end = if flow { end } else { pairs.last().map_or(start, |(_, n)| n.end) };
                (Kind::Mapping { flow, pairs }, end)
            }
            Event::Alias(_) => (Kind::Alias, self.byte(&span.end)),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => {
                return Err(Refused::at(span.start.line(), "something is missing"));
            }
        };
        Ok(Node { start, end, column, kind })
    }

    /// Block scalars end where the next thing begins.
    fn trimmed(&self, start: usize, end: usize) -> usize {
        let text = self.text.get(start..end).unwrap_or_default();
        start + text.trim_end().len()
    }

    /// Markers mostly go forward; one that does not is counted from the top.
    fn byte(&mut self, marker: &Marker) -> usize {
        if marker.index() < self.chars {
            (self.chars, self.bytes) = (0, 0);
        }
        let rest = self.text.get(self.bytes..).unwrap_or_default();
        let ahead = marker.index() - self.chars;
        let step = rest.char_indices().nth(ahead).map_or(rest.len(), |(at, _)| at);
        (self.chars, self.bytes) = (marker.index(), self.bytes + step);
        self.bytes
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
