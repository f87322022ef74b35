//! What the agent answers to our requests.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::say::PROTOCOL;
use crate::{
    codec::jsonrpc::{read, text},
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Greeting<'a> {
    #[serde(borrow)]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow)]
    agent_capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    auth_methods: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Capabilities<'a> {
    #[serde(borrow)]
    load_session: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    mcp_capabilities: Option<&'a RawValue>,
}

/// The flags inside the capabilities that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Flags<'a> {
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    http: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Method<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

impl Agent {
    pub(super) fn read(answer: Option<&RawValue>) -> Self {
        let greeting: Greeting<'_> = read(answer).unwrap_or_default();
        let able: Capabilities<'_> = read(greeting.agent_capabilities).unwrap_or_default();
        let prompts: Flags<'_> = read(able.prompt_capabilities).unwrap_or_default();
        let servers: Flags<'_> = read(able.mcp_capabilities).unwrap_or_default();
        let methods: Vec<&RawValue> = read(greeting.auth_methods).unwrap_or_default();
        let mut methods: Vec<String> =
            methods.into_iter().filter_map(|raw| text(read::<Method<'_>>(Some(raw))?.id)).collect();
        // Its own way first, whatever else there is.
        methods.sort_by_key(|id| id != CURSOR_LOGIN);
        Self {
            loads: read(able.load_session).unwrap_or(false),
            images: read(prompts.image).unwrap_or(false),
            // Early builds do not say it, and take no harm from a server they ignore.
            http_servers: read(servers.http).unwrap_or(true),
            sign_in: methods.into_iter().next().unwrap_or_else(|| CURSOR_LOGIN.to_owned()),
            protocol: read(greeting.protocol_version).unwrap_or(PROTOCOL),
        }
    }
}

/// The name in the answer to `session/new`.
pub(super) fn session_name(answer: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Opened<'a> {
        #[serde(borrow, default)]
        session_id: Option<&'a RawValue>,
    }
    text(read::<Opened<'_>>(answer)?.session_id).filter(|name| !name.is_empty())
}

/// The answer to a prompt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PromptEnding {
    pub(super) reason: Option<String>,
    pub(super) usage: Option<Usage>,
}

impl PromptEnding {
    pub(super) fn read(answer: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Ended<'a> {
            #[serde(borrow)]
            stop_reason: Option<&'a RawValue>,
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
            #[serde(borrow, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Meta<'a> {
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        let ended: Ended<'_> = read(answer).unwrap_or_default();
        let meta: Meta<'_> = read(ended.meta).unwrap_or_default();
        let usage =
            ended.usage.or(meta.usage).and_then(|raw| read::<ReportedTokens>(Some(raw))?.usage());
        Self { reason: text(ended.stop_reason), usage }
    }
}

#[cfg(test)]
#[path = "hear_tests.rs"]
mod tests;
