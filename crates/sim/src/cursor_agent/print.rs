//! `--print`: one prompt, one answer, as text, as JSON, or streamed as lines of JSON (§9.4).

use std::{path::Path, sync::Arc};

use ibeam_proto::agent::TurnEndedUpdate;
use serde_json::{Value, json};

use super::{
    args::{CliArgs, PrintFormat},
    context::{FakeAgent, UserInput},
    mcp::{self, McpServerConfig},
    messages,
    output::{OutputHalt, OutputLines},
    permissions::CliPermissions,
    state_dir::StoredChat,
    switches::FakeSwitch,
    tool_calls::ToolActivity,
    toolbox::FakeTools,
    turn::FakeTurnEvent,
};
use crate::{behaviour::ResumeUnknown, models};

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum AgentStop {
    /// Printed on stderr; the exit code is 1.
    Words(String),
    Halt(OutputHalt),
}

impl From<OutputHalt> for AgentStop {
    fn from(halt: OutputHalt) -> Self {
        Self::Halt(halt)
    }
}

impl From<String> for AgentStop {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

/// Answers one prompt.
pub(super) async fn print(
    fake: &FakeAgent,
    args: &CliArgs,
    prompt: String,
    lines: &mut OutputLines,
) -> Result<(), AgentStop> {
    let workspace = super::workspace(args)?;
    let model = args.model.clone().unwrap_or_else(|| "auto".to_owned());
    let name = models::display_name(&model).ok_or_else(|| messages::bad_model(&model))?;
    let cwd = workspace.display().to_string();
    let mut chat = chat(fake, args, &cwd)?;
    chat.cwd = cwd;
    chat.model = model;
    let mut tools = FakeTools {
        permissions: CliPermissions::read(&workspace)?,
        force: args.force,
        timeout: fake.switches.mcp_timeout(),
        ..FakeTools::default()
    };
    let mut notes = Vec::new();
    let servers = approved_servers(fake, args, &workspace)?;
    if !servers.is_empty() {
        let (open, failed) = fake.connect(&servers).await;
        tools.add_servers(open);
        notes = failed;
    }
    for note in notes {
        super::warn(fake, &note);
    }
    let tools = Arc::new(tools);
    let said = UserInput { text: prompt, images: Vec::new(), mode: args.mode.number() };
    let mut printer = Printer::new(fake, args, &chat, lines);
    printer.open(&name, &said.text)?;
    if fake.switches.has(&FakeSwitch::Hang) {
        std::future::pending::<()>().await;
    }
    if fake.switches.has(&FakeSwitch::UsageLimit) {
        return Err(messages::USAGE_LIMIT.to_owned().into());
    }
    if let Some(words) = fake.switches.exit() {
        return Err(words.to_owned().into());
    }
    let (mut turn, mut log) =
        fake.turn(chat, said, Arc::clone(&tools)).await.map_err(|error| error.to_string())?;
    let mut outcome = Ok(());
    while let Some(event) = turn.next().await {
        log.note(&event);
        if let FakeTurnEvent::Failed(words) = &event {
            outcome = Err(words.clone());
        }
        printer.event(event)?;
    }
    for server in &tools.servers {
        server.close().await;
    }
    outcome?;
    fake.home.keep(&log.into_chat()).map_err(|error| AgentStop::Words(error.to_string()))
}

/// The servers of the workspace that are loaded. Those that were not approved are not, and no
/// error says so.
fn approved_servers(
    fake: &FakeAgent,
    args: &CliArgs,
    workspace: &Path,
) -> Result<Vec<McpServerConfig>, String> {
    let mut servers = mcp::from_workspace(workspace)?;
    if args.approve_mcps {
        let keys = servers.iter().map(|server| server.approval_key(workspace)).collect();
        fake.home.approve(keys).map_err(|error| error.to_string())?;
    } else if fake.behaviour.cli_mcp_approval {
        let approved = fake.home.approved();
        servers.retain(|server| approved.contains(&server.approval_key(workspace)));
    }
    Ok(servers)
}

/// The conversation to resume, or a new one.
fn chat(fake: &FakeAgent, args: &CliArgs, cwd: &str) -> Result<StoredChat, String> {
    match &args.resume {
        // A conversation belongs to its folder (§3.7); one without a folder was made by
        // `create-chat`.
        Some(id) => {
            let chat = match id {
                Some(id) => fake.home.chat(id),
                None => fake.home.newest(),
            };
            let here = |chat: &StoredChat| chat.cwd.is_empty() || chat.cwd == cwd;
            match (chat.filter(here), id, fake.behaviour.cli_resume_unknown) {
                (Some(chat), _, _) => Ok(chat),
                // Silently an empty chat under that id.
                (None, Some(id), ResumeUnknown::EmptyChat) => {
                    Ok(StoredChat { id: id.clone(), ..StoredChat::default() })
                }
                (None, _, _) => Err(messages::lost_chat(id.as_deref().unwrap_or("(newest)"))),
            }
        }
        None => {
            let id = fake.home.new_id().map_err(|error| error.to_string())?;
            Ok(StoredChat { id, ..StoredChat::default() })
        }
    }
}

/// Prints events in the chosen format.
struct Printer<'a> {
    fake: &'a FakeAgent,
    lines: &'a mut OutputLines,
    format: PrintFormat,
    partial: bool,
    key_source: &'static str,
    cwd: String,
    session: String,
    /// The text since the last call, and all of it.
    message: String,
    all: String,
    began_ms: u64,
}

