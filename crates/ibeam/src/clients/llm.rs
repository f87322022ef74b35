//! `llm`: models in `extra-openai-models.yaml`, the default model where there is none, and
//! a key only where one is asked for.
//!
//! Facts from llm 0.36.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    Change, ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, YamlSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "llm",
    also: &["simonw-llm"],
    title: "llm",
    programs: &["llm"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: None,
    install: "pipx install llm",
    page: "docs/clients/llm.md",
};

const PLACE: &str = "LLM_USER_PATH";
const MODELS: &str = "extra-openai-models.yaml";
const KEYS: &str = "keys.json";
const DEFAULT: &str = "default_model.txt";
/// What the key is called among the user's, and another name for the default model.
const NAME: &str = "ibeam";

fn folder(machine: &UserMachine) -> PathBuf {
    let own = machine.env(PLACE).map(|path| machine.path(path));
    own.unwrap_or_else(|| machine.app_config().join("io.datasette.llm"))
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let folder = folder(machine);
    let mut sheet = YamlSheet::open(machine, folder.join(MODELS))?;
    fill(&mut sheet, wiring)?;
    let mut changes = vec![sheet.change(false)];
    if !wiring.is_open() {
        let mut keys = JsonSheet::open(machine, folder.join(KEYS))?;
        if keys.has(&[NAME]) {
            return Err(keys.conflict(format!("key `{NAME}`")));
        }
        keys.set(&[NAME], key(wiring))?;
        changes.push(keys.change(true));
    }
    let path = folder.join(DEFAULT);
    let notes = match machine.read(&path)? {
        Some(own) => vec![format!(
            "your default model stays `{}`; `llm -m {NAME}` takes this one",
            own.trim()
        )],
        None => {
            changes.push(Change { path, after: name(&wiring.model), private: false });
            Vec::new()
        }
    };
    Ok(SetupPlan { changes, notes, ..SetupPlan::default() })
}

/// In a folder of its own: there is no other way to name a model for one run. Its log goes
/// there, too, and with it.
fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let mut sheet = YamlSheet::blank(MODELS)?;
    fill(&mut sheet, wiring)?;
    let mut files =
        vec![(MODELS.to_owned(), sheet.text()), (DEFAULT.to_owned(), name(&wiring.model))];
    if !wiring.is_open() {
        files.push((KEYS.to_owned(), json!({ NAME: key(wiring) }).to_string()));
    }
    let env = vec![(PLACE.to_owned(), "{files}".to_owned())];
    Ok(Launch { program: "llm", env, files, ..Launch::default() })
}

fn fill(sheet: &mut YamlSheet, wiring: &Wiring) -> Result<(), UnfitSettings> {
    for model in models(wiring) {
        sheet.push(&[], card(model, wiring))?;
    }
    Ok(())
}

/// Its own names are the same as those of some models here.
fn name(id: &str) -> String {
    format!("{NAME}/{id}")
}

fn card(model: &Offered, wiring: &Wiring) -> Value {
    let mut card = json!({
        "model_id": name(&model.id),
        "model_name": model.id,
        "api_base": v1(wiring),
        "supports_tools": model.tools,
        "vision": model.images,
        "reasoning": model.reasoning,
    });
    if let Some(card) = card.as_object_mut() {
        if model.id == wiring.model {
            card.insert("aliases".to_owned(), json!([NAME]));
        }
        // Without it, it sends a key that says so.
        if !wiring.is_open() {
            card.insert("api_key_name".to_owned(), Value::from(NAME));
        }
    }
    card
}

#[cfg(test)]
#[path = "llm_tests.rs"]
mod tests;
