//! What the agent answers to our requests.

use serde_json::value::RawValue;

use super::requests::PROTOCOL;
use crate::{
    codec::jsonrpc::{Members, read},
    model::Usage,
    peer::child::ReportedTokens,
};

/// The way to sign in when the agent names none.
const CURSOR_LOGIN: &str = "cursor_login";

/// What the agent can do, as it said when it was greeted. What it did not say is assumed
/// where the real one has it: a child that was greeted in an earlier turn says nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) loads: bool,
    pub(super) images: bool,
    pub(super) http_servers: bool,
    pub(super) sign_in: String,
    pub(super) protocol: u64,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            loads: true,
            images: true,
            http_servers: true,
            sign_in: CURSOR_LOGIN.to_owned(),
            protocol: PROTOCOL,
        }
    }
}

impl Agent {
    pub(super) fn read(answer: Option<&RawValue>) -> Self {
        let greeting = Members::of(answer).unwrap_or_default();
        let able = greeting.object("agentCapabilities");
        let methods = greeting.objects("authMethods");
        let mut methods: Vec<String> = methods.filter_map(|method| method.text("id")).collect();
        // Its own way first, whatever else there is.
        methods.sort_by_key(|id| id != CURSOR_LOGIN);
        Self {
            loads: able.read("loadSession").unwrap_or(false),
            images: able.object("promptCapabilities").read("image").unwrap_or(false),
            // Early builds do not say it, and take no harm from a server they ignore.
            http_servers: able.object("mcpCapabilities").read("http").unwrap_or(true),
            sign_in: methods.into_iter().next().unwrap_or_else(|| CURSOR_LOGIN.to_owned()),
            protocol: greeting.read("protocolVersion").unwrap_or(PROTOCOL),
        }
    }
}

/// The name in the answer to `session/new`.
pub(super) fn session_name(answer: Option<&RawValue>) -> Option<String> {
    Members::of(answer)?.text("sessionId").filter(|name| !name.is_empty())
}

/// The answer to a prompt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PromptEnding {
    pub(super) reason: Option<String>,
    pub(super) usage: Option<Usage>,
}

impl PromptEnding {
    pub(super) fn read(answer: Option<&RawValue>) -> Self {
        let ended = Members::of(answer).unwrap_or_default();
        let usage = ended.get("usage").or_else(|| ended.object("_meta").get("usage"));
        let usage = read::<ReportedTokens>(usage).and_then(ReportedTokens::usage);
        Self { reason: ended.text("stopReason"), usage }
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
