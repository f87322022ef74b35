//! OpenCode: the plugin, and its default model where there is none. A gateway elsewhere
//! becomes a provider in its settings, since the plugin starts the one of this machine.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{
    Change, ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "opencode",
    also: &["open-code"],
    title: "OpenCode",
    programs: &["opencode"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine), machine.data_home().join("opencode")],
    plan,
    launch: Some(launch),
    headless: Some(&["run", "-m", "cursor/{model}", "{prompt}"]),
    install: "npm install -g opencode-ai",
    page: "docs/clients/opencode.md",
};

/// As `plugin/opencode` builds it.
const PLUGIN: &str = include_str!("../../assets/opencode-plugin.js");

const ID: &str = "cursor";

fn folder(machine: &UserMachine) -> PathBuf {
    machine.config_home().join("opencode")
}

/// The files that it reads, the one that wins first.
fn files(machine: &UserMachine) -> Vec<PathBuf> {
    let own = machine.env("OPENCODE_CONFIG").map(|path| machine.path(path));
    let names = ["opencode.jsonc", "opencode.json", "config.json"];
    own.into_iter().chain(names.map(|name| folder(machine).join(name))).collect()
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let (mut model, mut provider) = (None, false);
    let mut first = None;
    for path in files(machine) {
        if machine.read(&path)?.is_none() {
            continue;
        }
        let sheet = JsonSheet::open(machine, path)?;
        model = model.or_else(|| sheet.get(&["model"]));
        if sheet.has(&["provider", ID]) {
            if !wiring.local {
                return Err(sheet.conflict(format!("`provider.{ID}`")));
            }
            provider = true;
        }
        first.get_or_insert(sheet);
    }
    let mut plan = SetupPlan::default();
    if wiring.local {
        let path = folder(machine).join("plugin").join("ibeam.js");
        plan.changes.push(Change { path, after: PLUGIN.to_owned(), private: false });
        if provider {
            plan.notes.push(format!("your own `provider.{ID}` stays; the plugin adds to it"));
        }
    }
    if let Some(own) = model.as_ref().and_then(Value::as_str) {
        plan.notes.push(format!("your model stays `{own}`; `/models` in OpenCode changes it"));
    }
    if model.is_some() && wiring.local && wiring.args.is_empty() {
        return Ok(plan);
    }
    let mut sheet = match first {
        Some(sheet) => sheet,
        None => JsonSheet::open(machine, folder(machine).join("opencode.json"))?,
    };
    fill(&mut sheet, wiring, model.is_none())?;
    plan.changes.push(sheet.change(!wiring.local && !wiring.is_open()));
    Ok(plan)
}

fn fill(sheet: &mut JsonSheet, wiring: &Wiring, model: bool) -> Result<(), UnfitSettings> {
    if sheet.is_blank() {
        sheet.set(&["$schema"], "https://opencode.ai/config.json")?;
    }
    if model {
        sheet.set(&["model"], format!("{ID}/{}", wiring.model))?;
    }
    if !wiring.local {
        sheet.set(&["provider", ID], block(wiring))?;
    } else if !wiring.args.is_empty() {
        // The plugin starts a gateway by itself: it is to be the one that was meant.
        sheet.set(&["provider", ID, "options", "args"], wiring.args.clone())?;
    }
    Ok(())
}

fn block(wiring: &Wiring) -> Value {
    let models: Map<String, Value> =
        wiring.models.iter().map(|model| (model.id.clone(), card(model))).collect();
    json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Cursor",
        "options": { "baseURL": v1(wiring), "apiKey": key(wiring) },
        "models": models,
    })
}

fn card(model: &Offered) -> Value {
    let input: &[&str] = if model.images { &["text", "image"] } else { &["text"] };
    let mut card = json!({
        "name": model.name,
        "tool_call": model.tools,
        "reasoning": model.reasoning,
        "attachment": model.images,
        "modalities": { "input": input, "output": ["text"] },
        "limit": { "context": model.context, "output": model.output },
    });
    if !model.efforts.is_empty() {
        let effort = |name: &String| (name.clone(), json!({ "reasoningEffort": name }));
        let variants: Map<String, Value> = model.efforts.iter().map(effort).collect();
        if let Some(card) = card.as_object_mut() {
            card.insert("variants".to_owned(), Value::Object(variants));
        }
    }
    card
}

/// A provider in a variable: nothing is started by OpenCode, and no plugin is installed.
fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let content = json!({
        "provider": { ID: block(wiring) },
        "model": format!("{ID}/{}", wiring.model),
    });
    let env = vec![("OPENCODE_CONFIG_CONTENT".to_owned(), content.to_string())];
    Ok(Launch { program: "opencode", env, ..Launch::default() })
}

#[cfg(test)]
#[path = "opencode_tests.rs"]
mod tests;
