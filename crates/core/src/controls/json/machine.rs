//! Reads JSON as it streams in and checks it against a shape.
//! Finds the first character that cannot be right.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{JsonType, SchemaShape, ShapeId};

/// As deep as the parser goes that reads the whole.
const DEPTH: usize = 127;

/// What is wrong with an answer, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// A JSON Pointer; empty for the whole.
    pub(super) path: String,
    pub(super) what: String,
}

/// How a character was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// The value was complete before this one.
    After,
}

#[derive(Debug, Default)]
pub(super) struct JsonParser {
    stack: Vec<OpenValue>,
    state: ParserState,
    /// The scalar that is being read, as it is written.
    token: String,
}

#[derive(Debug)]
struct OpenValue {
    node: Option<ShapeId>,
    inside: OpenContainer,
}

#[derive(Debug)]
enum OpenContainer {
    /// The name whose value comes or came, all of them, and which required ones have come.
    Object {
        name: Option<String>,
        names: BTreeSet<String>,
        has: Vec<bool>,
    },
    Array {
        index: usize,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    #[default]
    Value,
    /// A value or the end of the array.
    FirstItem,
    /// A name or the end of the object.
    FirstName,
    Name,
    Colon,
    InString {
        escaped: bool,
        name: bool,
    },
    InNumber,
    InWord,
    /// A comma or the end of what is around.
    AfterValue,
    Done,
}

impl JsonParser {
    /// Whether the whole value has been read.
    pub(super) fn is_done(&self) -> bool {
        self.state == ParserState::Done
    }

    pub(super) fn push(&mut self, c: char, shape: &SchemaShape) -> Result<Taken, Violation> {
        match self.state {
            ParserState::Done => return Ok(Taken::After),
            ParserState::InString { escaped, name } => self.in_string(c, escaped, name, shape)?,
            ParserState::InNumber if matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E') => {
                self.token.push(c);
            }
            ParserState::InWord if c.is_ascii_lowercase() => {
                self.token.push(c);
                if !["true", "false", "null"].iter().any(|word| word.starts_with(&self.token)) {
                    return Err(self.unexpected(c));
                }
            }
            ParserState::InNumber | ParserState::InWord => {
                self.scalar(shape)?;
                return self.push(c, shape);
            }
            _ if matches!(c, ' ' | '\t' | '\n' | '\r') => {}
            ParserState::Value => self.begin(c, shape)?,
            ParserState::FirstItem if c == ']' => self.end(shape)?,
            ParserState::FirstItem => self.begin(c, shape)?,
            ParserState::FirstName if c == '}' => self.end(shape)?,
            ParserState::FirstName | ParserState::Name if c == '"' => self.begin_string(true),
            ParserState::Colon if c == ':' => self.state = ParserState::Value,
            ParserState::AfterValue => self.after_value(c, shape)?,
            ParserState::FirstName | ParserState::Name | ParserState::Colon => {
                return Err(self.unexpected(c));
            }
        }
        Ok(Taken::Yes)
    }

    /// No more comes.
    pub(super) fn finish(&mut self, shape: &SchemaShape) -> Result<(), Violation> {
        if matches!(self.state, ParserState::InNumber | ParserState::InWord)
            && self.stack.is_empty()
        {
            self.scalar(shape)?;
        }
        if self.is_done() {
            return Ok(());
        }
        Err(Violation { path: self.path(), what: "ends too early".to_owned() })
    }

    // === values ===

    /// The schema for the value that comes next.
    fn node(&self, shape: &SchemaShape) -> Option<ShapeId> {
        match self.stack.last() {
            None => shape.root(),
            Some(OpenValue { node, inside }) => {
                let node = shape.node((*node)?)?;
                match inside {
                    OpenContainer::Object { name, .. } => node.property(name.as_deref()?),
                    OpenContainer::Array { .. } => node.items(),
                }
            }
        }
    }

    fn begin(&mut self, c: char, shape: &SchemaShape) -> Result<(), Violation> {
        let kind = match c {
            '{' => JsonType::Object,
            '[' => JsonType::Array,
            '"' => JsonType::String,
            '-' | '0'..='9' => JsonType::Number,
            't' | 'f' => JsonType::Boolean,
            'n' => JsonType::Null,
            _ => return Err(self.unexpected(c)),
        };
        let id = self.node(shape);
        let node = id.and_then(|id| shape.node(id));
        if let Some(wrong) = node.and_then(|node| node.refuses(kind)) {
            return Err(self.violation(wrong));
        }
        let inside = match kind {
            JsonType::Object => {
                self.state = ParserState::FirstName;
                let required = node.map_or(0, |node| node.required().len());
                OpenContainer::Object {
                    name: None,
                    names: BTreeSet::new(),
                    has: vec![false; required],
                }
            }
            JsonType::Array => {
                self.state = ParserState::FirstItem;
                OpenContainer::Array { index: 0 }
            }
            JsonType::String => {
                self.begin_string(false);
                return Ok(());
            }
            JsonType::Number | JsonType::Boolean | JsonType::Null => {
                self.state = if kind == JsonType::Number {
                    ParserState::InNumber
                } else {
                    ParserState::InWord
                };
                self.token.clear();
                self.token.push(c);
                return Ok(());
            }
        };
        if self.stack.len() >= DEPTH {
            return Err(self.violation("is nested too deeply".to_owned()));
        }
        self.stack.push(OpenValue { node: id, inside });
        Ok(())
    }

