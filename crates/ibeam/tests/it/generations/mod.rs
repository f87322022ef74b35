//! The service of both generations, spoken to in every way that ibeam knows: each form of a
//! history, each way in which the model sees client tools, both transports.
#![allow(clippy::print_stdout, reason = "what was seen is a table")]

mod conversations;
mod cuts;
mod matrix;
mod switches;

use ibeam_core::peer::agent::{HistoryForm, HistorySetting};
use ibeam_server::config::{Config, Transport};
use ibeam_sim::{BehaviourChanges, Preset, PromptReport, Scenario, SimConfig};
use serde_json::{Value, json};

use crate::lab::{Call, Lab, Reply, Talk, chat, tools};

/// What every client here says in front.
pub(super) const SYSTEM: &str = "Always sign with the word zx81.";

/// A model that another company serves: the service checks its prompts most strictly.
const EXTERNAL: &str = "claude-sonnet-5";

/// One setting of the service and of ibeam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setup {
    preset: Preset,
    history: HistorySetting,
    /// The switch `tools.mode`.
    tools: &'static str,
    transport: Transport,
    model: &'static str,
}

impl Setup {
    /// The service of autumn, and a history in this form.
    pub(super) const fn autumn(history: HistoryForm) -> Self {
        Self {
            preset: Preset::Autumn,
            history: HistorySetting::Only(history),
            tools: "meta",
            transport: Transport::Auto,
            model: EXTERNAL,
        }
    }

    /// The settings that everybody has who sets nothing.
    pub(super) const DEFAULT: Self = Self {
        history: HistorySetting::Auto,
        model: "auto",
        ..Self::autumn(HistoryForm::ResumeRoots)
    };

    /// The service of the summer, with the form of a history that it read.
    pub(crate) const SUMMER: Self =
        Self { preset: Preset::Summer, tools: "direct", ..Self::autumn(HistoryForm::RulesRoots) };

    /// With a model that another company serves.
    pub(super) const fn external(self) -> Self {
        Self { model: EXTERNAL, ..self }
    }

    /// As the head of a row in a table.
    pub(super) fn head(self) -> [String; 4] {
        let history = match self.history {
            HistorySetting::Auto => "auto",
            HistorySetting::Only(form) => form.name(),
        };
        let transport = match self.transport {
            Transport::Auto => "auto",
            Transport::H2 => "h2",
            Transport::H1 => "h1",
        };
        [
            format!("{}, {}", self.preset, self.model),
            history.to_owned(),
            self.tools.to_owned(),
            transport.to_owned(),
        ]
    }

    pub(super) fn sim(self, scenario: &str) -> SimConfig {
        let behaviour = BehaviourChanges::from(self.preset).with("tools.mode", self.tools).unwrap();
        SimConfig { behaviour, ..SimConfig::scenario(Scenario::from_toml(scenario).unwrap()) }
    }

    pub(super) fn configure(self, config: &mut Config) {
        config.upstream.history = self.history;
        config.upstream.transport = self.transport;
    }

    pub(crate) fn lab(self, scenario: &str) -> Lab {
        Lab::with(self.sim(scenario), |config| self.configure(config))
    }

    /// A client with a system prompt and these tools, which has said this.
    pub(super) fn talk(self, offered: &[&str], text: &str) -> Talk {
        let mut body = chat(text, true);
        body["model"] = self.model.into();
        if !offered.is_empty() {
            body["tools"] = tools(offered);
        }
        let system = json!({ "role": "system", "content": SYSTEM });
        body["messages"].as_array_mut().unwrap().insert(0, system);
        Talk { body, headers: Vec::new() }
    }
}

/// What the model of the newest run knows.
pub(super) fn newest(lab: &Lab) -> PromptReport {
    lab.sim.prompts().pop().unwrap()
}

/// What of these is missing in what a model knows; the first is the system prompt.
pub(super) fn unknown<'a>(prompt: &PromptReport, wanted: &'a [String]) -> Vec<&'a str> {
    let said: Vec<&str> = prompt.entries.iter().map(|entry| entry.text.as_str()).collect();
    let obeyed = prompt.instructions.iter().any(|text| text.contains(SYSTEM));
    let system = (!obeyed).then_some("the system prompt");
    let lost = wanted.iter().map(String::as_str).filter(|want| {
        let known = said.iter().any(|text| text.contains(want));
        !known
    });
    system.into_iter().chain(lost).collect()
}

/// Everything that a client has said and got, each by a text that is only there.
pub(super) fn contents(talk: &Talk) -> Vec<String> {
    let messages = talk.body["messages"].as_array().unwrap();
    let texts = messages.iter().filter(|message| message["role"] != "system");
    let texts = texts.filter_map(|message| message["content"].as_str());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// The model that answered last knows everything before its answer.
#[track_caller]
pub(super) fn knows_all(lab: &Lab, talk: &Talk) {
    let (prompt, mut wanted) = (newest(lab), contents(talk));
    let last = talk.body["messages"].as_array().unwrap().last().unwrap();
    if last["role"] == "assistant" && last["content"] != "" {
        wanted.pop();
    }
    let lost = unknown(&prompt, &wanted);
    assert!(lost.is_empty(), "lost: {lost:?}\nin {prompt:#?}");
}

/// An assistant's message that makes one call, and the result of it.
pub(super) fn called(id: &str, name: &str, arguments: &Value, result: &str) -> [Value; 2] {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    let call = json!({ "id": id, "type": "function", "function": function });
    [
        json!({ "role": "assistant", "content": "", "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": id, "content": result }),
    ]
}

/// Asks, carries out the calls with this result until there are none, and gives the last reply.
pub(super) async fn work(lab: &Lab, talk: &mut Talk, result: impl Fn(&Call) -> String) -> Reply {
    loop {
        let reply = talk.ask(lab).await;
        let calls = reply.calls();
        if calls.is_empty() {
            assert_eq!(reply.finish_reason().as_deref(), Some("stop"), "{}", reply.body);
            return reply;
        }
        for call in &calls {
            talk.result(call, result(call));
        }
    }
}
