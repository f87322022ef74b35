//! Turn events to one completion, for requests that do not stream.

use super::{
    reason_word,
    types::{CompletionChoice, TextCompletion},
};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage},
    wire::{Collect, chat::ChatUsage, cut_off, json::to_json},
};

/// The events of one turn, and what its completion has besides them.
#[derive(Debug)]
pub struct CompletionCollector {
    id: String,
    created: u64,
    model: String,
    text: String,
    usage: Option<Usage>,
    ending: Option<Result<FinishReason, TurnError>>,
}

impl CompletionCollector {
    /// `created` is in Unix seconds; `model` is the name the client asked for.
    #[must_use]
    pub fn new(id: String, created: u64, model: String) -> Self {
        Self { id, created, model, text: String::new(), usage: None, ending: None }
    }
}

impl Collect for CompletionCollector {
    fn on_event(&mut self, event: TurnEvent) {
        if self.ending.is_some() {
            return;
        }
        match event {
            TurnEvent::Text(text) => self.text.push_str(&text),
            TurnEvent::Usage(usage) => self.usage = Some(usage),
            TurnEvent::Finished(reason) => self.ending = Some(Ok(reason)),
            TurnEvent::Failed(error) => self.ending = Some(Err(error)),
            TurnEvent::Started
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallBegin { .. }
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        let Self { id, created, model, text, usage, ending } = *self;
        let reason = ending.unwrap_or_else(|| Err(cut_off()))?;
        let finish_reason = Some(reason_word(reason));
        Ok(to_json(&TextCompletion {
            id: &id,
            object: "text_completion",
            created,
            model: &model,
            choices: [CompletionChoice { text: &text, index: 0, logprobs: None, finish_reason }],
            usage: usage.map(ChatUsage::from),
        }))
    }
}
