//! The events of a turn as content blocks, one after the other.
//!
//! In this API one block is written at a time, and a call's arguments can only follow its
//! own start. Calls of a turn may grow side by side, and text may come between them: what
//! cannot be written yet waits here until the call that is open has ended. The stream and
//! the whole reply are both made from these steps, so that they cannot differ.

use std::collections::VecDeque;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use super::{
    thinking::Thinking,
    types::{BlockDelta, BlockHead, Empty},
};
use crate::model::ids::CallId;

/// One step of the content.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockStep<'a> {
    Start(BlockHead<'a>),
    Delta(BlockDelta<'a>),
    Stop,
}

#[derive(Debug)]
pub(super) struct Blocks {
    thinking: Thinking,
    open: OpenBlock,
    waiting: VecDeque<QueuedBlock>,
}

/// The block that is being written.
#[derive(Debug)]
enum OpenBlock {
    Nothing,
    Text,
    Thinking(Signature),
    Call { id: CallId, has_input: bool },
}

/// Something that came while a call was open.
#[derive(Debug)]
enum QueuedBlock {
    Text(String),
    Reasoning(String),
    Call { id: CallId, name: String, input: String, ended: bool },
}

/// What clients must give back with a thinking block. They keep a block only if it has
/// one, and none of them looks into it. Nor does ibeam: any is accepted. It is the text's
/// hash, so that a replayed answer has the same one, however it was cut into pieces.
#[derive(Debug)]
struct Signature(Sha256);

// === impl Blocks ===

impl Blocks {
    pub(super) fn new(thinking: Thinking) -> Self {
        Self { thinking, open: OpenBlock::Nothing, waiting: VecDeque::new() }
    }

    pub(super) fn text(&mut self, text: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        if text.is_empty() {
            return;
        }
        match (&self.open, self.waiting.back_mut()) {
            (OpenBlock::Call { .. }, Some(QueuedBlock::Text(last))) => last.push_str(text),
            (OpenBlock::Call { .. }, _) => {
                self.waiting.push_back(QueuedBlock::Text(text.to_owned()))
            }
            (OpenBlock::Nothing | OpenBlock::Text | OpenBlock::Thinking(_), _) => {
                self.write_text(text, step)
            }
        }
    }

    pub(super) fn reasoning(&mut self, text: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        if text.is_empty() || self.thinking == Thinking::Off {
            return;
        }
        match (&self.open, self.waiting.back_mut()) {
            (OpenBlock::Call { .. }, Some(QueuedBlock::Reasoning(last))) => last.push_str(text),
            (OpenBlock::Call { .. }, _) => {
                self.waiting.push_back(QueuedBlock::Reasoning(text.to_owned()))
            }
            (OpenBlock::Nothing | OpenBlock::Text | OpenBlock::Thinking(_), _) => {
                self.write_thinking(text, step)
            }
        }
    }

    pub(super) fn begin(&mut self, id: &CallId, name: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        match &self.open {
            OpenBlock::Call { .. } => self.waiting.push_back(QueuedBlock::Call {
                id: id.clone(),
                name: name.to_owned(),
                input: String::new(),
                ended: false,
            }),
            OpenBlock::Nothing | OpenBlock::Text | OpenBlock::Thinking(_) => {
                self.write_call(id, name, step)
            }
        }
    }

    pub(super) fn input(&mut self, id: &CallId, delta: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        if delta.is_empty() {
            return;
        }
        match &mut self.open {
            OpenBlock::Call { id: open, has_input } if open == id => {
                *has_input = true;
                step(BlockStep::Delta(BlockDelta::Input(delta)));
            }
            OpenBlock::Nothing
            | OpenBlock::Text
            | OpenBlock::Thinking(_)
            | OpenBlock::Call { .. } => {
                if let Some(QueuedBlock::Call { input, .. }) = self.waiting_call(id) {
                    input.push_str(delta);
                }
            }
        }
    }

    pub(super) fn end(&mut self, id: &CallId, step: &mut impl FnMut(BlockStep<'_>)) {
        match &self.open {
            OpenBlock::Call { id: open, .. } if open == id => {
                self.close(step);
                self.catch_up(step);
            }
            OpenBlock::Nothing
            | OpenBlock::Text
            | OpenBlock::Thinking(_)
            | OpenBlock::Call { .. } => {
                if let Some(QueuedBlock::Call { ended, .. }) = self.waiting_call(id) {
                    *ended = true;
                }
            }
        }
    }

    /// The turn is over: writes whatever still waits, and closes the last block.
    pub(super) fn finish(&mut self, step: &mut impl FnMut(BlockStep<'_>)) {
        self.close(step);
        while !self.waiting.is_empty() {
            self.catch_up(step);
            self.close(step);
        }
    }

    /// Writes what waited, up to a call that still grows.
    fn catch_up(&mut self, step: &mut impl FnMut(BlockStep<'_>)) {
        while let Some(next) = self.waiting.pop_front() {
            match next {
                QueuedBlock::Text(text) => self.write_text(&text, step),
                QueuedBlock::Reasoning(text) => self.write_thinking(&text, step),
                QueuedBlock::Call { id, name, input, ended } => {
                    self.write_call(&id, &name, step);
                    self.input(&id, &input, step);
                    if !ended {
                        return;
                    }
                    self.close(step);
                }
            }
        }
    }

    fn write_text(&mut self, text: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        if !matches!(self.open, OpenBlock::Text) {
            self.close(step);
            self.open = OpenBlock::Text;
            step(BlockStep::Start(BlockHead::Text { text: "" }));
        }
        step(BlockStep::Delta(BlockDelta::Text(text)));
    }

    fn write_thinking(&mut self, text: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        if !matches!(self.open, OpenBlock::Thinking(_)) {
            self.close(step);
            step(BlockStep::Start(BlockHead::Thinking { thinking: "", signature: "" }));
            self.open = OpenBlock::Thinking(Signature::new());
        }
        if let OpenBlock::Thinking(signature) = &mut self.open {
            signature.0.update(text);
        }
        if self.thinking == Thinking::Shown {
            step(BlockStep::Delta(BlockDelta::Thinking(text)));
        }
    }

    fn write_call(&mut self, id: &CallId, name: &str, step: &mut impl FnMut(BlockStep<'_>)) {
        self.close(step);
        self.open = OpenBlock::Call { id: id.clone(), has_input: false };
        step(BlockStep::Start(BlockHead::ToolUse { id: id.as_str(), name, input: Empty {} }));
    }

    fn close(&mut self, step: &mut impl FnMut(BlockStep<'_>)) {
        match std::mem::replace(&mut self.open, OpenBlock::Nothing) {
            OpenBlock::Nothing => return,
            OpenBlock::Text | OpenBlock::Call { has_input: true, .. } => {}
            OpenBlock::Thinking(signature) => {
                step(BlockStep::Delta(BlockDelta::Signature(&signature.finish())));
            }
            // A tool that takes nothing: clients parse what came, and an empty text is not JSON.
            OpenBlock::Call { has_input: false, .. } => {
                step(BlockStep::Delta(BlockDelta::Input("{}")));
            }
        }
        step(BlockStep::Stop);
    }

    fn waiting_call(&mut self, id: &CallId) -> Option<&mut QueuedBlock> {
        // From the back: the newest call is the one that grows.
        self.waiting
            .iter_mut()
            .rev()
            .find(|waiting| matches!(waiting, QueuedBlock::Call { id: own, .. } if own == id))
    }
}

// === impl Signature ===

impl Signature {
    fn new() -> Self {
        Self(Sha256::new_with_prefix(b"ibeam thinking v1\0"))
    }

    fn finish(self) -> String {
        STANDARD.encode(self.0.finalize())
    }
}
