//! Reads as much of a JSON text as there is, and reports where it stops.

use serde_json::{Map, Value};

/// As deep as the JSON library reads.
const DEEPEST: usize = 128;

/// A value, whole or up to where the text ends.
#[derive(Debug)]
pub(super) enum Prefix<'a> {
    Whole(Value),
    Cut(Cut<'a>),
}

/// Where in a value the text ends.
#[derive(Debug)]
pub(super) enum Cut<'a> {
    /// Nothing of the value is there.
    Before,
    /// In `true`, `false` or `null`.
    Word(&'a str),
    /// In a number, or right after it: only what follows decides.
    Number(&'a str),
    Text(CutText<'a>),
    List {
        read: Vec<Value>,
        at: InList<'a>,
    },
    Object {
        read: Map<String, Value>,
        at: InObject<'a>,
    },
}

#[derive(Debug)]
pub(super) enum InList<'a> {
    Open,
    /// After an item.
    Next,
    /// In an item that must come, perhaps before its first character.
    Item(Box<Cut<'a>>),
}

#[derive(Debug)]
pub(super) enum InObject<'a> {
    Open,
    /// After a member.
    Next,
    Comma,
    Key(CutText<'a>),
    /// After a key, before its colon.
    Colon(String),
    Member(String, Box<Cut<'a>>),
}

/// A string that does not end.
#[derive(Debug)]
pub(super) struct CutText<'a> {
    /// What is certainly decoded.
    pub(super) read: String,
    /// The first half of an escaped surrogate pair.
    pub(super) high: Option<u16>,
    /// An escape that is not complete, with its backslash.
    pub(super) escape: &'a str,
}

enum TextPrefix<'a> {
    Whole(String),
    Cut(CutText<'a>),
}

/// What is left of the text. Its methods give `None` for what is not JSON.
#[derive(Debug)]
pub(super) struct PrefixReader<'a> {
    rest: &'a str,
}

impl<'a> PrefixReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn document(mut self) -> Option<Prefix<'a>> {
        let read = self.value(0)?;
        self.space();
        self.rest.is_empty().then_some(read)
    }

    fn value(&mut self, depth: usize) -> Option<Prefix<'a>> {
        self.space();
        match self.rest.bytes().next() {
            None => Some(Prefix::Cut(Cut::Before)),
            Some(b'{' | b'[') if depth >= DEEPEST => None,
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => Some(match self.text()? {
                TextPrefix::Whole(text) => Prefix::Whole(Value::String(text)),
                TextPrefix::Cut(cut) => Prefix::Cut(Cut::Text(cut)),
            }),
            Some(b'-' | b'0'..=b'9') => {
                let digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let number = self.take_while(digits);
                if self.rest.is_empty() {
                    return Some(Prefix::Cut(Cut::Number(number)));
                }
                serde_json::from_str(number).ok().map(|number| Prefix::Whole(Value::Number(number)))
            }
            Some(_) => self.word(),
        }
    }

    fn word(&mut self) -> Option<Prefix<'a>> {
        let begun = self.take_while(|c| c.is_ascii_alphabetic());
        let word = ["true", "false", "null"].into_iter().find(|word| word.starts_with(begun))?;
        if word == begun {
            return serde_json::from_str(word).ok().map(Prefix::Whole);
        }
        (self.rest.is_empty() && !begun.is_empty()).then_some(Prefix::Cut(Cut::Word(begun)))
    }

    fn list(&mut self, depth: usize) -> Option<Prefix<'a>> {
        self.eat('[');
        let mut read = Vec::new();
        let cut = |read, at| Some(Prefix::Cut(Cut::List { read, at }));
        self.space();
        if self.rest.is_empty() {
            return cut(read, InList::Open);
        }
        if self.eat(']') {
            return Some(Prefix::Whole(Value::Array(read)));
        }
        loop {
            match self.value(depth)? {
                Prefix::Whole(item) => read.push(item),
                Prefix::Cut(item) => return cut(read, InList::Item(Box::new(item))),
            }
            self.space();
            if self.rest.is_empty() {
                return cut(read, InList::Next);
            }
            if self.eat(']') {
                return Some(Prefix::Whole(Value::Array(read)));
            }
            if !self.eat(',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Prefix<'a>> {
        self.eat('{');
        let mut read = Map::new();
        let cut = |read, at| Some(Prefix::Cut(Cut::Object { read, at }));
        self.space();
        if self.rest.is_empty() {
            return cut(read, InObject::Open);
        }
        if self.eat('}') {
            return Some(Prefix::Whole(Value::Object(read)));
        }
        loop {
            self.space();
            if self.rest.is_empty() {
                return cut(read, InObject::Comma);
            }
            let key = match self.text()? {
                TextPrefix::Whole(key) => key,
                TextPrefix::Cut(key) => return cut(read, InObject::Key(key)),
            };
            self.space();
            if self.rest.is_empty() {
                return cut(read, InObject::Colon(key));
            }
            if !self.eat(':') {
                return None;
            }
            match self.value(depth)? {
                Prefix::Whole(member) => read.insert(key, member),
                Prefix::Cut(member) => return cut(read, InObject::Member(key, Box::new(member))),
            };
            self.space();
            if self.rest.is_empty() {
                return cut(read, InObject::Next);
            }
            if self.eat('}') {
                return Some(Prefix::Whole(Value::Object(read)));
            }
            if !self.eat(',') {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<TextPrefix<'a>> {
        if !self.eat('"') {
            return None;
        }
        let mut read = String::new();
        let mut high = None;
        loop {
            let plain = self.take_while(|c| c != '"' && c != '\\' && c >= ' ');
            if high.is_some() && !plain.is_empty() {
                return None;
            }
            read.push_str(plain);
            let escape = self.rest;
            if escape.is_empty() {
                return Some(TextPrefix::Cut(CutText { read, high, escape }));
            }
            if self.eat('"') {
                return high.is_none().then_some(TextPrefix::Whole(read));
            }
            if !self.eat('\\') {
                return None; // a bare control character
            }
            let Some(kind) = self.rest.chars().next() else {
                return Some(TextPrefix::Cut(CutText { read, high, escape }));
            };
            self.eat(kind);
            if kind == 'u' {
                let Some(unit) = self.unit()? else {
                    return Some(TextPrefix::Cut(CutText { read, high, escape }));
                };
                match (high.take(), unit) {
                    (None, 0xd800..=0xdbff) => high = Some(unit),
                    (None, _) => read.push(char::from_u32(u32::from(unit))?),
                    (Some(first), _) => {
                        read.push(char::decode_utf16([first, unit]).next()?.ok()?);
                    }
                }
                continue;
            }
            read.push(match kind {
                '"' | '\\' | '/' => kind,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                _ => return None,
            });
            if high.is_some() {
                return None;
            }
        }
    }

    /// The four digits of a `\u` escape; the inner `None`: the text ends among them.
    fn unit(&mut self) -> Option<Option<u16>> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.rest.chars().next() else {
                return Some(None);
            };
            self.eat(digit);
            unit = unit << 4 | u16::try_from(digit.to_digit(16)?).ok()?;
        }
        Some(Some(unit))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, expected: char) -> bool {
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}
