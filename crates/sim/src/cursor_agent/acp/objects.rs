//! The JSON objects of ACP and of Cursor's additions to it (§9.6).

use serde_json::{Value, json};

use super::super::{VERSION, args::CliMode, state_dir::StoredChat, tool_calls::ToolActivity};
use crate::{assistant::title_of, models, prompt::blocks};

/// The newest version whose answers are known.
const NEWEST: &str = "2026.10.01-e373342";

const MODES: &[(CliMode, &str, &str)] = &[
    (CliMode::Agent, "Agent", "Full agent capabilities with tool access"),
    (CliMode::Plan, "Plan", "Read-only mode for planning and designing before implementation"),
    (CliMode::Ask, "Ask", "Q&A mode: no edits or command execution"),
];

/// The protocol version is ours, or the client's if that is older. `newest`: as the CLI
/// 2026.10.01 answers.
pub(super) fn initialized(params: &Value, newest: bool) -> Value {
    let theirs = params.get("protocolVersion").and_then(Value::as_u64).unwrap_or(1);
    json!({
        "protocolVersion": theirs.min(1),
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": false },
            "mcpCapabilities": { "http": true, "sse": newest },
            "sessionCapabilities": { "list": {} },
        },
        "authMethods": [{
            "id": "cursor_login", "name": "Cursor Login",
            "description": "Sign in with 'cursor-agent login'",
        }],
        "agentInfo": { "name": "cursor-agent", "title": "Cursor Agent", "version": if newest { NEWEST } else { VERSION } },
    })
}

pub(super) fn session(model: &str, mode: CliMode) -> Value {
    let modes: Vec<_> = MODES
        .iter()
        .map(|(mode, name, about)| json!({ "id": mode.id(), "name": name, "description": about }))
        .collect();
    let known: Vec<_> = models::acp_list()
        .into_iter()
        .map(|(id, name)| json!({ "modelId": id, "name": name }))
        .collect();
    json!({
        "modes": { "currentModeId": mode.id(), "availableModes": modes },
        "models": { "currentModelId": model, "availableModels": known },
        "configOptions": options(model, mode),
    })
}

pub(super) fn options(model: &str, mode: CliMode) -> Value {
    let modes: Vec<_> =
        MODES.iter().map(|(mode, name, _)| json!({ "value": mode.id(), "name": name })).collect();
    let models: Vec<_> = models::acp_list()
        .into_iter()
        .map(|(id, name)| json!({ "value": id, "name": name }))
        .collect();
    json!([
        { "id": "mode", "name": "Mode", "category": "mode", "type": "select",
          "currentValue": mode.id(), "options": modes },
        { "id": "model", "name": "Model", "category": "model", "type": "select",
          "currentValue": model, "options": models },
    ])
}

pub(super) fn available() -> Value {
    let known: Vec<_> = models::acp_list()
        .into_iter()
        .map(|(id, name)| json!({ "modelId": id, "name": name, "configOptions": [] }))
        .collect();
    json!({ "models": known })
}

pub(super) fn listed(chats: &[StoredChat]) -> Value {
    let title = |chat: &StoredChat| {
        let first = chat.messages.iter().find(|message| blocks::role(message) == "user")?;
        let text = first.get("content")?.get(0)?.get("text")?.as_str()?;
        Some(title_of(text))
    };
    let sessions: Vec<_> = chats
        .iter()
        .map(|chat| json!({ "sessionId": chat.id, "cwd": chat.cwd, "title": title(chat) }))
        .collect();
    json!({ "sessions": sessions })
}

pub(super) fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

pub(super) fn call(act: &ToolActivity) -> Value {
    json!({
        "sessionUpdate": "tool_call", "toolCallId": act.call_id, "title": act.title(),
        "kind": act.kind(), "status": "pending", "rawInput": act.raw_input(),
    })
}

pub(super) fn call_done(act: &ToolActivity) -> Value {
    let text = json!({ "type": "text", "text": act.output() });
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": act.call_id,
        "status": if act.good() { "completed" } else { "failed" },
        "content": [{ "type": "content", "content": text }],
        "rawOutput": act.raw_output(),
    })
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
