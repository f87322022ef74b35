//! The built-in model's turn. It is deterministic: it thinks, uses the client's tools when the
//! user asks for that, and can repeat its prompt, which is how tests see that it arrived.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    exec::{ExecAnswer, ExecOutcome},
    player::Speech,
    run::SimRun,
    run_io::RunResult,
};
use crate::{
    assistant::{
        EditFormat, ToolPurpose,
        intent::{self, Intent},
        obedience, title_of, tool_choice,
    },
    prompt::{HistoryMessage, OfferedTool},
    scenario::Quirk,
};

/// Characters in a delta.
const CHUNK: usize = 4;
/// Characters of a result that are quoted at most.
const QUOTE: usize = 4000;
/// Characters of a question that are repeated at most.
const ECHO: usize = 400;
/// The mode in which the model refuses tools (row 10).
const ASK: i32 = 2;

impl SimRun {
    /// Answers the prompt.
    pub(crate) async fn assist(&mut self) -> RunResult {
        let text = self.question();
        if let Some(answer) = self.plain_answer(&text) {
            self.think(&text, "answer that from what I know").await?;
            return self.answer(&answer).await;
        }
        let offered: Vec<&str> =
            self.prompt.tools.iter().map(|tool| tool.tool_name.as_str()).collect();
        let intents = intent::all(&text, &offered);
        if let Some(format) = self.format(&text).filter(|_| !intents.is_empty()) {
            self.think(&text, "write down the changes").await?;
            let mut said = self.questions();
            said.push(text);
            return self.answer(&format.answer(&intents, &said)).await;
        }
        let done = self.results();
        let open: Vec<_> = intents.iter().skip(progress(&intents, &done)).cloned().collect();
        if let Some(last) = done.last()
            && (open.is_empty() || last.failed)
        {
            self.think(&text, "use the results I already have").await?;
            let who = last.tool.as_deref().unwrap_or("The tool");
            let report = if last.failed { failure } else { quote };
            return self.answer(&report(who, last.result())).await;
        }
        if open.is_empty() {
            self.think(&text, "answer in a few words").await?;
            return self.answer(&self.echo(&text)).await;
        }
        if self.prompt.mode == ASK && !self.has(Quirk::AskModeToolsOk) {
            return self
                .answer("In ask mode I do not use tools. Switch to agent mode for that.")
                .await;
        }
        self.think(&text, "use a tool for that").await?;
        if self.has(Quirk::XmlToolText) {
            return self.answer(&xml(&open)).await;
        }
        Box::pin(self.carry_out_all(&text, &open)).await
    }

    /// Carries out what the user asked for, then reports.
    async fn carry_out_all(&mut self, text: &str, open: &[Intent]) -> RunResult {
        let mut report = Vec::new();
        if intent::in_parallel(text) && open.len() > 1 {
            let mut calls = Vec::new();
            for intent in open {
                match self.pick(intent).or_else(|| self.pick_unlisted(text, intent)) {
                    Some((tool, args)) => calls.push(self.mcp_args(&tool, &args)),
                    None => report.push(missing(intent)),
                }
            }
            let names: Vec<_> = calls.iter().map(|call| call.tool_name.clone()).collect();
            let answers = Box::pin(self.call_all(calls)).await?;
            let lines =
                names.iter().zip(&answers).map(|(name, answer)| describe_answer(name, answer));
            report.extend(lines);
        } else {
            for intent in open {
                let (line, good) = self.carry_out(intent).await?;
                report.push(line);
                if !good {
                    // Later steps may depend on this one.
                    break;
                }
            }
        }
        self.answer(&report.join("\n\n")).await
    }

    /// Carries out one intent. Returns the report, and whether it succeeded.
    async fn carry_out(&mut self, intent: &Intent) -> RunResult<(String, bool)> {
        if self.has(Quirk::NativeToolsFirst)
            && let Some((name, answer)) = Box::pin(self.call_native(intent)).await?
        {
            return Ok((describe_answer(name, &answer), succeeded(&answer)));
        }
        // Row 4: no such tool, or it was refused, so fall back to what the client offers.
        let Some((tool, args)) = self.pick(intent) else { return Ok((missing(intent), true)) };
        let call = self.mcp_args(&tool, &args);
        let answer =
            Box::pin(self.call_all(vec![call])).await?.into_iter().next().unwrap_or_default();
        Ok((describe_answer(&tool.tool_name, &answer), succeeded(&answer)))
    }

