//! Reads JSON as it streams in and checks it against a shape.
//! Finds the first character that cannot be right.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{Kind, NodeId, Shape};

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
pub(super) struct Machine {
    stack: Vec<Frame>,
    state: State,
    /// The scalar that is being read, as it is written.
    token: String,
}

#[derive(Debug)]
struct Frame {
    node: Option<NodeId>,
    inside: Inside,
}

#[derive(Debug)]
enum Inside {
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
enum State {
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

impl Machine {
    /// Whether the whole value has been read.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(super) fn push(&mut self, c: char, shape: &Shape) -> Result<Taken, Violation> {
        match self.state {
            State::Done => return Ok(Taken::After),
            State::InString { escaped, name } => self.in_string(c, escaped, name, shape)?,
            State::InNumber if matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E') => {
                self.token.push(c);
            }
            State::InWord if c.is_ascii_lowercase() => {
                self.token.push(c);
                if !["true", "false", "null"].iter().any(|word| word.starts_with(&self.token)) {
                    return Err(self.unexpected(c));
                }
            }
            State::InNumber | State::InWord => {
                self.scalar(shape)?;
                return self.push(c, shape);
            }
            _ if matches!(c, ' ' | '\t' | '\n' | '\r') => {}
            State::Value => self.begin(c, shape)?,
            State::FirstItem if c == ']' => self.end(shape)?,
            State::FirstItem => self.begin(c, shape)?,
            State::FirstName if c == '}' => self.end(shape)?,
            State::FirstName | State::Name if c == '"' => self.begin_string(true),
            State::Colon if c == ':' => self.state = State::Value,
            State::AfterValue => self.after_value(c, shape)?,
            State::FirstName | State::Name | State::Colon => return Err(self.unexpected(c)),
        }
        Ok(Taken::Yes)
    }

    /// No more comes.
    pub(super) fn finish(&mut self, shape: &Shape) -> Result<(), Violation> {
        if matches!(self.state, State::InNumber | State::InWord) && self.stack.is_empty() {
            self.scalar(shape)?;
        }
        if self.is_done() {
            return Ok(());
        }
        Err(Violation { path: self.path(), what: "ends too early".to_owned() })
    }

    // === values ===

    /// The schema for the value that comes next.
    fn node(&self, shape: &Shape) -> Option<NodeId> {
        match self.stack.last() {
            None => shape.root(),
            Some(Frame { node, inside }) => {
                let node = shape.node((*node)?)?;
                match inside {
                    Inside::Object { name, .. } => node.property(name.as_deref()?),
                    Inside::Array { .. } => node.items(),
                }
            }
        }
    }

    fn begin(&mut self, c: char, shape: &Shape) -> Result<(), Violation> {
        let kind = match c {
            '{' => Kind::Object,
            '[' => Kind::Array,
            '"' => Kind::String,
            '-' | '0'..='9' => Kind::Number,
            't' | 'f' => Kind::Boolean,
            'n' => Kind::Null,
            _ => return Err(self.unexpected(c)),
        };
        let id = self.node(shape);
        let node = id.and_then(|id| shape.node(id));
        if let Some(wrong) = node.and_then(|node| node.refuses(kind)) {
            return Err(self.violation(wrong));
        }
        let inside = match kind {
            Kind::Object => {
                self.state = State::FirstName;
                let required = node.map_or(0, |node| node.required().len());
                Inside::Object { name: None, names: BTreeSet::new(), has: vec![false; required] }
            }
            Kind::Array => {
                self.state = State::FirstItem;
                Inside::Array { index: 0 }
            }
            Kind::String => {
                self.begin_string(false);
                return Ok(());
            }
            Kind::Number | Kind::Boolean | Kind::Null => {
                self.state = if kind == Kind::Number { State::InNumber } else { State::InWord };
                self.token.clear();
                self.token.push(c);
                return Ok(());
            }
        };
        if self.stack.len() >= DEPTH {
            return Err(self.violation("is nested too deeply".to_owned()));
        }
        self.stack.push(Frame { node: id, inside });
        Ok(())
    }

    fn begin_string(&mut self, name: bool) {
        self.token.clear();
        self.token.push('"');
        self.state = State::InString { escaped: false, name };
    }

    fn in_string(
        &mut self,
        c: char,
        escaped: bool,
        name: bool,
        shape: &Shape,
    ) -> Result<(), Violation> {
        if c < ' ' {
            return Err(self.violation("has a control character in a string".to_owned()));
        }
        self.token.push(c);
        if c == '"' && !escaped {
            return if name { self.name(shape) } else { self.scalar(shape) };
        }
        self.state = State::InString { escaped: c == '\\' && !escaped, name };
        Ok(())
    }

    /// A name is complete.
    fn name(&mut self, shape: &Shape) -> Result<(), Violation> {
        let Ok(read) = serde_json::from_str::<String>(&self.token) else {
            return Err(self.violation("has a name that is not a valid string".to_owned()));
        };
        self.state = State::Colon;
        let Some(Frame { node, inside: Inside::Object { name, names, has } }) =
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
    fn scalar(&mut self, shape: &Shape) -> Result<(), Violation> {
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
        self.state = if self.stack.is_empty() { State::Done } else { State::AfterValue };
    }

    fn after_value(&mut self, c: char, shape: &Shape) -> Result<(), Violation> {
        match (c, self.stack.last_mut().map(|frame| &mut frame.inside)) {
            (',', Some(Inside::Object { name, .. })) => {
                *name = None;
                self.state = State::Name;
            }
            (',', Some(Inside::Array { index })) => {
                *index += 1;
                self.state = State::Value;
            }
            ('}', Some(Inside::Object { .. })) | (']', Some(Inside::Array { .. })) => {
                self.end(shape)?;
            }
            _ => return Err(self.unexpected(c)),
        }
        Ok(())
    }

    /// The innermost object or array is complete.
    fn end(&mut self, shape: &Shape) -> Result<(), Violation> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        if let Inside::Object { has, .. } = &frame.inside {
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
            State::Value => "a JSON value",
            State::FirstItem => "a JSON value or `]`",
            State::FirstName => "a name in quotes or `}`",
            State::Name => "a name in quotes",
            State::Colon => "`:`",
            State::AfterValue => "`,` or the end of the enclosing value",
            State::InString { .. } | State::InNumber | State::InWord | State::Done => "JSON",
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
                Inside::Object { name: None, .. } => {}
                Inside::Object { name: Some(name), .. } => {
                    path.push('/');
                    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                Inside::Array { index } => {
                    path.push('/');
                    path.push_str(&index.to_string());
                }
            }
        }
        path
    }
}
