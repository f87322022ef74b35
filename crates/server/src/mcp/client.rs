//! A connection to one server, whatever is under it.

use std::time::Duration;

use ibeam_core::mcp::client::{
    CallOutcome, McpRequest, Note, ServerGreeting, ToolInfo, ToolListing,
};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::{
    config::{ServerSpec, ServerTransport},
    http::{Remote, ServerHttp, Web},
    peer::{Peer, RequestFailure},
    pipe::{self, PipeReader, PipeWriter},
    sse::SseTransport,
    stdio::{self, Hold},
    streamable::Streamable,
};

/// An open connection. Dropping it closes it, and ends a child.
pub(super) struct Client {
    pub(super) peer: Peer,
    pub(super) greeting: ServerGreeting,
    pub(super) hold: Option<Hold>,
    _end: DropGuard,
}

/// Opens a connection.
///
/// # Errors
/// Says why there is none.
pub(super) async fn connect(spec: &ServerSpec, web: &Web) -> Result<Client, String> {
    let end = CancellationToken::new();
    let stop = end.clone().drop_guard();
    let (peer, greeting, hold) = match &spec.way {
        ServerTransport::Stdio(program) => {
            let child = stdio::spawn(program, &web.tasks)
                .map_err(|error| format!("`{}` cannot be started: {error}", program.command))?;
            let (reader, writer) = (Box::new(child.stdout), Box::new(child.stdin));
            match over_pipe(reader, writer, web, end).await {
                Ok((peer, greeting)) => (peer, greeting, Some(child.hold)),
                Err(why) => {
                    let said = child.hold.complaint().await;
                    let said = said.map(|said| format!("; it said: {said}")).unwrap_or_default();
                    return Err(format!("{why}{said}"));
                }
            }
        }
        ServerTransport::Http(remote) => {
            let (peer, greeting) = Box::pin(over_http(remote, web, end)).await?;
            (peer, greeting, None)
        }
        ServerTransport::Memory(pipe) => {
            let (reader, writer) = tokio::io::split(pipe());
            let (peer, greeting) = over_pipe(Box::new(reader), Box::new(writer), web, end).await?;
            (peer, greeting, None)
        }
    };
    Ok(Client { peer, greeting, hold, _end: stop })
}

async fn over_pipe(
    reader: PipeReader,
    writer: PipeWriter,
    web: &Web,
    end: CancellationToken,
) -> Result<(Peer, ServerGreeting), String> {
    let (peer, queue) = Peer::new();
    web.tasks.spawn("mcp pipe", pipe::run(peer.clone(), queue, reader, writer, end));
    let greeting = peer.greet().await?;
    Ok((peer, greeting))
}

/// The newer transport first. A server that refuses its first message may speak the older
/// one.
async fn over_http(
    remote: &Remote,
    web: &Web,
    end: CancellationToken,
) -> Result<(Peer, ServerGreeting), String> {
    let wire = ServerHttp::new(remote, web);
    let mut refused = None;
    if !remote.is_sse() {
        match Streamable::open(remote, wire.clone()).await {
            Ok((transport, greeting)) => {
                let (peer, queue) = Peer::new();
                web.tasks.spawn("mcp http", transport.run(peer.clone(), queue, end));
                return Ok((peer, greeting));
            }
            Err(error) if error.as_such => {
                debug!("trying the older transport of MCP: {}", error.why);
                refused = Some(error.why);
            }
            Err(error) => return Err(error.why),
        }
    }
    // If there is no such stream either, the first refusal is what counts.
    let older = SseTransport::open(remote, wire).await.map_err(|why| refused.unwrap_or(why))?;
    let (peer, queue) = Peer::new();
    web.tasks.spawn("mcp sse", older.run(peer.clone(), queue, end));
    let greeting = peer.greet().await?;
    Ok((peer, greeting))
}

impl Client {
    /// All tools, page by page.
    pub(super) async fn list_tools(&self, server: &str) -> Result<Vec<ToolInfo>, String> {
        if !self.greeting.tools {
            return Ok(Vec::new());
        }
        let failed = |why: &str| format!("it does not list its tools: {why}");
        let mut listing = ToolListing::default();
        let mut cursor: Option<String> = None;
        loop {
            let ask = McpRequest::ListTools { cursor: cursor.as_deref() };
            let page = self.peer.request(ask).await.map_err(|error| failed(&error.to_string()))?;
            cursor = listing.add(&page).map_err(failed)?;
            if cursor.is_none() {
                break;
            }
        }
        for note in &listing.notes {
            match note {
                Note::TooManyTools => warn!(
                    server,
                    "an MCP server has more than {} tools; the rest is left out",
                    listing.tools.len()
                ),
                Note::TooManyPages => {
                    warn!(
                        server,
                        "the tool list of an MCP server does not end; the rest is left \
                                   out"
                    )
                }
                Note::LargeSchema(tool) => {
                    warn!(server, tool, "the schema of an MCP tool is too large; it is left out")
                }
                Note::Malformed => {
                    warn!(server, "an MCP tool has no name or no schema; it is left out")
                }
            }
        }
        Ok(listing.tools)
    }

    /// Whether the server answers. That it knows no ping is an answer.
    pub(super) async fn answers(&self, patience: Duration) -> bool {
        let answer = timeout(patience, self.peer.request(McpRequest::Ping)).await;
        matches!(answer, Ok(Ok(_) | Err(RequestFailure::Refused(_))))
    }
}

/// Calls a tool. Dropping the future sends the server a cancellation.
///
/// # Errors
/// The server did not answer, or answered with an error of the protocol.
pub(super) async fn call(
    peer: &Peer,
    tool: &str,
    arguments: &RawValue,
) -> Result<CallOutcome, String> {
    let ask = McpRequest::CallTool { name: tool, arguments };
    let result = peer.request(ask).await.map_err(|error| error.to_string())?;
    CallOutcome::read(&result).map_err(ToOwned::to_owned)
}
