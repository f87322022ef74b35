//! The tokens of a run, as the service counts and reports them.

use ibeam_proto::agent::{PromptTokenBreakdown, PromptTokenCategory, TurnEndedUpdate};

use super::run::SimRun;
use crate::{
    prompt::{OfferedTool, tokens},
    record::UsageEvent,
    scenario::Quirk,
};

/// The steps of the model before the present one, together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepSums {
    input: u64,
    cached: u64,
    /// The prompt of the newest of them.
    newest: Option<u64>,
}

impl SimRun {
    /// A step of the model has ended; the next one reads its prompt from the cache.
    pub(crate) fn count_step(&mut self) {
        let (input, cached) = self.step_input();
        self.steps.input += input;
        self.steps.cached += cached;
        self.steps.newest = Some(input);
    }

    /// The input of the present step, and how much of it is cached.
    fn step_input(&self) -> (u64, u64) {
        (self.input_tokens(), self.steps.newest.unwrap_or_else(|| self.history_tokens()))
    }

    /// The input that is reported, and how much of it was cached.
    fn reported_input(&self) -> (u64, u64) {
        if !self.behaviour().usage_summed {
            return (self.input_tokens(), self.history_tokens());
        }
        let (input, cached) = self.step_input();
        (self.steps.input + input, self.steps.cached + cached)
    }

    /// What the run is billed for, however it ended.
    pub(crate) fn bill(&self, conversation: String) -> UsageEvent {
        let usage = self.turn_usage();
        let cache_read = usage.cache_read_tokens.unwrap_or_default();
        UsageEvent {
            conversation,
            auto: !self.external_model(),
            input: usage.input_tokens.unwrap_or_default().saturating_sub(cache_read),
            output: usage.output_tokens.unwrap_or_default(),
            cache_read,
        }
    }

    /// The parts of the context, for checkpoints.
    pub(crate) fn token_breakdown(&self, max_tokens: u32) -> PromptTokenBreakdown {
        let sum = |texts: &[String]| -> (u64, usize) {
            (texts.iter().map(|text| tokens(text)).sum(), texts.iter().map(String::len).sum())
        };
        let said: Vec<_> = self.prompt.history.iter().map(|said| said.text.clone()).collect();
        let tools = self.prompt.tools.iter().map(OfferedTool::tokens).sum();
        let rules = if self.prompt.context_shown { sum(&self.prompt.rules) } else { (0, 0) };
        let categories = [
            ("system_prompt", "System prompt", sum(&self.prompt.system)),
            ("tools", "Tool definitions", (tools, 0)),
            ("rules", "Rules", rules),
            ("subagents", "Subagents", (0, 0)),
            ("conversation", "Conversation", sum(&said)),
        ];
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        PromptTokenBreakdown {
            total_tokens: number(self.context_tokens()),
            max_tokens,
            categories: categories
                .into_iter()
                .map(|(id, label, (tokens, characters))| PromptTokenCategory {
                    id: id.to_owned(),
                    label: label.to_owned(),
                    estimated_tokens: number(tokens),
                    characters: number(characters as u64),
                })
                .collect(),
        }
    }

    /// What `turn_ended` reports.
    pub(crate) fn turn_usage(&self) -> TurnEndedUpdate {
        let usage = &self.usage;
        let (input, cache_read) = self.reported_input();
        // Row 26: the cached part belongs to the input.
        let cached = if self.has(Quirk::InputWithoutCache) { cache_read } else { 0 };
        // A script may say that the input was smaller than the prompt here.
        let cache_read = usage.input.map_or(cache_read, |input| cache_read.min(input));
        TurnEndedUpdate {
            input_tokens: usage.input.or_else(|| Some(input.saturating_sub(cached))),
            output_tokens: usage.output.or_else(|| Some(self.output_tokens())),
            cache_read_tokens: usage.cache_read.or(Some(cache_read)),
            cache_write_tokens: usage.cache_write.or(Some(0)),
            reasoning_tokens: usage.reasoning.or_else(|| Some(tokens(&self.log.thought))),
        }
    }

    fn history_tokens(&self) -> u64 {
        let said = self.prompt.history.iter().map(|said| &said.text);
        said.chain(&self.prompt.system).map(|text| tokens(text)).sum()
    }

    /// The size of the newest prompt, with its cached part: what the run began with, and since
    /// then the calls, the text before them, and their results.
    pub(crate) fn input_tokens(&self) -> u64 {
        let rules: u64 = self.prompt.rules.iter().map(|rule| tokens(rule)).sum();
        let tools: u64 = self.prompt.tools.iter().map(OfferedTool::tokens).sum();
        let since = self.log.messages.iter().filter_map(|message| message.get("content"));
        let since: u64 = since.map(|content| tokens(&content.to_string())).sum();
        self.history_tokens() + rules + tools + tokens(&self.prompt.text) + since + 4
    }

    /// The prompt, and the text that is not yet part of it.
    pub(crate) fn context_tokens(&self) -> u64 {
        let said = self.log.said.get(self.log.recorded_len..).unwrap_or_default();
        self.input_tokens() + tokens(said) + tokens(&self.log.thought)
    }

    pub(crate) fn output_tokens(&self) -> u64 {
        tokens(&self.log.said) + tokens(&self.log.thought)
    }
}
