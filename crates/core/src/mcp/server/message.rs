//! A client's message, read once.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::version;
use crate::codec::jsonrpc::{self, RpcId, RpcMessage};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

#[derive(Debug)]
pub enum Inbound<'a> {
    Request(InboundRequest<'a>),
    Notification(InboundNotification<'a>),
    /// An answer, though the server asks for nothing.
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
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            uri: Option<&'a RawValue>,
        }
        let params: Params<'_> = jsonrpc::read(self.params)?;
        match self.method.as_str() {
            "tools/call" | "prompts/get" => jsonrpc::text(params.name),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                jsonrpc::text(params.uri)
            }
            _ => None,
        }
    }

    /// The version that an `initialize` asks for.
    pub(super) fn greeted_version(&self) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            protocol_version: String,
        }
        jsonrpc::read::<Params>(self.params).map(|params| params.protocol_version)
    }
}

impl InboundNotification<'_> {
    /// The request that its caller does not wait for any more.
    #[must_use]
    pub fn cancelled(&self) -> Option<RpcId> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow)]
            request_id: &'a RawValue,
        }
        if self.method != "notifications/cancelled" {
            return None;
        }
        RpcId::read(jsonrpc::read::<Params<'_>>(self.params)?.request_id)
    }
}

impl RequestMeta {
    fn of(params: Option<&RawValue>) -> Self {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            _meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            #[serde(borrow, default)]
            progress_token: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
            version: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
            capabilities: Option<&'a RawValue>,
        }
        // Serde would read the members from an array, too.
        let params = params.filter(|raw| raw.get().starts_with('{'));
        let meta = jsonrpc::read::<Params<'_>>(params).and_then(|params| params._meta);
        let meta = meta.filter(|raw| raw.get().starts_with('{'));
        let Some(members) = jsonrpc::read::<Members<'_>>(meta) else {
            return Self::default();
        };
        Self {
            version: jsonrpc::text(members.version),
            capabilities: members.capabilities.is_some_and(|raw| raw.get().starts_with('{')),
            progress: members.progress_token.and_then(RpcId::read),
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
