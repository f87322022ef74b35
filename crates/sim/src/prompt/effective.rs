//! What of a request reaches the model: which system text, which rules, which history and which
//! tools. That depends on the action and on the generation of the service.

use serde_json::Value;

use super::{
    CalledNames, HistoryMessage, RunPrompt,
    blocks::{self, ParsedPrompt},
    images, server_entries,
};
use crate::{
    behaviour::{Behaviour, RootImages, RulesShown, SystemField, ToolsMode},
    record::{PromptEntry, PromptReport},
};

impl RunPrompt {
    /// Decides what the model gets, once the history was read.
    pub(crate) fn settle(&mut self, entries: &[Value], behaviour: &Behaviour) {
        let seen = entries.iter().flat_map(|entry| images::seen_in(entry, behaviour.roots_images));
        self.colours = seen.filter_map(images::colour).collect();
        if !behaviour.result_is_error_visible {
            self.history.iter_mut().for_each(HistoryMessage::judge_by_text);
        }
        self.unfold_history();
        if self.resume && behaviour.roots_resume_verbatim {
            self.settle_verbatim(entries, behaviour.roots_images);
        } else {
            self.settle_message(behaviour);
            self.unfold_message();
        }
        match behaviour.system_spec29 {
            SystemField::Obey => self.rules.extend(self.system_spec.clone()),
            SystemField::Refuse | SystemField::Ignore => {}
        }
        if behaviour.system_custom8 == SystemField::Obey || self.custom_prompt_allowed {
            self.rules.extend(self.custom_prompt.clone());
        }
        self.settle_tools(behaviour);
    }

    /// Reads conversations that the client has written into messages of the user, as a model does.
    fn unfold_history(&mut self) {
        let mut history = Vec::new();
        for said in std::mem::take(&mut self.history) {
            if said.role == "user" {
                let asked = unfold(&mut history, &said.text);
                history.extend(asked.map(|text| HistoryMessage { text, ..said }));
            } else {
                history.push(said);
            }
        }
        self.history = history;
    }

    /// The same for the message that the run is about.
    fn unfold_message(&mut self) {
        if self.user_message.is_none() {
            return;
        }
        let known = self.history.len();
        let asked = unfold(&mut self.history, &self.text);
        self.nudged = asked.is_none();
        self.text = asked.unwrap_or_default();
        // Images of the earlier messages come with this one.
        let told = self.history.iter().skip(known);
        let earlier: usize = told.map(|said| said.text.matches("[image ").count()).sum();
        self.images = self.images.saturating_sub(earlier);
    }

    /// The prompt is the client's root entries and nothing else.
    fn settle_verbatim(&mut self, entries: &[Value], seen: RootImages) {
        self.rules = self.system.clone();
        let rules = self.take_rules();
        self.rules.extend(rules);
        let asked = self.history.last().filter(|said| said.role == "user" && !said.is_result());
        if let Some(asked) = asked {
            self.text = asked.text.clone();
            self.asked_in_roots = true;
            self.history.pop();
            self.images = entries.last().map_or(0, |entry| images::seen_in(entry, seen).count());
        }
    }

    /// The service writes the beginning of the prompt, and adds the user's message.
    fn settle_message(&mut self, behaviour: &Behaviour) {
        if behaviour.roots_uma_slot0 {
            if self.root_roles.first().is_some_and(|role| role == "system")
                && !self.system.is_empty()
            {
                self.system.remove(0);
            }
            self.system.insert(0, server_entries::system_text());
            let rules = self.take_rules();
            self.rules.extend(rules);
        }
        let shown = match behaviour.roots_uma_context {
            RulesShown::Always => true,
            RulesShown::NoHistory => self.history.is_empty() || self.server_context,
            RulesShown::Never => false,
        };
        if shown {
            let mut rules = self.context_rules.clone();
            rules.retain(|rule| !self.rules.contains(rule));
            self.rules.extend(rules);
        }
        self.context_shown = shown;
    }

    /// Takes the entries that consist of rules out of the history. Those of the service itself
    /// are replaced by newer rules, if there are any.
    fn take_rules(&mut self) -> Vec<String> {
        let mut rules = Vec::new();
        let newer = !self.resume && !self.context_rules.is_empty();
        let mut server_context = false;
        self.history.retain(|said| {
            if said.role != "user" {
                return true;
            }
            let own = server_entries::is_context(&said.text);
            server_context |= own;
            let found = server_entries::rules_in(&said.text);
            if !(own && newer) {
                rules.extend(found.map(str::to_owned));
            }
            !own && found.is_none()
        });
        self.server_context |= server_context;
        rules
    }

    fn settle_tools(&mut self, behaviour: &Behaviour) {
        let mut tools = std::mem::take(&mut self.tools);
        let declared_too = std::mem::take(&mut self.meta_tools);
        if behaviour.tools_mode != ToolsMode::Direct {
            for tool in declared_too {
                if !self.tool_names.contains(&tool.tool_name) {
                    self.tool_names.push(tool.tool_name.clone());
                    tools.push(tool);
                }
            }
        }
        if behaviour.tools_spoil34 && !self.meta_namespaces.is_empty() {
            tools.clear();
        }
        if behaviour.tools_need34 {
            tools.retain(|tool| self.meta_namespaces.contains(&tool.provider));
        }
        let meta = behaviour.tools_mode != ToolsMode::Direct;
        if meta && self.resume && behaviour.roots_resume_verbatim {
            // Nothing else names them in the prompt.
            tools.retain(|tool| {
                self.prompt_texts.iter().any(|text| {
                    text.contains(&tool.tool_name)
                        || server_entries::names_namespace(text, &tool.provider)
                })
            });
        }
        self.tools = tools;
        self.prompt_texts = Vec::new();
    }

    /// What the model knows when the run begins.
    pub(crate) fn report(&self, run: u64) -> PromptReport {
        let entry = |said: &HistoryMessage| PromptEntry {
            role: said.role.clone(),
            text: said.text.clone(),
            tool: said.tool.clone(),
        };
        let mut entries: Vec<_> = self.history.iter().map(entry).collect();
        if self.asks_anew() {
            let text = self.text.clone();
            entries.push(PromptEntry { role: "user".to_owned(), text, tool: None });
        }
        PromptReport {
            run,
            conversation: self.conversation.clone(),
            model: self.model.clone(),
            action: if self.resume { "resume" } else { "message" },
            instructions: self.rules.clone(),
            system: self.system.clone(),
            entries,
            reasoning: self.reasoning,
            tools: self.tools.iter().map(|tool| tool.tool_name.clone()).collect(),
        }
    }
}

/// Adds the conversation in a message of the user to the history. Returns what is asked then;
/// `None` to go on with the results before it.
fn unfold(history: &mut Vec<HistoryMessage>, text: &str) -> Option<String> {
    if let Some(folded) = ParsedPrompt::folded(text) {
        let names = CalledNames::new(&folded.messages);
        history.extend(folded.messages.iter().flat_map(|said| HistoryMessage::all(said, &names)));
        return folded.request;
    }
    let after_results = history.last().is_some_and(HistoryMessage::is_result);
    (!(after_results && blocks::asks_to_go_on(text))).then(|| text.to_owned())
}

#[cfg(test)]
#[path = "effective_tests.rs"]
mod tests;
