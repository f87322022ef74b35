//! Turn events to one completion, for requests that do not stream.

use super::{
    encode::reason_word,
    types::{
        AssistantMessage, ChatChoice, ChatCompletion, ChatUsage, MadeBody, MadeCall, MadeCustom,
        MadeFunction,
    },
};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage, ids::CallId},
    wire::{Collect, cut_off, freeform, json::to_json},
};

/// Collects the events of one turn.
#[derive(Debug)]
pub struct ChatCollector {
    id: String,
    created: u64,
    model: String,
    text: String,
    reasoning: String,
    calls: Vec<CollectedCall>,
    /// The names of custom tools.
    custom: Vec<String>,
    usage: Option<Usage>,
    ending: Option<Result<FinishReason, TurnError>>,
}

#[derive(Debug)]
struct CollectedCall {
    id: CallId,
    name: String,
    arguments: String,
}

impl ChatCollector {
    /// `created` is in Unix seconds; `model` is the name the client asked for. The tools with the
    /// names in `custom` are custom: their calls have raw text in the place of arguments.
    #[must_use]
    pub fn new(id: String, created: u64, model: String, custom: Vec<String>) -> Self {
        Self {
            id,
            created,
            model,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            custom,
            usage: None,
            ending: None,
        }
    }

    fn call(&mut self, id: &CallId) -> Option<&mut CollectedCall> {
        self.calls.iter_mut().rev().find(|call| call.id == *id)
    }

    fn completion(self) -> Result<ChatCompletion, TurnError> {
        let reason = self.ending.unwrap_or_else(|| Err(cut_off()))?;
        let only_calls = self.text.is_empty() && !self.calls.is_empty();
        let made = |CollectedCall { id, name, arguments }| {
            let body = if self.custom.contains(&name) {
                let input = freeform::input(&arguments);
                MadeBody::Custom { custom: MadeCustom { name, input } }
            } else {
                MadeBody::Function { function: MadeFunction { name, arguments } }
            };
            MadeCall { id: id.as_str().to_owned(), body }
        };
        let tool_calls = self.calls.into_iter().map(made).collect();
        Ok(ChatCompletion {
            id: self.id,
            object: "chat.completion",
            created: self.created,
            model: self.model,
            choices: [ChatChoice {
                index: 0,
                message: AssistantMessage {
                    role: "assistant",
                    content: (!only_calls).then_some(self.text),
                    refusal: None,
                    reasoning_content: Some(self.reasoning).filter(|text| !text.is_empty()),
                    tool_calls,
                },
                logprobs: None,
                finish_reason: reason_word(reason),
            }],
            usage: self.usage.map(ChatUsage::from),
        })
    }
}

impl Collect for ChatCollector {
    fn on_event(&mut self, event: TurnEvent) {
        if self.ending.is_some() {
            return;
        }
        match event {
            TurnEvent::Started => {}
            TurnEvent::Text(text) => append(&mut self.text, text),
            TurnEvent::Reasoning(text) => append(&mut self.reasoning, text),
            TurnEvent::ToolCallBegin { id, name } => {
                self.calls.push(CollectedCall { id, name, arguments: String::new() });
            }
            TurnEvent::ToolCallArgs { id, delta } => {
                if let Some(call) = self.call(&id) {
                    append(&mut call.arguments, delta);
                }
            }
            TurnEvent::ToolCallEnd { id } => {
                if let Some(call) = self.call(&id)
                    && call.arguments.is_empty()
                {
                    call.arguments.push_str("{}");
                }
            }
            TurnEvent::Usage(usage) => self.usage = Some(usage),
            TurnEvent::Finished(reason) => self.ending = Some(Ok(reason)),
            TurnEvent::Failed(error) => self.ending = Some(Err(error)),
        }
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        self.completion().map(|completion| to_json(&completion))
    }
}

/// Many texts come in one piece: the first one is moved, not copied.
fn append(to: &mut String, piece: String) {
    if to.is_empty() {
        *to = piece;
    } else {
        to.push_str(&piece);
    }
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;
