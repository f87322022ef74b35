//! What is new in an answer that the child writes more than once.
//!
//! With `--stream-partial-output` the child writes each message in small deltas, then all
//! of it again: before a tool call, and at the end. Only its marks distinguish these. By
//! their text a delta and a recap may be the same: the third "no" of "no no no" is no
//! recap, and what looks like one must not be dropped. So where there are marks, they
//! alone decide.
//!
//! Older builds have no marks. They write a message as one piece, or each time all of it
//! that there is so far. Which of the two is only seen from the texts: a second event in the
//! same message that begins with all of the first one is a snapshot. That is the one place
//! where texts are compared, and it is never reached in a run that has had a mark.

use crate::codec::ndjson::MAX_LINE;

/// What the marks of an event say about its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextMark {
    /// A time and no model call, or a word of its own for it: it is new.
    Delta,
    /// The short form, which has no marks and is only written for what is new.
    Piece,
    /// A time and a model call: the message again, before its tool calls.
    Flush,
    /// No mark: the message again at its end, or an older build.
    Bare,
}

/// What a build without marks does, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Habit {
    #[default]
    Unknown,
    /// Each event has all of the message so far.
    Snapshots,
    /// Each event has something new.
    Pieces,
}

/// One kind of text of a run: its answer, or its thoughts.
#[derive(Debug, Default)]
pub(super) struct RecapFilter {
    /// Events of this run have marks.
    marked: bool,
    /// It comes in deltas.
    deltas: bool,
    /// Some of this message was passed on.
    heard: bool,
    /// Some of this run was passed on.
    any: bool,
    habit: Habit,
    /// All that was passed on. A recap that is longer than a line may be never comes.
    said: String,
    /// Where the last message that has a text begins in it.
    message: usize,
    /// It was too much to be kept.
    over: bool,
}

impl RecapFilter {
    /// The part of this text that was not passed on yet.
    pub(super) fn pass<'a>(&mut self, text: &'a str, mark: TextMark) -> &'a str {
        if text.is_empty() {
            return "";
        }
        self.marked |= matches!(mark, TextMark::Delta | TextMark::Flush);
        self.deltas |= mark == TextMark::Delta;
        let is_recap = match mark {
            TextMark::Delta | TextMark::Piece => false,
            // Several calls may follow a message, and each have it again before them.
            TextMark::Flush => self.heard || self.deltas,
            // The last message, or the whole answer. Calls may have come in between: only
            // among recaps the text is looked at.
            TextMark::Bare => self.heard || text == self.said || text == self.last_message(),
        };
        let new = match is_recap {
            _ if !self.marked && mark == TextMark::Bare => self.unmarked(text),
            true => "",
            false => text,
        };
        if mark == TextMark::Piece {
            self.habit = Habit::Pieces;
        }
        self.keep(new);
        new
    }

    /// Whether anything was passed on in this run.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// A tool call has begun: what comes now is another message.
    pub(super) fn next_message(&mut self) {
        self.heard = false;
    }

    fn last_message(&self) -> &str {
        self.said.get(self.message..).unwrap_or_default()
    }

    fn unmarked<'a>(&mut self, text: &'a str) -> &'a str {
        if self.over {
            return text;
        }
        if !self.heard {
            // Snapshots may go on across tool calls, and then hold the earlier messages.
            return match text.strip_prefix(self.said.as_str()) {
                Some(more) if self.habit == Habit::Snapshots => {
                    (self.message, self.heard) = (0, true);
                    more
                }
                _ => text,
            };
        }
        let message = self.last_message();
        if text == message || text == self.said {
            return "";
        }
        match text.strip_prefix(message) {
            Some(more) if self.habit != Habit::Pieces => {
                self.habit = Habit::Snapshots;
                more
            }
            _ if self.habit == Habit::Snapshots => {
                // Another message, without a tool call between them.
                self.message = self.said.len();
                text
            }
            _ => {
                self.habit = Habit::Pieces;
                text
            }
        }
    }

    fn keep(&mut self, new: &str) {
        if new.is_empty() {
            return;
        }
        if !self.heard {
            self.message = self.said.len();
        }
        (self.heard, self.any) = (true, true);
        if self.over || self.said.len() + new.len() > MAX_LINE {
            self.over = true;
            self.said = String::new();
            self.message = 0;
        } else {
            self.said.push_str(new);
        }
    }
}

#[cfg(test)]
#[path = "recap_tests.rs"]
mod tests;