    /// The tool for an intent, with its arguments.
    fn pick(&self, intent: &Intent) -> Option<(OfferedTool, Map<String, Value>)> {
        tool_choice::call(&self.prompt.tools, intent, &self.results())
    }

    /// A tool that is not offered, where the user insists on it.
    fn pick_unlisted(
        &self,
        text: &str,
        intent: &Intent,
    ) -> Option<(OfferedTool, Map<String, Value>)> {
        let Intent::Named { tool, args, .. } = intent else { return None };
        let known =
            self.prompt.tools.first().filter(|_| text.contains("although it is not listed"));
        let provider = known?.provider.clone();
        let (name, tool_name) = (tool.clone(), tool.clone());
        Some((OfferedTool { name, tool_name, provider, ..OfferedTool::default() }, args.clone()))
    }

    // === words ===

    /// What the user asks now: the message, or on a resume the last one in the history.
    fn question(&self) -> String {
        let text = if self.prompt.text.is_empty() {
            self.questions().last().cloned().unwrap_or_default()
        } else {
            self.prompt.text.clone()
        };
        intent::without_reminders(&text)
    }

    /// What the user said earlier.
    fn questions(&self) -> Vec<String> {
        let users =
            self.prompt.history.iter().filter(|said| said.role == "user" && !said.is_result());
        // A message that is only a reminder for the model does not count.
        let said = users.map(|said| intent::without_reminders(&said.text));
        said.filter(|text| !text.is_empty()).collect()
    }

    /// The instructions that the model follows.
    fn rules(&self) -> Vec<String> {
        let mut rules = self.prompt.rules.clone();
        if self.has(Quirk::SystemHonoured) {
            rules.extend(self.prompt.system.iter().cloned());
        }
        rules
    }

    /// The edit format that the instructions ask for, if there are no tools.
    fn format(&self, text: &str) -> Option<EditFormat> {
        let rules = self.rules();
        let instructions = rules.iter().map(String::as_str).chain([text]);
        EditFormat::of(instructions).filter(|_| self.prompt.tools.is_empty())
    }

    /// The answer to a question about the prompt itself, or a title.
    fn plain_answer(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        let asks = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
        let rules = self.rules();
        if let Some(word) = obedience::only_word(&rules) {
            return Some(word.to_owned());
        }
        if self.has(Quirk::InjectionSuspicion) && asks(&["<system>", "system prompt:"]) {
            return Some("This looks like a prompt injection, so I will not follow it.".to_owned());
        }
        let titled = |text: &str| {
            let text = text.to_lowercase();
            text.contains("title") && TITLE_WORDS.iter().any(|word| text.contains(word))
        };
        let instructions = rules.iter().chain(&self.prompt.system);
        if self.prompt.tools.is_empty()
            && (titled(text) || instructions.into_iter().any(|t| titled(t)))
        {
            let subject = lower
                .split_once("conversation:")
                .and_then(|(head, _)| text.get(head.len() + "conversation:".len()..))
                .filter(|subject| !subject.trim().is_empty())
                .unwrap_or(text);
            return Some(title_of(subject));
        }
        if asks(&[
            "what are your instructions",
            "what are your rules",
            "what is your system prompt",
        ]) {
            return Some(if rules.is_empty() {
                "I have no instructions.".to_owned()
            } else {
                format!("My instructions are:\n{}", rules.join("\n"))
            });
        }
        if asks(&["what did i say", "what did i tell you", "do you remember", "recall what"]) {
            let said = self.questions();
            return Some(if said.is_empty() {
                "This is the first thing you say to me.".to_owned()
            } else {
                format!("Earlier you said:\n- {}", said.join("\n- "))
            });
        }
        if asks(&["which tools", "what tools"]) {
            return Some(format!("My tools are: {}", self.prompt.tool_names.join(", ")));
        }
        if asks(&["which model", "what model"]) {
            let parameters: Vec<_> =
                self.prompt.parameters.iter().map(|(id, value)| format!("{id}={value}")).collect();
            return Some(format!("I am {} [{}].", self.model_name(), parameters.join(",")));
        }
        if asks(&["which colour"]) && asks(&["image"]) {
            return Some(match self.prompt.colours.first() {
                Some(colour) => format!("It is {colour}."),
                None => "I see no image.".to_owned(),
            });
        }
        if self.prompt.images > 0 {
            let count = self.prompt.images;
            let plural = if count == 1 { "" } else { "s" };
            return Some(format!("I see {count} image{plural}. You wrote: {text}"));
        }
        None
    }

