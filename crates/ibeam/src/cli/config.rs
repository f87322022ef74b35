//! `ibeam config show`: every setting, its value and where that comes from.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Global, Refusal, models::align, print, say};
use ibeam_server::config::{RawConfig, Resolution, default_path};

#[derive(Debug, Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Print every setting with its value and origin; secrets are masked
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct ConfigValue<'a> {
    value: serde_json::Value,
    origin: &'a str,
}

/// Tables, which are not settings of one value.
const SERVERS: &str = "mcp.servers";

impl ConfigCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<()> {
        let ConfigAction::Show { json } = self.action;
        let resolution = global.resolve(RawConfig::default());
        print(&show(&resolution, json)?)?;
        for warning in &resolution.warnings {
            say(&format!("warning: {warning}"));
        }
        if resolution.problems.is_empty() {
            return Ok(());
        }
        Err(Refusal::settings("some of these settings are invalid", &resolution.problems).into())
    }
}

fn show(resolution: &Resolution, json: bool) -> anyhow::Result<String> {
    if json {
        let mut map: BTreeMap<&str, ConfigValue<'_>> = resolution
            .shown
            .iter()
            .map(|shown| (shown.name, ConfigValue { value: shown.json(), origin: &shown.origin }))
            .collect();
        let names: Vec<&str> = resolution.config.mcp.servers.keys().map(String::as_str).collect();
        map.insert(SERVERS, ConfigValue { value: names.into(), origin: "file" });
        return Ok(serde_json::to_string_pretty(&map)?);
    }
    let mut table = vec![["SETTING", "VALUE", "FROM"].map(str::to_owned)];
    for shown in &resolution.shown {
        let value = if shown.value.is_empty() { "-" } else { &shown.value };
        table.push([shown.name.to_owned(), value.to_owned(), shown.origin.clone()]);
    }
    let mut text = align(&table);
    let servers: Vec<&str> = resolution.config.mcp.servers.keys().map(String::as_str).collect();
    if !servers.is_empty() {
        text.push_str(&format!("\n\n[{SERVERS}] has {}; see `ibeam mcp list`", servers.join(", ")));
    }
    if let Some(path) = default_path() {
        text.push_str(&format!("\n\nThe default file is {}", path.display()));
    }
    Ok(text)
}
