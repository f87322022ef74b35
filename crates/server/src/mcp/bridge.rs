//! All MCP servers of the user: the tools they have, which of them are offered to models, and which
//! server each call goes to.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ibeam_core::model::Tool;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

pub use super::output::ToolOutput;
use super::{
    config::{GatheredServers, SearchPaths, ServerSpec, gather},
    http::HttpContext,
    names::{self, ToolOrigin},
    servers::{BridgedServer, ServerState, ToolInfo},
};
use crate::{config::Config, net::tls::Tls, tasks::Tasks};

/// Clones share the servers. They end with the last of them.
#[derive(Clone, Debug, Default)]
pub struct Bridge(Option<Arc<BridgeInner>>);

#[derive(Debug)]
struct BridgeInner {
    servers: Vec<Arc<BridgedServer>>,
    web: HttpContext,
    start: Duration,
    stop: CancellationToken,
    _end: DropGuard,
}

/// A tool as `/v1/tools` shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    pub id: String,
    pub name: String,
    pub server: String,
    pub description: String,
    #[serde(serialize_with = "shared")]
    pub input_schema: Arc<RawValue>,
    /// Whether models are offered it.
    #[serde(skip)]
    pub offered: bool,
}

fn shared<S: Serializer>(schema: &Arc<RawValue>, serializer: S) -> Result<S::Ok, S::Error> {
    schema.as_ref().serialize(serializer)
}

/// The bridged tools of one turn: the names that the model sees, and the server behind each.
#[derive(Clone, Debug, Default)]
pub struct OfferedTools {
    tools: BTreeMap<String, (Arc<BridgedServer>, String)>,
}

impl OfferedTools {
    #[must_use]
    pub fn names(&self) -> HashSet<String> {
        self.tools.keys().cloned().collect()
    }

    /// Calls the tool of this name.
    pub async fn call(&self, name: &str, arguments: &str) -> ToolOutput {
        match self.tools.get(name) {
            Some((server, tool)) => server.call(tool, arguments).await,
            None => ToolOutput::error("There is no such tool."),
        }
    }
}

impl Bridge {
    /// The servers of the settings, with those started that the user wants.
    #[must_use]
    pub fn new(config: &Config, tasks: &Tasks) -> Self {
        if !config.mcp.enabled {
            return Self::default();
        }
        let gathered = gather(&config.mcp, &SearchPaths::here());
        for warning in &gathered.warnings {
            warn!("{warning}");
        }
        let bridge = Self::of(gathered, config, tasks);
        for server in bridge.servers().iter().filter(|server| server.spec().named) {
            bridge.start(server);
        }
        bridge
    }

    /// The same with nothing started.
    #[must_use]
    pub fn of(gathered: GatheredServers, config: &Config, tasks: &Tasks) -> Self {
        let stop = CancellationToken::new();
        Self(Some(Arc::new(BridgeInner {
            servers: gathered
                .servers
                .into_iter()
                .map(|spec| Arc::new(BridgedServer::new(spec)))
                .collect(),
            web: HttpContext {
                tls: Arc::new(Tls::new(config.upstream.ca_file.clone())),
                connect: config.clocks.connect,
                tasks: tasks.clone(),
            },
            start: config.mcp.start,
            stop: stop.clone(),
            _end: stop.drop_guard(),
        })))
    }

    /// Those of a list, started at once.
    #[must_use]
    pub fn started(servers: Vec<ServerSpec>, config: &Config, tasks: &Tasks) -> Self {
        let bridge =
            Self::of(GatheredServers { servers, ..GatheredServers::default() }, config, tasks);
        for server in bridge.servers() {
            bridge.start(server);
        }
        bridge
    }

    /// Starts a server of this bridge.
    pub fn start(&self, server: &Arc<BridgedServer>) {
        if let Some(inner) = &self.0 {
            server.start(&inner.web, inner.start, inner.stop.clone());
        }
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    #[must_use]
    pub fn servers(&self) -> &[Arc<BridgedServer>] {
        self.0.as_ref().map_or(&[], |inner| &inner.servers)
    }

    /// Servers that are ready.
    #[must_use]
    pub fn connected(&self) -> usize {
        let ready = |server: &&Arc<BridgedServer>| matches!(server.state(), ServerState::Ready);
        self.servers().iter().filter(ready).count()
    }

    /// Waits until every server that is being started is ready or has failed.
    pub async fn settled(&self) {
        for server in self.servers() {
            server.settled().await;
        }
    }

    /// Every tool of every server, by name.
    #[must_use]
    pub fn tools(&self) -> Vec<ListedTool> {
        let rows = self.table().into_iter().map(|(id, (server, tool))| ListedTool {
            id,
            offered: server.spec().offers(&tool.name),
            server: server.spec().name.clone(),
            name: tool.name,
            description: tool.description,
            input_schema: tool.schema,
        });
        rows.collect()
    }

    /// Adds the tools to `tools` that models may be offered. The client's own tools take
    /// precedence: a name that it uses is left out.
    pub async fn offer(&self, tools: &mut Vec<Tool>) -> Option<OfferedTools> {
        // Other tools make another conversation, so no turn starts before they are known.
        let mut any = false;
        for server in self.servers() {
            if server.spec().offer {
                any = true;
                server.settled().await;
            }
        }
        if !any {
            return None;
        }
        let mut offer = OfferedTools::default();
        for (id, (server, tool)) in self.table() {
            if !server.spec().offers(&tool.name) {
                continue;
            }
            if tools.iter().any(|own| own.name == id) {
                warn!(
                    tool = id,
                    "the client has a tool of the same name; the MCP server's is not offered"
                );
                continue;
            }
            let ToolInfo { name, description, schema } = tool;
            let schema = RawValue::from_string(schema.get().to_owned()).ok();
            tools.push(Tool { name: id.clone(), description, schema });
            offer.tools.insert(id, (server, name));
        }
        (!offer.tools.is_empty()).then_some(offer)
    }

    fn table(&self) -> BTreeMap<String, (Arc<BridgedServer>, ToolInfo)> {
        let mut all = BTreeMap::new();
        for server in self.servers() {
            for tool in server.tools().iter() {
                let origin =
                    ToolOrigin { server: server.spec().name.clone(), tool: tool.name.clone() };
                all.entry(origin).or_insert_with(|| (Arc::clone(server), tool.clone()));
            }
        }
        let names = names::table(all.keys().cloned());
        let named =
            names.into_iter().filter_map(|(name, origin)| Some((name, all.remove(&origin)?)));
        named.collect()
    }
}
