//! `ibeam mcp`: the MCP servers of the user, their tools, and a call of one.

mod approve;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::{Global, Refusal, UpstreamOptions, block_on, models::align, print, print_json, say};
use ibeam_server::{
    config::{Config, RawConfig},
    mcp::{
        bridge::{Bridge, ListedTool, Output},
        config::{Places, ProjectFile, ServerTransport, gather},
        servers::{Server, ServerState},
    },
    tasks::Tasks,
};

/// For children to end.
const GOODBYE: Duration = Duration::from_secs(6);
/// After this long, the user sees what is waited for.
const QUIET: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
#[command(after_help = "\
Servers are tables of the settings file:

  [mcp]
  enabled = true                        # start them with the gateway; off by default
  [mcp.servers.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv/notes\"]
  use = \"offer\"                         # or \"list\", the default
  allow = [\"read_text_file\", \"list_*\"]  # what models may call

With `mcp.discover = true` ibeam also reads the files of OpenCode, Cursor and Claude Code. A server
found there is listed but not started unless a table has its name. Files in the current
folder are used only after `ibeam mcp approve`, which shows what they would run.

Examples:
  ibeam mcp list
  ibeam mcp list --set mcp.discover=true
  ibeam mcp approve .mcp.json
  ibeam mcp tools files
  ibeam mcp call files read_text_file '{\"path\": \"/srv/notes/a.md\"}'")]
pub(super) struct McpCommand {
    #[command(subcommand)]
    action: McpAction,
}

#[derive(Debug, Subcommand)]
enum McpAction {
    /// List the servers with their source and state
    ///
    /// Starts those that the gateway would start, to check them.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tools of a server, or of all that the gateway would start
    Tools {
        /// The server's name; it is started even if the settings disable it
        server: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result
    ///
    /// Exits with 1 when the tool reports a failure.
    Call {
        /// The server's name; it is started even if the settings disable it
        server: String,
        /// The tool's name at its server
        tool: String,
        /// Its arguments: a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a project's file would run, and approve it
    ///
    /// The approval holds for this path and this content. After a change the file is not
    /// used until it is approved again.
    Approve {
        /// `.mcp.json`, `.cursor/mcp.json`, `opencode.json` or `opencode.jsonc` of a project;
        /// without it, those of the current folder
        file: Option<PathBuf>,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Serialize)]
struct ServerRow {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(rename = "use")]
    used: &'static str,
    kind: &'static str,
    reached: String,
    source: String,
    tools: usize,
    offered: usize,
}

impl McpCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let config = global.load_quietly(RawConfig::default(), &UpstreamOptions::default())?;
        if let McpAction::Approve { file, yes } = &self.action {
            return approve::approve(file.as_deref(), *yes, config.mcp.discover);
        }
        let gathered = gather(&config.mcp, &Places::here());
        let unapproved = gathered.unapproved.clone();
        for warning in &gathered.warnings {
            say(&format!("warning: {warning}"));
        }
        if let McpAction::Call { arguments, .. } = &self.action {
            let read =
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments);
            read.map_err(|error| {
                Refusal::new(format!("the arguments are not a JSON object: {error}"))
            })?;
        }
        block_on(async {
            let tasks = Tasks::new();
            let bridge = Bridge::of(gathered, &config, &tasks);
            let outcome = self.act(&bridge, &unapproved, &config).await;
            drop(bridge);
            tasks.stop();
            tasks.join_within(GOODBYE).await;
            outcome
        })
    }

    async fn act(
        &self,
        bridge: &Bridge,
        unapproved: &[ProjectFile],
        config: &Config,
    ) -> anyhow::Result<ExitCode> {
        match &self.action {
            // Needs none of the servers.
            McpAction::Approve { .. } => {}
            McpAction::List { json } => {
                if config.mcp.enabled {
                    start_named(bridge).await;
                }
                print(&list(bridge, unapproved, *json)?)?;
                if !config.mcp.enabled && !json && bridge.servers().iter().any(|s| s.spec().named) {
                    say("`mcp.enabled` is off, so the gateway starts none of them");
                }
            }
            McpAction::Tools { server, json } => {
                match server {
                    Some(name) => {
                        start(bridge, find(bridge, unapproved, name)?).await?;
                    }
                    None => start_named(bridge).await,
                }
                print(&tools(&bridge.tools(), *json)?)?;
                for server in bridge.servers() {
                    if let ServerState::Down(why) = server.state() {
                        say(&format!("warning: {} is down: {why}", server.spec().name));
                    }
                }
            }
            McpAction::Call { server, tool, arguments, json } => {
                let server = start(bridge, find(bridge, unapproved, server)?).await?;
                if !server.tools().iter().any(|known| known.name == *tool) {
                    let names: Vec<_> = server.tools().iter().map(|t| t.name.clone()).collect();
                    let text = format!("`{}` has no tool `{tool}`", server.spec().name);
                    return Err(Refusal::new(text)
                        .hint(format!("it has: {}", names.join(", ")))
                        .into());
                }
                let what = format!("{} works", server.spec().name);
                let output = patiently(&what, server.call(tool, arguments)).await;
                return called(&output, *json);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn find<'a>(
    bridge: &'a Bridge,
    unapproved: &[ProjectFile],
    name: &str,
) -> anyhow::Result<&'a Arc<Server>> {
    let found = bridge.servers().iter().find(|server| server.spec().name == name);
    let has = |file: &&ProjectFile| file.servers.iter().any(|(server, _)| server == name);
    if let Some(file) = unapproved.iter().find(has).filter(|_| found.is_none()) {
        let text = format!("`{name}` is in {}, which is not approved", file.path.display());
        return Err(Refusal::new(text).hint(format!("run `{}`", file.command())).into());
    }
    let missing = || {
        let names: Vec<_> = bridge.servers().iter().map(|s| s.spec().name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Refusal::new(format!("no MCP server is named `{name}`"))
            .hint(format!("there is: {there}"))
            .hint("`mcp.discover` lets ibeam read the files of other programs")
    };
    Ok(found.ok_or_else(missing)?)
}

/// Starts one server and waits for it.
async fn start<'a>(bridge: &Bridge, server: &'a Arc<Server>) -> anyhow::Result<&'a Arc<Server>> {
    let name = &server.spec().name;
    bridge.start(server);
    patiently(&format!("{name} starts"), server.settled()).await;
    match server.state() {
        ServerState::Ready => Ok(server),
        ServerState::Down(why) => {
            Err(Refusal::new(format!("`{name}` does not work: {why}")).into())
        }
        ServerState::Off | ServerState::Starting => {
            Err(Refusal::new(format!("`{name}` did not start")).into())
        }
    }
}

/// Starts all that the user named.
async fn start_named(bridge: &Bridge) {
    for server in bridge.servers().iter().filter(|server| server.spec().named) {
        bridge.start(server);
    }
    patiently("the servers start", bridge.settled()).await;
}

/// Waits, and says for what when it takes long.
async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut ticks = interval(QUIET);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut waited = Duration::ZERO;
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                waited += QUIET;
                say(&format!("{what} … {} s", waited.as_secs()));
            }
        }
    }
}

