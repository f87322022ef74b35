//! YAML. The text is parsed to know that it is well-formed and where things are; then
//! lines are put between those that are there. It is never printed as a whole.

mod print;
mod read;

use std::fmt;

use serde_json::{Map, Value};

use self::{
    print::{block_item, block_pair, flow},
    read::YamlReader,
};
use super::{EditRefused, ListDocument, SettingsDocument, split_mark};

/// A text with one document, whose value is a mapping, a sequence or nothing yet.
#[derive(Debug)]
pub(crate) struct YamlDocument {
    mark: &'static str,
    text: String,
    /// `None` for a text without a value.
    root: Option<YamlNode>,
}

/// Where a value stands: bytes of the text.
#[derive(Clone, Debug)]
struct YamlNode {
    start: usize,
    /// Behind its last character; comments and blank lines below it are not in it.
    end: usize,
    /// Of its first character.
    column: usize,
    kind: YamlKind,
}

#[derive(Clone, Debug)]
enum YamlKind {
    Scalar(Value),
    Mapping {
        flow: bool,
        pairs: Vec<(String, YamlNode)>,
    },
    Sequence {
        flow: bool,
        items: Vec<YamlNode>,
    },
    /// Another name for something above: left alone.
    Alias,
}

impl fmt::Display for YamlDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.mark, self.text)
    }
}

impl SettingsDocument for YamlDocument {
    fn parse(text: &str) -> Result<Self, EditRefused> {
        let (mark, text) = split_mark(text);
        let root = YamlReader::new(text).document()?;
        Ok(Self { mark, text: text.to_owned(), root })
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        self.node(path).map(value)
    }

    fn set(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        if path.is_empty() || self.get(path).as_ref() == Some(wanted) {
            return Ok(());
        }
        let meant = |whole: &mut Value| at(whole, path).map(|at| *at = wanted.clone());
        self.checked(meant, |document| document.put(path, wanted))
    }
}