impl<'a> Printer<'a> {
    fn new(
        fake: &'a FakeAgent,
        args: &CliArgs,
        chat: &StoredChat,
        lines: &'a mut OutputLines,
    ) -> Self {
        Self {
            fake,
            lines,
            format: args.format,
            partial: args.partial && !fake.switches.has(&FakeSwitch::NoPartial),
            key_source: if args.api_key.is_some() { "flag" } else { "login" },
            cwd: chat.cwd.clone(),
            session: chat.id.clone(),
            message: String::new(),
            all: String::new(),
            began_ms: fake.elapsed_ms(),
        }
    }

    fn open(&mut self, model: &str, prompt: &str) -> Result<(), OutputHalt> {
        let init = json!({
            "type": "system", "subtype": "init", "apiKeySource": self.key_source,
            "cwd": self.cwd, "session_id": self.session, "model": model,
            "permissionMode": "default",
        });
        self.stream(&init)?;
        let message = message("user", prompt);
        self.stream(&json!({ "type": "user", "message": message, "session_id": self.session }))
    }

    fn event(&mut self, event: FakeTurnEvent) -> Result<(), OutputHalt> {
        match event {
            FakeTurnEvent::Text(text) => {
                let times = 1 + usize::from(self.has(&FakeSwitch::RepeatText));
                (0..times).try_for_each(|_| self.text(&text))
            }
            FakeTurnEvent::Thought(_) | FakeTurnEvent::ThoughtOver
                if self.has(&FakeSwitch::NoThinking) =>
            {
                Ok(())
            }
            FakeTurnEvent::Thought(text) => {
                let stamp = self.fake.now_ms();
                self.stream(&json!({
                    "type": "thinking", "subtype": "delta", "text": text,
                    "session_id": self.session, "timestamp_ms": stamp,
                }))
            }
            FakeTurnEvent::ThoughtOver => {
                let stamp = self.fake.now_ms();
                self.stream(&json!({
                    "type": "thinking", "subtype": "completed",
                    "session_id": self.session, "timestamp_ms": stamp,
                }))
            }
            FakeTurnEvent::Started(act) => {
                self.flush(Some(&act.model_call_id))?;
                self.act("started", &act)
            }
            FakeTurnEvent::Completed(act) => self.act("completed", &act),
            FakeTurnEvent::Ended(usage) => {
                self.flush(None)?;
                self.end(&usage)
            }
            FakeTurnEvent::Failed(words) => {
                if !self.has(&FakeSwitch::ErrorResult) {
                    return Ok(());
                }
                let error = json!({ "message": words, "code": "unknown", "details": [] });
                self.stream(&json!({
                    "type": "result", "subtype": "error", "is_error": true, "error": error,
                    "session_id": self.session,
                }))
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), OutputHalt> {
        self.message.push_str(text);
        self.all.push_str(text);
        if !self.partial {
            return Ok(());
        }
        let snapshots = self.has(&FakeSwitch::Snapshots);
        let text = if snapshots { self.message.clone() } else { text.to_owned() };
        let line = self.assistant(&text, !snapshots, None);
        self.stream(&line)
    }

    /// The message so far: before a call, or as the last one.
    fn flush(&mut self, model_call_id: Option<&str>) -> Result<(), OutputHalt> {
        let text = std::mem::take(&mut self.message);
        if text.is_empty() {
            return Ok(());
        }
        // Without deltas, a message is printed once, in one form.
        let before_call = model_call_id.filter(|_| self.partial);
        let line = self.assistant(&text, before_call.is_some(), before_call);
        self.stream(&line)
    }

    fn assistant(&self, text: &str, stamped: bool, model_call_id: Option<&str>) -> Value {
        let message = message("assistant", text);
        let mut line =
            json!({ "type": "assistant", "message": message, "session_id": self.session });
        if let Some(table) = line.as_object_mut() {
            if stamped {
                table.insert("timestamp_ms".to_owned(), json!(self.fake.now_ms()));
            }
            if let Some(id) = model_call_id {
                table.insert("model_call_id".to_owned(), json!(id));
            }
        }
        line
    }

    fn act(&mut self, subtype: &str, act: &ToolActivity) -> Result<(), OutputHalt> {
        let payload = act.payload(self.has(&FakeSwitch::OldNames));
        let stamp = self.fake.now_ms();
        self.stream(&json!({
            "type": "tool_call", "subtype": subtype, "call_id": act.call_id,
            "tool_call": payload, "model_call_id": act.model_call_id,
            "session_id": self.session, "timestamp_ms": stamp,
        }))
    }

    fn end(&mut self, usage: &TurnEndedUpdate) -> Result<(), OutputHalt> {
        if self.has(&FakeSwitch::NoResult) {
            return Ok(());
        }
        let took = self.fake.elapsed_ms() - self.began_ms;
        let count = |tokens: Option<u64>| tokens.unwrap_or_default();
        let result = json!({
            "type": "result", "subtype": "success", "duration_ms": took,
            "duration_api_ms": took, "is_error": false, "result": self.all,
            "session_id": self.session,
            "request_id": super::state_dir::uuid(&format!("{}/{}", self.session, self.all)),
            "usage": {
                "inputTokens": count(usage.input_tokens),
                "outputTokens": count(usage.output_tokens),
                "cacheReadTokens": count(usage.cache_read_tokens),
                "cacheWriteTokens": count(usage.cache_write_tokens),
                "reasoningTokens": count(usage.reasoning_tokens),
            },
        });
        match self.format {
            PrintFormat::Text => self.lines.text(&format!("{}\n", self.all)),
            PrintFormat::Json | PrintFormat::StreamJson => self.lines.object(&result),
        }
    }

    /// Prints a line, if the format has lines.
    fn stream(&mut self, line: &Value) -> Result<(), OutputHalt> {
        if self.format == PrintFormat::StreamJson { self.lines.object(line) } else { Ok(()) }
    }

    fn has(&self, switch: &FakeSwitch) -> bool {
        self.fake.switches.has(switch)
    }
}

fn message(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
