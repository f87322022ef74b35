//! Servers that run: each has a task that starts it, follows its list of tools, and starts
//! it again when it dies.

use std::{collections::VecDeque, sync::Arc, time::Duration};

pub use ibeam_core::mcp::client::ToolInfo;
use parking_lot::Mutex;
use serde_json::{Map, Value, value::to_raw_value};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{client, config::ServerSpec, http::HttpContext, output::ToolOutput, peer::ServerPeer};

/// Between checks that a server still answers, and how long an answer may take.
const PING_AFTER: Duration = Duration::from_secs(60);
const PING_PATIENCE: Duration = Duration::from_secs(15);
/// Between starts. Each wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A server that ran this long was healthy, and the delays start again.
const WELL: Duration = Duration::from_secs(120);
/// Starts in an hour. A server that needs more is broken.
const STARTS: usize = 40;
const HOUR: Duration = Duration::from_secs(3600);
/// Arguments that no tool takes.
const NO_OBJECT: &str = "its arguments are not a JSON object";
/// Calls of one server at once; others wait.
const CALLS: usize = 16;

/// The state of a server.
#[derive(Clone, Debug)]
pub enum ServerState {
    /// The user did not allow it to be started.
    Off,
    Starting,
    Ready,
    /// It will be started again.
    Down(String),
}

impl ServerState {
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Down(_) => "down",
        }
    }
}

#[derive(Debug)]
struct ServerNow {
    state: ServerState,
    peer: Option<ServerPeer>,
    /// The last known ones: those of a server that is started again are not forgotten.
    tools: Arc<[ToolInfo]>,
}

/// One server.
#[derive(Debug)]
pub struct BridgedServer {
    spec: ServerSpec,
    now: Mutex<ServerNow>,
    /// Whether the first start has come to an end, good or bad.
    settled: watch::Sender<bool>,
    calls: Semaphore,
}

impl BridgedServer {
    pub(super) fn new(spec: ServerSpec) -> Self {
        let now = ServerNow { state: ServerState::Off, peer: None, tools: Arc::default() };
        Self {
            spec,
            now: Mutex::new(now),
            settled: watch::Sender::new(true),
            calls: Semaphore::new(CALLS),
        }
    }

    #[must_use]
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    #[must_use]
    pub fn state(&self) -> ServerState {
        self.now.lock().state.clone()
    }

    #[must_use]
    pub fn tools(&self) -> Arc<[ToolInfo]> {
        Arc::clone(&self.now.lock().tools)
    }

