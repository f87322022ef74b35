//! Our side of a connection to an MCP server: numbers of requests, which of them are
//! unanswered, and what the server gets for its own requests.
//!
//! We call tools and do nothing else: no roots, no sampling, no questions to the user.

mod listing;
mod outcome;

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub use self::{
    listing::{Note, ToolInfo, ToolListing},
    outcome::CallOutcome,
};
use super::version;
use crate::codec::jsonrpc::{self, EmptyObject, Members, RpcError, RpcId, RpcMessage};

/// A request of ours.
#[derive(Clone, Copy, Debug)]
pub enum McpRequest<'a> {
    /// `version` is that of this program.
    Initialize {
        version: &'a str,
    },
    Ping,
    ListTools {
        cursor: Option<&'a str>,
    },
    /// `arguments` is a JSON object.
    CallTool {
        name: &'a str,
        arguments: &'a RawValue,
    },
}

/// What a message of the server means.
#[derive(Debug)]
pub enum McpIncoming {
    /// The answer to our request of this number.
    Answer { id: u64, outcome: Result<Box<RawValue>, RpcError> },
    /// The server asked for something, and this is to be sent back.
    Reply(Bytes),
    /// Its list of tools is not what it was.
    ToolsChanged,
    /// Nothing for us, or not a message of the protocol.
    Ignored,
}

/// One connection.
#[derive(Debug, Default)]
pub struct McpClient {
    last: u64,
    /// The requests without an answer.
    pending: BTreeSet<u64>,
}

impl McpClient {
    /// Numbers and writes a request.
    pub fn ask(&mut self, ask: McpRequest<'_>) -> (u64, Bytes) {
        self.last += 1;
        self.pending.insert(self.last);
        (self.last, ask.write(self.last))
    }

    /// What follows the answer to `initialize`.
    #[must_use]
    pub fn initialized() -> Bytes {
        jsonrpc::notification("notifications/initialized", &EmptyObject {})
    }

    /// The answer to a request is not wanted any more. What to send to the server, if it
    /// has not answered yet.
    pub fn give_up(&mut self, id: u64) -> Option<Bytes> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: u64,
            reason: &'static str,
        }
        let params = Cancelled { request_id: id, reason: "the caller stopped waiting" };
        self.forget(id).then(|| jsonrpc::notification("notifications/cancelled", &params))
    }

    /// A request that will have no answer, because it could not be sent. Whether it was
    /// pending.
    pub fn forget(&mut self, id: u64) -> bool {
        self.pending.remove(&id)
    }

    #[must_use]
    pub fn is_pending(&self, id: u64) -> bool {
        self.pending.contains(&id)
    }

    /// Reads one message of the server.
    pub fn receive(&mut self, message: &[u8]) -> McpIncoming {
        match jsonrpc::parse(message) {
            Some(RpcMessage::Response { id, outcome }) => self.answered(id.as_ref(), outcome),
            Some(RpcMessage::Request { id, method, .. }) => McpIncoming::Reply(reply(&id, &method)),
            Some(RpcMessage::Notification { method, .. })
                if method == "notifications/tools/list_changed" =>
            {
                McpIncoming::ToolsChanged
            }
            Some(RpcMessage::Notification { .. }) | None => McpIncoming::Ignored,
        }
    }

    fn answered(
        &mut self,
        id: Option<&RpcId>,
        outcome: Result<Option<&RawValue>, RpcError>,
    ) -> McpIncoming {
        let id = match id {
            Some(id) => id.number(),
            // The server could not read which request it refuses: the only one there is.
            None if self.pending.len() == 1 => self.pending.first().copied(),
            None => None,
        };
        match id.filter(|id| self.pending.remove(id)) {
            Some(id) => {
                let outcome = outcome.map(|result| result.unwrap_or(RawValue::NULL).to_owned());
                McpIncoming::Answer { id, outcome }
            }
            None => McpIncoming::Ignored,
        }
    }
}

