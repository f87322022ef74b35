//! A client's message, read once.

use serde_json::value::RawValue;

use super::version;
use crate::codec::jsonrpc::{self, Members, RpcId, RpcMessage};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

#[derive(Debug)]
pub enum Inbound<'a> {
    Request(InboundRequest<'a>),
    Notification(InboundNotification<'a>),
    /// A response, although the server sent no request.
    Response,
}

#[derive(Debug)]
pub struct InboundRequest<'a> {
    pub id: RpcId,
    pub method: String,
    pub params: Option<&'a RawValue>,
    pub meta: RequestMeta,
}

#[derive(Debug)]
pub struct InboundNotification<'a> {
    pub method: String,
    params: Option<&'a RawValue>,
}

/// What a request says of itself.
#[derive(Debug, Default)]
pub struct RequestMeta {
    /// The version of the protocol that it is written in.
    pub version: Option<String>,
    /// Whether it says what its client can do.
    capabilities: bool,
    /// Under which progress is to be reported.
    pub progress: Option<RpcId>,
}

impl<'a> Inbound<'a> {
    /// `None`: this is not a message.
    #[must_use]
    pub fn read(message: &'a [u8]) -> Option<Self> {
        Some(match jsonrpc::parse(message)? {
            RpcMessage::Request { id, method, params } => {
                Self::Request(InboundRequest { id, method, params, meta: RequestMeta::of(params) })
            }
            RpcMessage::Notification { method, params } => {
                Self::Notification(InboundNotification { method, params })
            }
            RpcMessage::Response { .. } => Self::Response,
        })
    }

    #[must_use]
    pub fn request(&self) -> Option<&InboundRequest<'a>> {
        match self {
            Self::Request(request) => Some(request),
            Self::Notification(_) | Self::Response => None,
        }
    }
}

impl InboundRequest<'_> {
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.method == "initialize"
    }

    /// What the header `Mcp-Name` has to say, for methods that have it.
    pub(super) fn target(&self) -> Option<String> {
        let params = Members::of(self.params)?;
        match self.method.as_str() {
            "tools/call" | "prompts/get" => params.text("name"),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                params.text("uri")
            }
            _ => None,
        }
    }

    /// The version that an `initialize` asks for.
    pub(super) fn greeted_version(&self) -> Option<String> {
        Members::of(self.params)?.text("protocolVersion")
    }
}

impl InboundNotification<'_> {
    /// The request that its caller does not wait for any more.
    #[must_use]
    pub fn cancelled(&self) -> Option<RpcId> {
        if self.method != "notifications/cancelled" {
            return None;
        }
        RpcId::read(Members::of(self.params)?.get("requestId")?)
    }
}

impl RequestMeta {
    fn of(params: Option<&RawValue>) -> Self {
        let meta = Members::of(params).unwrap_or_default().object("_meta");
        Self {
            version: meta.text(VERSION_KEY),
            capabilities: Members::of(meta.get(CAPABILITIES_KEY)).is_some(),
            progress: meta.get("progressToken").and_then(RpcId::read),
        }
    }

    /// Whether the request is of a version without sessions.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        self.version.as_deref().is_some_and(|version| !version::has_handshake(version))
    }

    pub(super) fn result_type(&self) -> Option<&'static str> {
        self.is_stateless().then_some("complete")
    }

    /// Whether all is there that a request without a session needs.
    ///
    /// # Errors
    /// Names what is missing.
    pub(super) fn complete(&self) -> Result<(), String> {
        let needed = [(VERSION_KEY, self.version.is_some()), (CAPABILITIES_KEY, self.capabilities)];
        let missing: Vec<&str> =
            needed.into_iter().filter(|(_, there)| !there).map(|(key, _)| key).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        Err(format!("request _meta is missing or has malformed required fields: {missing}"))
    }
}