fn list(bridge: &Bridge, unapproved: &[ProjectFile], json: bool) -> anyhow::Result<String> {
    let mut rows: Vec<ServerRow> = bridge.servers().iter().map(|server| row(server)).collect();
    rows.extend(unapproved.iter().flat_map(unapproved_rows));
    if json {
        return Ok(serde_json::to_string_pretty(&rows)?);
    }
    if rows.is_empty() {
        return Ok("There are no MCP servers. `ibeam help mcp` shows how to add one.".to_owned());
    }
    let mut table = vec![["NAME", "STATE", "USE", "TOOLS", "REACHED", "FROM"].map(str::to_owned)];
    for row in &rows {
        let tools = match (row.state, row.offered) {
            ("ready", 0) => row.tools.to_string(),
            ("ready", offered) => format!("{}, {offered} offered", row.tools),
            _ => "-".to_owned(),
        };
        table.push([
            row.name.clone(),
            row.state.to_owned(),
            row.used.to_owned(),
            tools,
            row.reached.clone(),
            row.source.clone(),
        ]);
    }
    let mut text = align(&table);
    for row in &rows {
        if let Some(why) = &row.why {
            text.push_str(&format!("\n{} is down: {why}", row.name));
        }
    }
    Ok(text)
}

fn row(server: &Server) -> ServerRow {
    let (spec, state, tools) = (server.spec(), server.state(), server.tools());
    ServerRow {
        name: spec.name.clone(),
        state: state.word(),
        why: match &state {
            ServerState::Down(why) => Some(why.clone()),
            ServerState::Off | ServerState::Starting | ServerState::Ready => None,
        },
        used: match (spec.named, spec.offer) {
            (false, _) => "found",
            (true, false) => "list",
            (true, true) => "offer",
        },
        kind: match &spec.way {
            ServerTransport::Stdio(_) => "stdio",
            ServerTransport::Http(_) => "http",
            ServerTransport::Memory(_) => "memory",
        },
        reached: spec.way.to_string(),
        source: spec.source.display().to_string(),
        tools: tools.len(),
        offered: tools.iter().filter(|tool| spec.offers(&tool.name)).count(),
    }
}

/// Servers of a file that is not used until it is approved.
fn unapproved_rows(file: &ProjectFile) -> impl Iterator<Item = ServerRow> {
    file.servers.iter().map(|(name, _)| ServerRow {
        name: name.escape_debug().to_string(),
        state: "unapproved",
        why: None,
        used: "found",
        kind: "-",
        reached: "-".to_owned(),
        source: file.path.display().to_string(),
        tools: 0,
        offered: 0,
    })
}

fn tools(tools: &[ListedTool], json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(serde_json::to_string_pretty(tools)?);
    }
    let mut table = vec![["NAME", "SERVER", "OFFERED", "DESCRIPTION"].map(str::to_owned)];
    for tool in tools {
        let line = tool.description.lines().next().unwrap_or_default();
        let short = line.get(..line.floor_char_boundary(70)).unwrap_or_default();
        let offered = if tool.offered { "yes" } else { "no" };
        table.push([tool.name.clone(), tool.server.clone(), offered.to_owned(), short.to_owned()]);
    }
    Ok(align(&table))
}

fn called(output: &Output, json: bool) -> anyhow::Result<ExitCode> {
    let (is_error, text) = (output.is_error, output.text());
    if json {
        print_json(&serde_json::json!({ "is_error": is_error, "text": text }))?;
    } else {
        print(&text)?;
    }
    Ok(if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
