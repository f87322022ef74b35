//! What we say: the parameters of our requests, and the answers to the agent's.

use secrecy::ExposeSecret as _;
use serde::{Serialize, Serializer};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    model::{Image, ImageSource},
    peer::child::{HostAddress, Prompt, SERVER_NAME},
};

/// The version of ACP that is spoken here.
pub(super) const PROTOCOL: u64 = 1;

// === requests ===

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    protocol_version: u64,
    client_capabilities: ClientCapabilities,
    client_info: ClientInfo,
}

#[derive(Debug, Serialize)]
struct ClientCapabilities {
    fs: FileSystem,
    terminal: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileSystem {
    read_text_file: bool,
    write_text_file: bool,
}

#[derive(Debug, Serialize)]
struct ClientInfo {
    name: &'static str,
    title: &'static str,
    version: &'static str,
}

impl Initialize {
    /// We offer neither files nor a terminal: what the agent does on the machine, it does
    /// itself, if we permit it.
    pub(super) fn ours() -> Self {
        Self {
            protocol_version: PROTOCOL,
            client_capabilities: ClientCapabilities {
                fs: FileSystem { read_text_file: false, write_text_file: false },
                terminal: false,
            },
            client_info: ClientInfo {
                name: "ibeam",
                title: "ibeam",
                version: env!("CARGO_PKG_VERSION"),
            },
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Authenticate<'a> {
    pub(super) method_id: &'a str,
}

/// `session/new`, or `session/load` with the name of the conversation. No `Debug`: the
/// headers of the servers hold their bearer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenSession<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    pub(super) cwd: &'a str,
    pub(super) mcp_servers: Vec<HostServer<'a>>,
}

#[derive(Serialize)]
pub(super) struct HostServer<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    url: &'a str,
    headers: [Header; 1],
}

#[derive(Serialize)]
struct Header {
    name: &'static str,
    value: String,
}

impl<'a> HostServer<'a> {
    pub(super) fn hosted(host: &'a HostAddress) -> Self {
        let value = format!("Bearer {}", host.bearer.expose_secret());
        Self {
            kind: "http",
            name: SERVER_NAME,
            url: &host.url,
            headers: [Header { name: "Authorization", value }],
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOption<'a> {
    pub(super) session_id: &'a str,
    pub(super) config_id: &'a str,
    pub(super) value: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode<'a> {
    pub(super) session_id: &'a str,
    pub(super) mode_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptParams<'a> {
    session_id: &'a str,
    prompt: Vec<PromptBlock<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum PromptBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        mime_type: &'a str,
        #[serde(serialize_with = "in_base64")]
        data: &'a [u8],
    },
}

impl<'a> PromptParams<'a> {
    pub(super) fn new(session_id: &'a str, prompt: &'a Prompt) -> Self {
        let pictures =
            prompt.images.iter().map(|Image { source: ImageSource::Inline { mime, data } }| {
                PromptBlock::Image { mime_type: mime, data }
            });
        let text = std::iter::once(PromptBlock::Text { text: &prompt.text });
        Self { session_id, prompt: text.chain(pictures).collect() }
    }
}

fn in_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancel<'a> {
    pub(super) session_id: &'a str,
}

// === answers ===

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Permission {
    pub(super) outcome: PermissionOutcome,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum PermissionOutcome {
    Selected { option_id: String },
    Cancelled,
}

/// No user can answer a question. Builds read the outcome, or only the answers.
#[derive(Debug, Serialize)]
pub(super) struct NoAnswer {
    outcome: NoUserOutcome,
    answers: [&'static str; 0],
}

/// A plan is not wanted but its execution. Builds read the outcome, or whether it is
/// approved.
#[derive(Debug, Serialize)]
pub(super) struct NoPlan {
    outcome: NoUserOutcome,
    approved: bool,
}

/// Images have no place in an answer.
#[derive(Debug, Serialize)]
pub(super) struct NoImage {
    outcome: NoUserOutcome,
}

#[derive(Debug, Serialize)]
struct NoUserOutcome {
    outcome: &'static str,
    reason: &'static str,
}

impl NoAnswer {
    pub(super) fn new() -> Self {
        let reason = "No user is present: continue with the most likely meaning, and \
                      ask in the answer.";
        Self { outcome: NoUserOutcome { outcome: "skipped", reason }, answers: [] }
    }
}

impl NoImage {
    pub(super) fn new() -> Self {
        let reason = "Images cannot be made through this gateway.";
        Self { outcome: NoUserOutcome { outcome: "rejected", reason } }
    }
}

impl NoPlan {
    pub(super) fn new() -> Self {
        let reason = "No user is present to review a plan: answer in words.";
        Self { outcome: NoUserOutcome { outcome: "rejected", reason }, approved: false }
    }
}
