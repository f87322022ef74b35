//! YAML to values that know where they stand in the text.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};
use serde_json::Value;

use super::{EditRefused, YamlKind, YamlNode};

/// More than anyone nests by hand.
const DEEPEST: usize = 64;

/// What a scalar without quotes means.
pub(super) fn plain(text: &str) -> Value {
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

pub(super) struct YamlReader<'a> {
    text: &'a str,
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Byte offsets of characters, as far as they were asked for: markers count those.
    chars: usize,
    bytes: usize,
}

impl<'a> YamlReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, parser: Parser::new_from_str(text), chars: 0, bytes: 0 }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), EditRefused> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(EditRefused::at(error.marker().line(), error.info())),
            None => Err(EditRefused::new("it ends too early")),
        }
    }

    pub(super) fn document(&mut self) -> Result<Option<YamlNode>, EditRefused> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::StreamStart | Event::DocumentEnd | Event::Nothing, _) => {}
                (Event::DocumentStart(_), span) => {
                    if root.is_some() {
                        return Err(EditRefused::at(
                            span.start.line(),
                            "it holds several documents",
                        ));
                    }
                    let event = self.next()?;
                    let node = self.node(event, DEEPEST)?;
                    // A document of comments alone.
                    let empty = matches!(node.kind, YamlKind::Scalar(Value::Null))
                        && node.start == node.end;
                    root = (!empty).then_some(node);
                }
                (_, span) => {
                    return Err(EditRefused::at(span.start.line(), "it is not a document"));
                }
            }
        }
    }

    fn node(
        &mut self,
        (event, span): (Event<'a>, Span),
        left: usize,
    ) -> Result<YamlNode, EditRefused> {
        let left = left
            .checked_sub(1)
            .ok_or_else(|| EditRefused::at(span.start.line(), "it is nested too deeply"))?;
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
                    return Ok(YamlNode {
                        start: start + 1,
                        end: start + 1,
                        column,
                        kind: YamlKind::Scalar(value),
                    });
                }
                (YamlKind::Scalar(value), self.trimmed(start, end))
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
                (YamlKind::Sequence { flow, items }, end)
            }
            Event::MappingStart(..) => {
                let flow = flow('{', start);
                let mut pairs: Vec<(String, YamlNode)> = Vec::new();
                let end = loop {
                    let (event, at) = self.next()?;
                    let key = match event {
                        Event::MappingEnd => break self.byte(&at.end),
                        Event::Scalar(key, ..) => key.into_owned(),
                        _ => return Err(EditRefused::at(at.start.line(), "a key is not a string")),
                    };
                    if pairs.iter().any(|(there, _)| *there == key) {
                        return Err(EditRefused::at(
                            at.start.line(),
                            format!("`{key}` appears twice"),
                        ));
                    }
                    let event = self.next()?;
                    pairs.push((key, self.node(event, left)?));
                };
                let end = if flow { end } else { pairs.last().map_or(start, |(_, n)| n.end) };
                (YamlKind::Mapping { flow, pairs }, end)
            }
            Event::Alias(_) => (YamlKind::Alias, self.byte(&span.end)),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => {
                return Err(EditRefused::at(span.start.line(), "something is missing"));
            }
        };
        Ok(YamlNode { start, end, column, kind })
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