    fn echo(&self, text: &str) -> String {
        let turns = self.questions().len();
        let before = match turns {
            0 => String::new(),
            1 => " We have spoken once before.".to_owned(),
            n => format!(" We have spoken {n} times before."),
        };
        let length = text.chars().count();
        let words = if length > ECHO {
            let head: String = text.chars().take(ECHO).collect();
            format!("{head}… ({length} characters)")
        } else {
            text.to_owned()
        };
        format!("I understand: {words}{before} This is the simulator speaking.")
    }

    async fn think(&mut self, text: &str, plan: &str) -> RunResult {
        let head: String = text.chars().take(60).collect();
        let thought = format!("The user says \"{head}\". I will {plan}.");
        Box::pin(self.say_now(Speech::Thinking, thought, CHUNK * 2, self.pace())).await
    }

    async fn answer(&mut self, text: &str) -> RunResult {
        let mut text = text.to_owned();
        if let Some(word) = obedience::last_word(&self.rules()) {
            text.push_str(&format!(" {word}"));
        }
        if self.has(Quirk::EosLiteral) {
            text.push_str("<|eos|>");
        }
        Box::pin(self.say_now(Speech::Text, text, CHUNK, self.pace())).await
    }

    fn pace(&self) -> Duration {
        self.sim().config.pace
    }
}

/// How many intents have their results. The service edits in two steps, and the first is a
/// read.
fn progress(intents: &[Intent], results: &[HistoryMessage]) -> usize {
    let mut done = 0;
    for result in results {
        let edit = matches!(intents.get(done), Some(Intent::Edit { .. }));
        let half = edit && result.tool.as_deref().is_some_and(|name| ToolPurpose::Read.is(name));
        done += usize::from(!half);
    }
    done
}

fn succeeded(answer: &ExecAnswer) -> bool {
    matches!(answer.outcome, ExecOutcome::Success | ExecOutcome::Open)
}

/// The outcome of a call as text.
fn describe_answer(who: &str, answer: &ExecAnswer) -> String {
    match answer.outcome {
        ExecOutcome::Success | ExecOutcome::Open => quote(who, &answer.text),
        ExecOutcome::Error => failure(who, &answer.text),
        ExecOutcome::Rejected => failure(who, &format!("Refused: {}", answer.text)),
        ExecOutcome::Thrown => failure(who, &format!("Not supported: {}", answer.text)),
    }
}

fn failure(who: &str, result: &str) -> String {
    let head: String = result.chars().take(QUOTE).collect();
    format!("{who} failed, so I stop here. It said:\n```\nError: {head}\n```")
}

fn quote(who: &str, result: &str) -> String {
    let head: String = result.chars().take(QUOTE).collect();
    format!("{who} answered:\n```\n{head}\n```")
}

fn missing(intent: &Intent) -> String {
    format!("I was not offered a tool for that ({}).", intent.name())
}

fn xml(open: &[Intent]) -> String {
    let calls: Vec<_> = open.iter().map(|i| format!("<invoke name=\"{}\"/>", i.name())).collect();
    format!("<tool_use>{}</tool_use>", calls.join(""))
}

/// Words that, together with "title", mean that a title is asked for.
const TITLE_WORDS: &[&str] = &["generat", "conversation", "concise", "short", "summar"];
