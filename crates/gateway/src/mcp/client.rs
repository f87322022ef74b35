//! A connection to one server, whatever is under it.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ClientHandler, RoleClient, ServiceError, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
        Implementation, JsonObject, PaginatedRequestParams, PingRequest, ProtocolVersion, Tool,
    },
    service::{
        ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RunningService,
    },
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::{
    config::{ServerSpec, Way},
    http::{Remote, Web, Wire},
    servers::ToolInfo,
    sse::SseTransport,
    stdio::{self, Hold},
};
use crate::net;

/// Tools of one server. Models do badly with fewer already.
const MAX_TOOLS: usize = 512;
/// Pages of its list.
const MAX_PAGES: usize = 64;
/// Of a description, in bytes.
const DESCRIPTION: usize = 8 << 10;
/// Of a schema, in bytes. What is larger cannot be cut, so the tool is left out.
const SCHEMA: usize = 128 << 10;

/// An open connection. Dropping it closes it, and ends a child.
pub(super) struct Client {
    pub(super) running: RunningService<RoleClient, Handler>,
    pub(super) changed: Arc<Notify>,
    pub(super) hold: Option<Hold>,
}

/// What we are to a server: somebody who calls tools and nothing else.
#[derive(Debug)]
pub(super) struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let me = Implementation::new("ibeam", env!("CARGO_PKG_VERSION"));
        // Newer versions of the protocol have no handshake like ours.
        ClientConfig::new(ClientCapabilities::default(), me)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Opens a connection.
///
/// # Errors
/// Says why there is none.
pub(super) async fn connect(spec: &ServerSpec, web: &Web) -> Result<Client, String> {
    let changed = Arc::new(Notify::new());
    let handler = || Handler { changed: Arc::clone(&changed) };
    let (running, hold) = match &spec.way {
        Way::Stdio(program) => {
            let child = stdio::spawn(program, &web.tasks)
                .map_err(|error| format!("`{}` cannot be started: {error}", program.command))?;
            let served = handler().serve((child.stdout, child.stdin)).await;
            let running = match served {
                Ok(running) => running,
                Err(error) => {
                    let said =
                        child.hold.complaint().await.map(|said| format!("; it said: {said}"));
                    return Err(format!("{}{}", told(&error), said.unwrap_or_default()));
                }
            };
            (running, Some(child.hold))
        }
        Way::Http(remote) => (over_http(remote, web, handler).await?, None),
        Way::Memory(pipe) => (handler().serve(pipe()).await.map_err(|error| told(&error))?, None),
    };
    Ok(Client { running, changed, hold })
}

/// The newer transport first. Who refuses its first message may speak the older one.
async fn over_http(
    remote: &Remote,
    web: &Web,
    handler: impl Fn() -> Handler,
) -> Result<RunningService<RoleClient, Handler>, String> {
    let wire = Wire::new(remote, web);
    if !remote.is_sse() {
        let config = StreamableHttpClientTransportConfig::with_uri(remote.uri().to_string());
        let transport = StreamableHttpClientTransport::with_client(wire.clone(), config);
        match handler().serve(transport).await {
            Ok(running) => return Ok(running),
            Err(error) if wire.was_refused() => {
                debug!("trying the older transport: {}", told(&error));
                let refused = told(&error);
                let older = SseTransport::open(remote, wire).await.map_err(|_| refused)?;
                return handler().serve(older).await.map_err(|error| told(&error));
            }
            Err(error) => return Err(told(&error)),
        }
    }
    let older = SseTransport::open(remote, wire).await.map_err(|error| error.to_string())?;
    handler().serve(older).await.map_err(|error| told(&error))
}

fn told(error: &ClientInitializeError) -> String {
    match error {
        error if error.is_authorization_required() => {
            "it asks for authorization; give it a header in its settings".to_owned()
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended before it said hello".to_owned(),
        ClientInitializeError::TransportError { error, .. } => net::chain(&*error.error),
        error => net::chain(error),
    }
}

/// All tools, page by page.
pub(super) async fn list_tools(
    server: &str,
    peer: &Peer<RoleClient>,
) -> Result<Vec<ToolInfo>, String> {
    let supported = peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
    if !supported {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let mut page = PaginatedRequestParams::default();
        page.cursor = cursor;
        let listed = peer
            .list_tools(Some(page))
            .await
            .map_err(|error| format!("it does not list its tools: {}", net::chain(&error)))?;
        for tool in listed.tools {
            if tools.len() == MAX_TOOLS {
                warn!(
                    server,
                    "an MCP server has more than {MAX_TOOLS} tools; the rest is left out"
                );
                return Ok(tools);
            }
            match info(&tool) {
                Some(tool) => tools.push(tool),
                None => {
                    warn!(server, tool = %tool.name, "the schema of an MCP tool is too large; it is left out")
                }
            }
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    warn!(server, "an MCP server lists its tools without end; the rest is left out");
    Ok(tools)
}

fn info(tool: &Tool) -> Option<ToolInfo> {
    let schema = serde_json::to_string(&*tool.input_schema).ok()?;
    if schema.len() > SCHEMA {
        return None;
    }
    let description = tool.description.as_deref().unwrap_or_default();
    let cut = description.floor_char_boundary(DESCRIPTION);
    Some(ToolInfo {
        name: tool.name.clone().into_owned(),
        description: description.get(..cut).unwrap_or_default().to_owned(),
        schema: RawValue::from_string(schema).ok()?.into(),
    })
}

/// Calls a tool. Dropping the future tells the server that nobody waits any more.
///
/// # Errors
/// The server did not answer, or answered with an error of the protocol.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    tool: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, String> {
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    peer.call_tool(request).await.map_err(|error| match error {
        ServiceError::McpError(error) => error.message.into_owned(),
        error => net::chain(&error),
    })
}

/// Whether the server answers. That it knows no ping is an answer.
pub(super) async fn answers(peer: &Peer<RoleClient>, patience: Duration) -> bool {
    let request = ClientRequest::PingRequest(PingRequest::default());
    let sent =
        peer.send_request_with_option(request, PeerRequestOptions::with_timeout(patience)).await;
    let Ok(handle) = sent else { return false };
    matches!(handle.await_response().await, Ok(_) | Err(ServiceError::McpError(_)))
}
