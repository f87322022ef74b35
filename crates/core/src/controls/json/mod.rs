//! Answers that must be JSON: what is around it is removed, and what is wrong with it is
//! found as early as possible.

mod full;
mod machine;
pub(super) mod schema;
mod shape;

use std::ops::Range;

use self::{
    full::Full,
    machine::{JsonParser, Taken, Violation},
    shape::SchemaShape,
};
use crate::model::{AnswerFormat, Schema};

/// A longer answer is not checked, and so not taken.
pub(super) const ANSWER_BYTES: usize = 8 << 20;

/// The longest word that may stand behind a fence.
const FENCE_WORD: usize = 32;

/// One answer on its way through the check.
#[derive(Debug)]
pub(super) struct Json {
    shape: SchemaShape,
    /// There when a schema says more than "an object".
    full: Option<Full>,
    answer: JsonAnswer,
}

#[derive(Debug, Default)]
struct JsonAnswer {
    machine: JsonParser,
    stage: AnswerStage,
    /// The JSON so far, for the check of the whole.
    body: String,
    violation: Option<Violation>,
}

/// Where in the text of the model the next character is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AnswerStage {
    /// Before everything but white space.
    #[default]
    Before,
    /// After this many backticks.
    Fence(usize),
    /// In the word after them, which has this number of characters.
    Word(usize),
    Body,
    /// Only white space and the other fence may follow.
    After,
}

impl Json {
    /// `None`: any text will do.
    ///
    /// # Errors
    /// Says why the schema cannot be used.
    pub(super) fn new(format: &AnswerFormat) -> Result<Option<Self>, String> {
        let (shape, full) = match format {
            AnswerFormat::Text => return Ok(None),
            AnswerFormat::Json => (SchemaShape::object(), None),
            AnswerFormat::Schema(Schema { text, .. }) => {
                let (schema, full) = Full::compile(text)?;
                (SchemaShape::of(&schema), Some(full))
            }
        };
        Ok(Some(Self { shape, full, answer: JsonAnswer::default() }))
    }

    /// Reads a piece of text. Returns the part of it that is JSON; where that ends before the piece
    /// does, something is wrong or only what may follow JSON is left.
    pub(super) fn push(&mut self, piece: &str) -> Range<usize> {
        let mut range: Option<Range<usize>> = None;
        for (at, c) in piece.char_indices() {
            match self.answer.take(c, &self.shape) {
                Ok(true) => {
                    let end = at + c.len_utf8();
                    range.get_or_insert(at..end).end = end;
                }
                Ok(false) => {}
                Err(violation) => {
                    self.answer.violation = Some(violation);
                    break;
                }
            }
        }
        let range = range.unwrap_or(0..0);
        if self.full.is_some() {
            self.answer.body.push_str(piece.get(range.clone()).unwrap_or_default());
            if self.answer.body.len() > ANSWER_BYTES && self.answer.violation.is_none() {
                let what = format!("is longer than {} MiB", ANSWER_BYTES >> 20);
                self.answer.violation = Some(Violation { path: String::new(), what });
            }
        }
        range
    }

    /// Whether it is clear already that the answer is not what it should be.
    pub(super) fn is_broken(&self) -> bool {
        self.answer.violation.is_some()
    }

    /// No more text follows.
    ///
    /// # Errors
    /// What is wrong with the answer, as the end of a sentence about it.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.answer.finish(&self.shape, self.full.as_ref()).map_err(|violation| violation.words())
    }

    /// Forgets the answer; another one comes.
    pub(super) fn reset(&mut self) {
        self.answer = JsonAnswer::default();
    }
}

impl JsonAnswer {
    /// Whether the character is part of the JSON.
    fn take(&mut self, c: char, shape: &SchemaShape) -> Result<bool, Violation> {
        match self.stage {
            AnswerStage::Before if c.is_whitespace() || c == '\u{feff}' => return Ok(false),
            AnswerStage::Before if c == '`' => {
                self.stage = AnswerStage::Fence(1);
                return Ok(false);
            }
            AnswerStage::Fence(ticks) if c == '`' => {
                self.stage = AnswerStage::Fence(ticks + 1);
                return Ok(false);
            }
            AnswerStage::Fence(ticks) if ticks >= 3 && !matches!(c, '{' | '[') => {
                self.stage = if c == '\n' { AnswerStage::Before } else { AnswerStage::Word(1) };
                return Ok(false);
            }
            AnswerStage::Word(len) if len < FENCE_WORD && !matches!(c, '{' | '[') => {
                self.stage =
                    if c == '\n' { AnswerStage::Before } else { AnswerStage::Word(len + 1) };
                return Ok(false);
            }
            AnswerStage::Before | AnswerStage::Fence(_) | AnswerStage::Word(_) => {
                self.stage = AnswerStage::Body
            }
            AnswerStage::Body | AnswerStage::After => {}
        }
        if self.stage == AnswerStage::Body && self.machine.push(c, shape)? == Taken::Yes {
            return Ok(true);
        }
        self.stage = AnswerStage::After;
        if c.is_whitespace() || c == '`' {
            return Ok(false);
        }
        let what = "has text after its JSON".to_owned();
        Err(Violation { path: String::new(), what })
    }

    fn finish(&mut self, shape: &SchemaShape, full: Option<&Full>) -> Result<(), Violation> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        match self.stage {
            AnswerStage::Body | AnswerStage::After => self.machine.finish(shape)?,
            AnswerStage::Before | AnswerStage::Fence(_) | AnswerStage::Word(_) => {
                return Err(Violation { path: String::new(), what: "is empty".to_owned() });
            }
        }
        full.map_or(Ok(()), |full| full.check(&self.body))
    }
}

impl Violation {
    fn words(&self) -> String {
        let Self { path, what } = self;
        if path.is_empty() {
            format!("the answer {what}")
        } else {
            format!("the value at `{path}` {what}")
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
