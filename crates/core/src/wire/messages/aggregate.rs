//! Turn events to one message, for requests that do not stream.

use serde_json::value::RawValue;

use super::{
    blocks::{BlockStep, Blocks},
    encode::reason_words,
    thinking::Thinking,
    types::{BlockDelta, BlockHead, MessageReply, ReplyBlock},
};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage},
    wire::{Collect, cut_off, json::to_json},
};

/// Collects the events of one turn.
#[derive(Debug)]
pub struct MessagesCollector {
    id: String,
    model: String,
    stop: Vec<String>,
    blocks: Blocks,
    content: Vec<DraftBlock>,
    usage: Usage,
    ending: Option<Result<FinishReason, TurnError>>,
}

/// A block that may still grow.
#[derive(Debug)]
enum DraftBlock {
    Text(String),
    Thinking { text: String, signature: String },
    ToolUse { id: String, name: String, input: String },
}

impl MessagesCollector {
    /// `model` is the name the client asked for, `stop` its stop sequences.
    #[must_use]
    pub fn new(id: String, model: String, thinking: Thinking, stop: Vec<String>) -> Self {
        Self {
            id,
            model,
            stop,
            blocks: Blocks::new(thinking),
            content: Vec::new(),
            usage: Usage::default(),
            ending: None,
        }
    }
}

impl Collect for MessagesCollector {
    fn on_event(&mut self, event: TurnEvent) {
        if self.ending.is_some() {
            return;
        }
        let Self { blocks, content, .. } = self;
        let mut add = |step: BlockStep<'_>| add(content, step);
        match event {
            TurnEvent::Started => {}
            TurnEvent::Text(text) => blocks.text(&text, &mut add),
            TurnEvent::Reasoning(text) => blocks.reasoning(&text, &mut add),
            TurnEvent::ToolCallBegin { id, name } => blocks.begin(&id, &name, &mut add),
            TurnEvent::ToolCallArgs { id, delta } => blocks.input(&id, &delta, &mut add),
            TurnEvent::ToolCallEnd { id } => blocks.end(&id, &mut add),
            TurnEvent::Usage(usage) => self.usage = usage,
            TurnEvent::Finished(reason) => {
                blocks.finish(&mut add);
                self.ending = Some(Ok(reason));
            }
            TurnEvent::Failed(error) => self.ending = Some(Err(error)),
        }
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        let reason = self.ending.unwrap_or_else(|| Err(cut_off()))?;
        let (stop_reason, stop_sequence) = reason_words(reason, &self.stop);
        let content: Vec<ReplyBlock> = self.content.into_iter().map(DraftBlock::finish).collect();
        Ok(to_json(&MessageReply {
            id: &self.id,
            kind: "message",
            role: "assistant",
            model: &self.model,
            content: &content,
            stop_reason: Some(stop_reason),
            stop_sequence,
            usage: self.usage.into(),
        }))
    }
}

fn add(content: &mut Vec<DraftBlock>, step: BlockStep<'_>) {
    match step {
        BlockStep::Start(BlockHead::Text { .. }) => content.push(DraftBlock::Text(String::new())),
        BlockStep::Start(BlockHead::Thinking { .. }) => {
            content.push(DraftBlock::Thinking { text: String::new(), signature: String::new() });
        }
        BlockStep::Start(BlockHead::ToolUse { id, name, .. }) => {
            content.push(DraftBlock::ToolUse {
                id: id.to_owned(),
                name: name.to_owned(),
                input: String::new(),
            })
        }
        BlockStep::Delta(delta) => match (content.last_mut(), delta) {
            (Some(DraftBlock::Text(all)), BlockDelta::Text(more))
            | (Some(DraftBlock::Thinking { text: all, .. }), BlockDelta::Thinking(more))
            | (Some(DraftBlock::Thinking { signature: all, .. }), BlockDelta::Signature(more))
            | (Some(DraftBlock::ToolUse { input: all, .. }), BlockDelta::Input(more)) => {
                all.push_str(more)
            }
            // A delta is for the block before it.
            (None | Some(_), _) => {}
        },
        BlockStep::Stop => {}
    }
}

impl DraftBlock {
    fn finish(self) -> ReplyBlock {
        match self {
            Self::Text(text) => ReplyBlock::Text { text },
            Self::Thinking { text, signature } => {
                ReplyBlock::Thinking { thinking: text, signature }
            }
            Self::ToolUse { id, name, input } => {
                ReplyBlock::ToolUse { id, name, input: object(input) }
            }
        }
    }
}

/// The arguments, which are an object by the rules of this API. Ones that are cut off or
/// broken cannot be sent as one; an empty object at least fails where the tool checks it.
fn object(text: String) -> Box<RawValue> {
    let raw = RawValue::from_string(text).ok().filter(|raw| raw.get().starts_with('{'));
    raw.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default())
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;
