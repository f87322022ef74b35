//! pi: a provider in its `models.json`. For a run, an extension registers the same.
//!
//! Facts from pi 0.87.1. Its `settings.json`, which has the default model, is written by pi
//! itself with every start, and is left to it.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "pi",
    also: &["pi-coding-agent"],
    title: "pi",
    programs: &["pi"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: Some(&["-p", "--no-session", "--model", "ibeam/{model}", "{prompt}"]),
    install: "npm install -g @earendil-works/pi-coding-agent",
    page: "docs/clients/pi.md",
};

pub(super) const ID: &str = "ibeam";

/// How pi calls the efforts that a model may have.
const LEVELS: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];

fn folder(machine: &UserMachine) -> PathBuf {
    machine.folder("PI_CODING_AGENT_DIR", &[".pi", "agent"])
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut sheet = JsonSheet::open(machine, folder(machine).join("models.json"))?;
    if sheet.has(&["providers", ID]) {
        return Err(sheet.conflict(format!("`providers.{ID}`")));
    }
    sheet.set(&["providers", ID], provider(wiring, levels))?;
    let notes = vec![format!(
        "`pi --model {ID}/{}` starts with it; `/model` in pi chooses, and Ctrl+S there keeps it",
        wiring.model
    )];
    Ok(SetupPlan { changes: vec![sheet.change(!wiring.is_open())], notes, ..SetupPlan::default() })
}

fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    Ok(by_extension("pi", &provider(wiring, levels), &wiring.model))
}

/// A start with an extension that registers a provider: no file of the user's changes, and
/// theirs stay in use.
pub(super) fn by_extension(program: &'static str, provider: &Value, model: &str) -> Launch {
    let text = format!("export default (pi) => pi.registerProvider(\"{ID}\", {provider});\n");
    let flags = ["--extension", "{files}/ibeam.js", "--model"].map(Into::into);
    let args = flags.into_iter().chain([format!("{ID}/{model}").into()]).collect();
    Launch { program, args, files: vec![("ibeam.js".to_owned(), text)], ..Launch::default() }
}

/// What pi and its kin take for a provider. `more` is what each says of a model besides.
pub(super) fn provider(wiring: &Wiring, more: fn(&Offered) -> Map<String, Value>) -> Value {
    let models: Vec<_> = models(wiring)
        .map(|model| {
            let mut card = card(model);
            card.extend(more(model));
            card
        })
        .collect();
    json!({
        "baseUrl": v1(wiring),
        "api": "openai-completions",
        "apiKey": key(wiring),
        "models": models,
    })
}

fn card(model: &Offered) -> Map<String, Value> {
    let input: &[&str] = if model.images { &["text", "image"] } else { &["text"] };
    let free = json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 });
    let pairs = [
        ("id", Value::from(model.id.as_str())),
        ("name", Value::from(model.name.as_str())),
        ("reasoning", Value::from(model.reasoning)),
        ("input", Value::from(input)),
        ("contextWindow", Value::from(model.context)),
        ("maxTokens", Value::from(model.output)),
        ("cost", free),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The levels that the model does not have, so that pi does not offer them.
fn levels(model: &Offered) -> Map<String, Value> {
    if !model.reasoning || model.efforts.is_empty() {
        return Map::new();
    }
    let lacking = LEVELS.into_iter().filter(|level| !model.efforts.iter().any(|own| own == level));
    let lacking: Map<String, Value> =
        lacking.map(|level| (level.to_owned(), Value::Null)).collect();
    Map::from_iter([("thinkingLevelMap".to_owned(), Value::Object(lacking))])
}

#[cfg(test)]
#[path = "pi_tests.rs"]
mod tests;