    /// Waits until the first start has come to an end.
    pub async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // The sender lives as long as the server.
        let _ = settled.wait_for(|settled| *settled).await;
    }

    pub(super) fn start(
        self: &Arc<Self>,
        web: &HttpContext,
        patience: Duration,
        stop: CancellationToken,
    ) {
        self.settled.send_replace(false);
        self.now.lock().state = ServerState::Starting;
        let (server, stopping) = (Arc::clone(self), web.tasks.stopped());
        let web = web.clone();
        web.tasks.clone().spawn("mcp server", async move {
            tokio::select! {
                () = server.tend(&web, patience) => {}
                () = stop.cancelled() => {}
                () = stopping => {}
            }
            server.settled.send_replace(true);
        });
    }

    async fn tend(&self, web: &HttpContext, patience: Duration) {
        let mut starts = StartHistory::default();
        loop {
            let began = Instant::now();
            let why = self.live(web, patience).await;
            let wait = starts.wait(began, Instant::now());
            warn!(
                server = self.spec.name,
                wait_s = wait.as_secs(),
                "an MCP server is down and will be started again: {why}"
            );
            {
                let mut now = self.now.lock();
                now.state = ServerState::Down(why);
                now.peer = None;
            }
            self.settled.send_replace(true);
            sleep(wait).await;
            self.now.lock().state = ServerState::Starting;
        }
    }

    /// Runs the server once. Returns why it ended.
    async fn live(&self, web: &HttpContext, patience: Duration) -> String {
        let name = self.spec.name.as_str();
        let started = timeout(patience, async {
            let client = client::connect(&self.spec, web).await?;
            let tools = client.list_tools(name).await?;
            Ok::<_, String>((client, tools))
        });
        let (client, tools) = match started.await {
            Ok(Ok(started)) => started,
            Ok(Err(why)) => return why,
            Err(_elapsed) => return format!("it was not ready within {} s", patience.as_secs()),
        };
        info!(server = name, tools = tools.len(), "an MCP server is ready");
        {
            let mut now = self.now.lock();
            now.state = ServerState::Ready;
            now.peer = Some(client.peer.clone());
            now.tools = tools.into();
        }
        self.settled.send_replace(true);
        loop {
            tokio::select! {
                () = client.peer.over() => {
                    let said = match &client.hold {
                        Some(hold) => hold.complaint().await,
                        None => None,
                    };
                    return match said {
                        Some(said) => format!("it exited; it said: {said}"),
                        None => "it exited".to_owned(),
                    };
                }
                () = client.peer.changed() => {
                    match timeout(patience, client.list_tools(name)).await {
                        Ok(Ok(tools)) => {
                            debug!(server = name, tools = tools.len(), "the tools of an MCP server changed");
                            self.now.lock().tools = tools.into();
                        }
                        Ok(Err(why)) => return why,
                        Err(_elapsed) => return "it did not list its tools in time".to_owned(),
                    }
                }
                () = sleep(PING_AFTER) => {
                    if !client.answers(PING_PATIENCE).await {
                        return "it does not answer any more".to_owned();
                    }
                }
            }
        }
    }

    /// Calls a tool, within the server's limits. `arguments` is JSON text.
    pub async fn call(&self, tool: &str, arguments: &str) -> ToolOutput {
        let began = Instant::now();
        let (output, word) = match timeout(self.spec.timeout, self.try_call(tool, arguments)).await
        {
            Ok(Ok(output)) => {
                let word = if output.is_error { "error" } else { "ok" };
                (output, word)
            }
            Ok(Err(why)) => {
                (ToolOutput::error(format!("The tool was not called: {why}.")), "failed")
            }
            Err(_elapsed) => {
                let text = format!(
                    "The tool did not return a result within {} s.",
                    self.spec.timeout.as_secs()
                );
                (ToolOutput::error(text), "timeout")
            }
        };
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(server = self.spec.name, tool, ms, outcome = word, "called an MCP tool");
        output
    }

    async fn try_call(&self, tool: &str, arguments: &str) -> Result<ToolOutput, String> {
        let arguments: Map<String, Value> = match arguments.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text).map_err(|_| NO_OBJECT)?,
        };
        // Serialized again without line ends: a pipe has one message to a line.
        let arguments = to_raw_value(&Value::Object(arguments)).map_err(|_| NO_OBJECT)?;
        let _place = self.calls.acquire().await.map_err(|_| "the server is gone")?;
        let peer = self.now.lock().peer.clone();
        let Some(peer) = peer else {
            return Err(match self.state() {
                ServerState::Down(why) => format!("the server is down: {why}"),
                state => format!("the server is {}", state.word()),
            });
        };
        let result = client::call(&peer, tool, &arguments).await?;
        Ok(ToolOutput::of(result, self.spec.output))
    }
}

/// Computes when a server is started again.
#[derive(Debug, Default)]
struct StartHistory {
    /// Of the last hour.
    recent: VecDeque<Instant>,
    /// Failed ones in a row.
    failed: u32,
}

impl StartHistory {
    /// The wait before the next start, for a life from `began` to `ended`.
    fn wait(&mut self, began: Instant, ended: Instant) -> Duration {
        while self.recent.front().is_some_and(|start| ended - *start >= HOUR) {
            self.recent.pop_front();
        }
        self.recent.push_back(began);
        self.failed = if ended - began >= WELL { 0 } else { self.failed + 1 };
        let doubled = FIRST_WAIT.saturating_mul(1 << self.failed.saturating_sub(1).min(16));
        let wait = doubled.min(LONGEST_WAIT);
        match self.recent.front() {
            Some(first) if self.recent.len() >= STARTS => wait.max((*first + HOUR) - ended),
            _ => wait,
        }
    }
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