impl McpRequest<'_> {
    fn write(self, id: u64) -> Bytes {
        match self {
            Self::Initialize { version } => {
                jsonrpc::request(id, "initialize", &InitializeParams::new(version))
            }
            Self::Ping => jsonrpc::request(id, "ping", &EmptyObject {}),
            Self::ListTools { cursor } => {
                #[derive(Serialize)]
                struct ListParams<'a> {
                    #[serde(skip_serializing_if = "Option::is_none")]
                    cursor: Option<&'a str>,
                }
                jsonrpc::request(id, "tools/list", &ListParams { cursor })
            }
            Self::CallTool { name, arguments } => {
                #[derive(Serialize)]
                #[serde(rename_all = "camelCase")]
                struct ProgressToken {
                    progress_token: u64,
                }
                #[derive(Serialize)]
                struct CallParams<'a> {
                    name: &'a str,
                    arguments: &'a RawValue,
                    _meta: ProgressToken,
                }
                // Progress is not shown, but it keeps proxies from closing a quiet stream.
                let call =
                    CallParams { name, arguments, _meta: ProgressToken { progress_token: id } };
                jsonrpc::request(id, "tools/call", &call)
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams<'a> {
    protocol_version: &'static str,
    capabilities: EmptyObject,
    client_info: McpClientInfo<'a>,
}

#[derive(Serialize)]
struct McpClientInfo<'a> {
    name: &'static str,
    version: &'a str,
}

impl<'a> InitializeParams<'a> {
    fn new(version: &'a str) -> Self {
        Self {
            protocol_version: version::NEWEST_WITH_HANDSHAKE,
            capabilities: EmptyObject {},
            client_info: McpClientInfo { name: "ibeam", version },
        }
    }
}

/// What a server gets that asks us for something.
fn reply(id: &RpcId, method: &str) -> Bytes {
    #[derive(Serialize)]
    struct Declined {
        action: &'static str,
    }
    match method {
        "ping" => jsonrpc::result(id, &EmptyObject {}),
        "elicitation/create" => jsonrpc::result(id, &Declined { action: "decline" }),
        other => {
            let text = format!("this client has no method `{other}`");
            jsonrpc::error(id, jsonrpc::METHOD_NOT_FOUND, &text)
        }
    }
}

/// The handshake of a transport that has to know its outcome before anything else is sent.
/// Its request has the number 0, which a [`McpClient`] never uses.
#[derive(Debug)]
pub struct Handshake(McpClient);

impl Handshake {
    /// Returns the first message as well. `version` is that of this program.
    #[must_use]
    pub fn new(version: &str) -> (Self, Bytes) {
        let client = McpClient { last: 0, pending: BTreeSet::from([0]) };
        (Self(client), McpRequest::Initialize { version }.write(0))
    }

    /// The outcome, if this message has it.
    pub fn receive(&mut self, message: &[u8]) -> Option<Result<ServerGreeting, String>> {
        match self.0.receive(message) {
            McpIncoming::Answer { outcome: Ok(result), .. } => Some(ServerGreeting::read(&result)),
            McpIncoming::Answer { outcome: Err(error), .. } => Some(Err(error.to_string())),
            McpIncoming::Reply(_) | McpIncoming::ToolsChanged | McpIncoming::Ignored => None,
        }
    }
}

/// What a server said to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGreeting {
    /// The version of the protocol that both speak from now on.
    pub version: String,
    /// Whether it has tools at all.
    pub tools: bool,
}

impl ServerGreeting {
    /// # Errors
    /// It is not a greeting, or of a version that has no such handshake.
    pub fn read(result: &RawValue) -> Result<Self, String> {
        let members = Members::of(Some(result)).unwrap_or_default();
        let Some(version) = members.text("protocolVersion") else {
            return Err("its answer to `initialize` cannot be read".to_owned());
        };
        if !version::has_handshake(&version) {
            return Err(format!("it wants version {version} of the protocol, which is too new"));
        }
        let tools = members.object("capabilities").get("tools").is_some();
        Ok(Self { version, tools })
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