    fn begin_string(&mut self, name: bool) {
        self.token.clear();
        self.token.push('"');
        self.state = ParserState::InString { escaped: false, name };
    }

    fn in_string(
        &mut self,
        c: char,
        escaped: bool,
        name: bool,
        shape: &SchemaShape,
    ) -> Result<(), Violation> {
        if c < ' ' {
            return Err(self.violation("has a control character in a string".to_owned()));
        }
        self.token.push(c);
        if c == '"' && !escaped {
            return if name { self.name(shape) } else { self.scalar(shape) };
        }
        self.state = ParserState::InString { escaped: c == '\\' && !escaped, name };
        Ok(())
    }

    /// A name is complete.
    fn name(&mut self, shape: &SchemaShape) -> Result<(), Violation> {
        let Ok(read) = serde_json::from_str::<String>(&self.token) else {
            return Err(self.violation("has a name that is not a valid string".to_owned()));
        };
        self.state = ParserState::Colon;
        let Some(OpenValue { node, inside: OpenContainer::Object { name, names, has } }) =
            self.stack.last_mut()
        else {
            return Ok(());
        };
        let node = node.and_then(|node| shape.node(node));
        let unknown = node.is_some_and(|node| node.forbids(&read));
        let required = node.map_or(&[][..], |node| node.required());
        for (has, required) in has.iter_mut().zip(required) {
            *has |= *required == read;
        }
        // Parsers differ in which of two they take, so neither can be the one that was checked.
        let again = !names.insert(read.clone());
        *name = Some(read);
        if unknown {
            return Err(self.violation("is not in the schema".to_owned()));
        }
        if again {
            return Err(self.violation("is there twice".to_owned()));
        }
        Ok(())
    }

    /// A string, number or word is complete.
    fn scalar(&mut self, shape: &SchemaShape) -> Result<(), Violation> {
        let Ok(value) = serde_json::from_str::<Value>(&self.token) else {
            return Err(self.violation("is not valid JSON".to_owned()));
        };
        let node = self.node(shape).and_then(|id| shape.node(id));
        if let Some(wrong) = node.and_then(|node| node.refuses_scalar(&value)) {
            return Err(self.violation(wrong));
        }
        self.after();
        Ok(())
    }

    fn after(&mut self) {
        self.state =
            if self.stack.is_empty() { ParserState::Done } else { ParserState::AfterValue };
    }

    fn after_value(&mut self, c: char, shape: &SchemaShape) -> Result<(), Violation> {
        match (c, self.stack.last_mut().map(|frame| &mut frame.inside)) {
            (',', Some(OpenContainer::Object { name, .. })) => {
                *name = None;
                self.state = ParserState::Name;
            }
            (',', Some(OpenContainer::Array { index })) => {
                *index += 1;
                self.state = ParserState::Value;
            }
            ('}', Some(OpenContainer::Object { .. }))
            | (']', Some(OpenContainer::Array { .. })) => {
                self.end(shape)?;
            }
            _ => return Err(self.unexpected(c)),
        }
        Ok(())
    }

    /// The innermost object or array is complete.
    fn end(&mut self, shape: &SchemaShape) -> Result<(), Violation> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        if let OpenContainer::Object { has, .. } = &frame.inside {
            let node = frame.node.and_then(|node| shape.node(node));
            let required = node.map_or(&[][..], |node| node.required());
            if let Some((_, name)) = has.iter().zip(required).find(|(has, _)| !**has) {
                return Err(self.violation(format!("lacks the required property \"{name}\"")));
            }
        }
        self.after();
        Ok(())
    }

    // === words ===

    fn unexpected(&self, c: char) -> Violation {
        let wanted = match self.state {
            ParserState::Value => "a JSON value",
            ParserState::FirstItem => "a JSON value or `]`",
            ParserState::FirstName => "a name in quotes or `}`",
            ParserState::Name => "a name in quotes",
            ParserState::Colon => "`:`",
            ParserState::AfterValue => "`,` or the end of the enclosing value",
            ParserState::InString { .. }
            | ParserState::InNumber
            | ParserState::InWord
            | ParserState::Done => "JSON",
        };
        let what = format!("is not valid JSON: expected {wanted}, found `{}`", c.escape_debug());
        self.violation(what)
    }

    fn violation(&self, what: String) -> Violation {
        Violation { path: self.path(), what }
    }

    /// Where it is, as a JSON Pointer.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.stack {
            match &frame.inside {
                OpenContainer::Object { name: None, .. } => {}
                OpenContainer::Object { name: Some(name), .. } => {
                    path.push('/');
                    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                OpenContainer::Array { index } => {
                    path.push('/');
                    path.push_str(&index.to_string());
                }
            }
        }
        path
    }
}