impl ListDocument for YamlDocument {
    /// An empty path is the document itself.
    fn push_unique(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
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
}

impl YamlDocument {
    fn put(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        if let Some(node) = self.node(path) {
            let (start, end) = (node.start, node.end);
            match node.kind {
                YamlKind::Scalar(_) if start < end => {
                    return self.splice(start, end, &flow(wanted));
                }
                YamlKind::Scalar(_) => {
                    return self.splice(start, end, &format!(" {}", flow(wanted)));
                }
                YamlKind::Mapping { flow: true, .. } | YamlKind::Sequence { flow: true, .. } => {
                    return self.splice(start, end, &flow(wanted));
                }
                YamlKind::Mapping { .. } | YamlKind::Sequence { .. } | YamlKind::Alias => {
                    return Err(EditRefused::in_the_way(path, "a plain value"));
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
            YamlKind::Mapping { flow: false, pairs } => {
                let end = pairs.last().map_or(parent.end, |(_, node)| node.end);
                let lines = block_pair(key, &wanted, parent.column, self.step());
                self.below(end, &lines)
            }
            YamlKind::Mapping { flow: true, pairs } => {
                let item = format!("{}: {}", flow(&Value::from(*key)), flow(&wanted));
                self.inside(&parent, pairs.last().map(|(_, node)| node.end), &item)
            }
            // `key:` with nothing behind it.
            YamlKind::Scalar(Value::Null) if parent.start == parent.end && !above.is_empty() => {
                let column = self.column_of_key(above);
                let lines = block_pair(key, &wanted, column + self.step(), self.step());
                self.below(parent.end, &lines)
            }
            YamlKind::Scalar(_) | YamlKind::Sequence { .. } | YamlKind::Alias => {
                Err(EditRefused::in_the_way(above, "a mapping"))
            }
        }
    }

    fn push(&mut self, path: &[&str], wanted: &Value) -> Result<(), EditRefused> {
        let Some(node) = self.node(path) else {
            if path.is_empty() {
                return self.append(&block_item(wanted, 0, self.step()));
            }
            return self.put(path, &Value::Array(vec![wanted.clone()]));
        };
        let node = node.clone();
        match &node.kind {
            YamlKind::Sequence { items, .. } if items.iter().any(|item| value(item) == *wanted) => {
                Ok(())
            }
            YamlKind::Sequence { flow: false, items } => {
                let end = items.last().map_or(node.end, |item| item.end);
                let column = items.first().map_or(node.column, |item| self.dash(item));
                let lines = block_item(wanted, column, self.step());
                self.below(end, &lines)
            }
            YamlKind::Sequence { flow: true, items } => {
                self.inside(&node, items.last().map(|item| item.end), &flow(wanted))
            }
            YamlKind::Scalar(Value::Null) if node.start == node.end && !path.is_empty() => {
                let column = self.column_of_key(path);
                let lines = block_item(wanted, column + self.step(), self.step());
                self.below(node.end, &lines)
            }
            YamlKind::Scalar(_) | YamlKind::Mapping { .. } | YamlKind::Alias => {
                Err(EditRefused::in_the_way(path, "a list"))
            }
        }
    }

    /// Edits, and holds the outcome against what is meant: lines may fit where they were put
    /// and say something else there.
    fn checked(
        &mut self,
        meant: impl FnOnce(&mut Value) -> Option<()>,
        edit: impl FnOnce(&mut Self) -> Result<(), EditRefused>,
    ) -> Result<(), EditRefused> {
        let before = (self.text.clone(), self.root.clone());
        let mut wanted = self.get(&[]).unwrap_or_default();
        let outcome = edit(self).and_then(|()| {
            let right = meant(&mut wanted).is_some() && self.get(&[]).unwrap_or_default() == wanted;
            if right { Ok(()) } else { Err(EditRefused::new("its layout cannot be edited")) }
        });
        if outcome.is_err() {
            (self.text, self.root) = before;
        }
        outcome
    }

    /// Where the dash before an item stands in its line.
    fn dash(&self, item: &YamlNode) -> usize {
        let before = self.text.get(..item.start).unwrap_or_default().trim_end();
        match before.strip_suffix('-') {
            Some(before) => before.chars().rev().take_while(|c| *c != '\n').count(),
            None => item.column.saturating_sub(2),
        }
    }

    fn node(&self, path: &[&str]) -> Option<&YamlNode> {
        let mut node = self.root.as_ref()?;
        for key in path {
            let YamlKind::Mapping { pairs, .. } = &node.kind else { return None };
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
        let Some(YamlNode { column, kind: YamlKind::Mapping { pairs, .. }, .. }) = &self.root
        else {
            return 2;
        };
        let nested = pairs.iter().find_map(|(_, node)| match &node.kind {
            YamlKind::Mapping { flow: false, .. } => Some(node.column.saturating_sub(*column)),
            _ => None,
        });
        nested.filter(|step| (1..=8).contains(step)).unwrap_or(2)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Lines below the line in which `end` is.
    fn below(&mut self, end: usize, lines: &str) -> Result<(), EditRefused> {
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
    fn append(&mut self, lines: &str) -> Result<(), EditRefused> {
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
    fn inside(
        &mut self,
        node: &YamlNode,
        last: Option<usize>,
        item: &str,
    ) -> Result<(), EditRefused> {
        match last {
            Some(end) => self.splice(end, end, &format!(", {item}")),
            None => self.splice(node.start + 1, node.start + 1, item),
        }
    }

    fn splice(&mut self, start: usize, end: usize, new: &str) -> Result<(), EditRefused> {
        let (Some(before), Some(after)) = (self.text.get(..start), self.text.get(end..)) else {
            return Err(EditRefused::new("a part of it cannot be edited"));
        };
        let text = format!("{before}{new}{after}");
        // The proof that the lines fit where they were put.
        let root = YamlReader::new(&text).document()?;
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

fn value(node: &YamlNode) -> Value {
    match &node.kind {
        YamlKind::Scalar(value) => value.clone(),
        YamlKind::Mapping { pairs, .. } => {
            let pairs = pairs.iter().map(|(key, node)| (key.clone(), value(node)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        YamlKind::Sequence { items, .. } => Value::Array(items.iter().map(value).collect()),
        YamlKind::Alias => Value::Null,
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
