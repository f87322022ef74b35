//! The state of one start of the stand-in, and how a turn is started and stored.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::{
    mcp::{McpConnection, McpServerConfig},
    state_dir::{StateDir, StoredChat},
    switches::{FakeSwitch, FakeSwitches},
    tool_calls::ToolActivity,
    toolbox::{FakeTools, McpTool},
    turn::{FakeTurn, FakeTurnEvent, FakeTurnRequest, PromptImage},
};
use crate::{
    behaviour::{Behaviour, BehaviourChanges, Preset},
    config::SimConfig,
    engine::SimState,
    prompt::blocks::{self, ParsedPrompt},
    scenario::{Quirk, Quirks, Scenario},
};

/// Timeouts do not apply inside one process.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// The largest file of rules that is read.
const RULES_CAP: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct FakeAgent {
    pub(super) switches: FakeSwitches,
    pub(super) home: StateDir,
    /// The switches about the CLI.
    pub(super) behaviour: Behaviour,
    sim: Arc<SimState>,
    scenario: String,
    born: Instant,
}

impl FakeAgent {
    /// # Errors
    /// The folder cannot be used, or the scenario cannot be read; as text.
    pub(super) fn new(switches: FakeSwitches, home: PathBuf) -> Result<Self, String> {
        let home = StateDir::open(home).map_err(|error| error.to_string())?;
        let mut scenario = match &switches.scenario {
            Some(file) => Scenario::from_path(file).map_err(|error| error.to_string())?,
            None => Scenario::builtin(),
        };
        let behaviour = Behaviour::with([&scenario.behaviour, &switches.behaviour]);
        // The rest is about the wire between the CLI and the service, which is not here.
        scenario.behaviour = Preset::Summer.into();
        for rule in &mut scenario.rules {
            rule.behaviour = BehaviourChanges::default();
        }
        let name = switches.scenario.as_ref().map(|file| file.display().to_string());
        // Leaves out what only shows on the wire, and accepts the CLI's ids.
        let mut quirks: Quirks =
            [Quirk::Terse, Quirk::EffortSlugsOk, Quirk::AnyCallIdOk].into_iter().collect();
        let given = [
            (FakeSwitch::OwnTools, Quirk::NativeToolsFirst),
            (FakeSwitch::Empty, Quirk::EmptyTurn),
        ];
        quirks.extend(given.into_iter().filter(|(m, _)| switches.has(m)).map(|(_, quirk)| quirk));
        let mut config = SimConfig {
            scenario,
            quirks,
            heartbeat: FOR_EVER,
            client_silence: FOR_EVER,
            ..SimConfig::default()
        };
        config.pace = switches.slow().unwrap_or(config.pace);
        let (sim, born) = (Arc::new(SimState::new(config)), Instant::now());
        Ok(Self { switches, home, behaviour, sim, scenario: name.unwrap_or_default(), born })
    }

    /// Milliseconds since 1970 by the simulator's clock.
    pub(super) fn now_ms(&self) -> u64 {
        self.sim.config.epoch * 1000 + self.elapsed_ms()
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn signed_in(&self, key: Option<&str>) -> bool {
        !self.switches.has(&FakeSwitch::NotLoggedIn) && (key.is_some() || self.home.signed_in())
    }

    /// Connects to servers. Returns those that answer, and an error for each of the others.
    pub(super) async fn connect(
        &self,
        servers: &[McpServerConfig],
    ) -> (Vec<(McpConnection, Vec<McpTool>)>, Vec<String>) {
        let (mut open, mut failed) = (Vec::new(), Vec::new());
        for server in servers {
            match McpConnection::open(server).await {
                Ok(server) => open.push(server),
                Err(error) => failed.push(error),
            }
        }
        (open, failed)
    }

    /// Starts a turn of a conversation.
    ///
    /// # Errors
    /// The counts cannot be stored.
    pub(super) async fn turn(
        &self,
        chat: StoredChat,
        input: UserInput,
        tools: Arc<FakeTools>,
    ) -> io::Result<(FakeTurn, ChatLog)> {
        let parsed = ParsedPrompt::read(&input.text);
        let mut log = ChatLog { chat, text: String::new() };
        let StoredChat { rules, messages, .. } = &mut log.chat;
        rules.extend(parsed.rules);
        messages.extend(parsed.messages);
        let mut all_rules = rules.clone();
        all_rules.extend(project_rules(Path::new(&log.chat.cwd)));
        let mut ask = FakeTurnRequest {
            session: log.chat.id.clone(),
            number: 0,
            model: log.chat.model.clone(),
            mode: input.mode,
            text: parsed.request.clone(),
            images: input.images,
            rules: all_rules,
            history: log.chat.messages.clone(),
        };
        ask.number = self.home.counted(|counts| {
            counts.runs += 1;
            counts.runs
        })?;
        log.chat.messages.extend(parsed.request.map(|text| blocks::said("user", &text)));
        let conversations = &self.sim.conversations;
        let mut counted = Ok(());
        let turn = FakeTurn::begin(&self.sim, ask, tools, |run| {
            counted = self.home.counted(|counts| {
                let hits = counts.of(&self.scenario, conversations.hits().len());
                conversations.set_hits(hits);
                run.choose();
                *hits = conversations.hits();
            });
        });
        let turn = turn.await;
        counted?;
        Ok((turn, log))
    }
}

/// The user's input of a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct UserInput {
    pub(super) text: String,
    pub(super) images: Vec<PromptImage>,
    pub(super) mode: i32,
}

/// A conversation, and the turn that is being added to it.
#[derive(Debug)]
pub(super) struct ChatLog {
    chat: StoredChat,
    /// Text since the last call.
    text: String,
}

impl ChatLog {
    pub(super) fn note(&mut self, event: &FakeTurnEvent) {
        match event {
            FakeTurnEvent::Text(text) => self.text.push_str(text),
            FakeTurnEvent::Completed(act) => {
                self.settle();
                self.chat.messages.extend(messages(act));
            }
            FakeTurnEvent::Ended(_) => self.settle(),
            FakeTurnEvent::Thought(_)
            | FakeTurnEvent::ThoughtOver
            | FakeTurnEvent::Started(_)
            | FakeTurnEvent::Failed(_) => {}
        }
    }

    fn settle(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.chat.messages.push(blocks::said("assistant", &text));
        }
    }

    pub(super) fn into_chat(self) -> StoredChat {
        self.chat
    }
}

/// A call and its result as messages of the history.
fn messages(act: &ToolActivity) -> [Value; 2] {
    let (id, name) = (act.call_id.as_str(), act.name());
    [blocks::called(id, name, act.input()), blocks::answered(id, name, &act.output(), !act.good())]
}

/// `AGENTS.md`, `CLAUDE.md` and `.cursor/rules` (§9.2).
fn project_rules(workspace: &Path) -> Vec<String> {
    let folder = std::fs::read_dir(workspace.join(".cursor").join("rules"));
    let mut files: Vec<_> =
        folder.into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort_unstable();
    files.extend(["AGENTS.md", "CLAUDE.md"].map(|name| workspace.join(name)));
    let read = |file: PathBuf| std::fs::read_to_string(file).ok();
    files.into_iter().filter_map(read).filter(|text| text.len() <= RULES_CAP).collect()
}
