//! `ibeam models`: what the plan has, as a table or as JSON.

use clap::Args;
use ibeam_core::models::{ModelInfo, ModelList};
use ibeam_sim::{Scenario, Sim, SimConfig};
use serde::Serialize;

use super::{Global, UpstreamOptions, block_on, print, require_account};
use ibeam_server::{
    app::App,
    config::{Backend, RawConfig},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
A name may carry an effort: `gpt-5.4:high`, or `gpt-5.4[fast=true]` for other controls.
Clients that ask for a name you do not have, such as `gpt-4o` or `claude-3-5-haiku-20241022`, get
the newest of that kind; `--aliases` shows which. A date after a name that you have is ignored.

Examples:
  ibeam models
  ibeam models --aliases
  ibeam models --aliases --json
  ibeam models --json | jq -r '.[].id'
  ibeam models --sim")]
pub(super) struct ModelsCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also list ids that include an effort or other controls
    #[arg(long)]
    all: bool,
    /// Show which model each well-known name stands for
    #[arg(long)]
    aliases: bool,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

#[derive(Serialize)]
struct ModelRow<'a> {
    id: &'a str,
    name: &'a str,
    owner: &'static str,
    context_window: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_context_window: Option<u32>,
    output_limit: u32,
    thinking: bool,
    images: bool,
    aliases: &'a [String],
    parameters: &'a [ibeam_core::models::ParameterInfo],
}

impl ModelsCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<()> {
        let mut config = global.load_quietly(RawConfig::default(), &self.upstream)?;
        require_account(&mut config)?;
        block_on(async {
            let tasks = Tasks::new();
            let sim = match &config.backend {
                Backend::Cursor => None,
                Backend::Sim { scenario: Some(path) } => {
                    Some(Sim::new(SimConfig::scenario(Scenario::from_path(path)?)))
                }
                Backend::Sim { scenario: None } => Some(Sim::default()),
            };
            let app = App::new(config, sim.as_ref(), &tasks)?;
            let models = app.model_list().await?;
            let text =
                if self.aliases { self.aliases(&models.list)? } else { self.list(&models.list)? };
            print(&text)
        })
    }

    fn shown<'a>(&self, list: &'a ModelList) -> impl Iterator<Item = &'a ModelInfo> {
        let all = self.all;
        list.models().iter().filter(move |model| all || !model.hidden)
    }

    fn list(&self, list: &ModelList) -> anyhow::Result<String> {
        if self.json {
            let rows: Vec<ModelRow<'_>> = self.shown(list).map(row).collect();
            return Ok(serde_json::to_string_pretty(&rows)?);
        }
        let mut table =
            vec![["ID", "CONTEXT", "OUTPUT", "CAN", "EFFORTS", "NAME"].map(str::to_owned)];
        for model in self.shown(list) {
            let can = match (model.thinking, model.images) {
                (true, true) => "think, see",
                (true, false) => "think",
                (false, true) => "see",
                (false, false) => "",
            };
            table.push([
                model.public_id().to_owned(),
                thousands(model.context_window),
                thousands(model.output_limit),
                can.to_owned(),
                model.efforts().collect::<Vec<_>>().join(" "),
                model.name.clone(),
            ]);
        }
        Ok(align(&table))
    }

    fn aliases(&self, list: &ModelList) -> anyhow::Result<String> {
        let rows = list.aliases();
        if self.json {
            let map: std::collections::BTreeMap<_, _> = rows.into_iter().collect();
            return Ok(serde_json::to_string_pretty(&map)?);
        }
        let mut table = vec![["NAME", "MEANS"].map(str::to_owned)];
        table.extend(rows.into_iter().map(|(alias, target)| [alias, target]));
        Ok(align(&table))
    }
}

fn row(model: &ModelInfo) -> ModelRow<'_> {
    ModelRow {
        id: model.public_id(),
        name: &model.name,
        owner: model.owner(),
        context_window: model.context_window,
        max_context_window: model.max_context_window,
        output_limit: model.output_limit,
        thinking: model.thinking,
        images: model.images,
        aliases: &model.aliases,
        parameters: &model.parameters,
    }
}

fn thousands(tokens: u32) -> String {
    if tokens >= 1000 { format!("{}k", tokens / 1000) } else { tokens.to_string() }
}

/// Columns as wide as their widest cell, two spaces between them.
pub(super) fn align<const N: usize>(table: &[[String; N]]) -> String {
    let width = |column: usize| {
        table
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    table.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let table = [["A", "B"], ["long", "x"], ["ä", "yy"]].map(|row| row.map(str::to_owned));
        assert_eq!(align(&table), "A     B\nlong  x\nä     yy");
    }

    #[test]
    fn lists_as_text_and_json() {
        let list =
            ModelList::new(vec![ModelInfo::from_id("default"), ModelInfo::from_id("gpt-5.5")]);
        let command = ModelsCommand {
            json: false,
            all: false,
            aliases: false,
            upstream: UpstreamOptions::default(),
        };
        let text = command.list(&list).unwrap();
        assert!(text.contains("auto     200k     32k"), "{text}");
        let json = ModelsCommand { json: true, ..command };
        let value: serde_json::Value = serde_json::from_str(&json.list(&list).unwrap()).unwrap();
        assert_eq!(value[1]["context_window"], 272_000);
        let aliases: serde_json::Value =
            serde_json::from_str(&json.aliases(&list).unwrap()).unwrap();
        assert_eq!(aliases["gpt-4o"], "gpt-5.5");
        assert_eq!(aliases["claude-3-5-haiku-20241022"], "auto", "the plan has none of them");
    }
}
