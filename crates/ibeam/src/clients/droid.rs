//! Factory Droid: models of one's own in its `settings.json`. For a run, a file of settings
//! that it lays over the user's.
//!
//! Facts from Factory's documentation of 2026; the fields that it lists not, which Droid
//! itself writes, from public tools that set them. `config.json` is the older form.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "droid",
    also: &["factory", "factory-droid"],
    title: "Factory Droid",
    programs: &["droid"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: None,
    install: "curl -fsSL https://app.factory.ai/cli | sh",
    page: "docs/clients/droid.md",
};

const MODELS: &str = "customModels";
/// It puts the values of variables into keys.
const VARIABLE: &str = "IBEAM_CLIENT_KEY";

fn folder(machine: &UserMachine) -> PathBuf {
    machine.home().join(".factory")
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut sheet = JsonSheet::open(machine, folder(machine).join("settings.json"))?;
    let own = sheet.get(&[MODELS]).and_then(|own| own.as_array().cloned()).unwrap_or_default();
    if own.iter().any(|model| is_ours(model, wiring)) {
        return Err(sheet.conflict(format!("`{MODELS}` with {}", wiring.url)));
    }
    let taken = own.iter().filter_map(|model| model.get("index")?.as_u64()).max();
    let first = taken.map_or(own.len() as u64, |index| index + 1);
    for (model, index) in models(wiring).zip(first..) {
        sheet.push(&[MODELS], card(model, index, &v1(wiring), key(wiring)))?;
    }
    let id = id(&wiring.model);
    let notes = vec![format!("choose it with `/model`, or `droid exec -m {id} …`")];
    Ok(SetupPlan { changes: vec![sheet.change(!wiring.is_open())], notes, ..SetupPlan::default() })
}

fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let reference = format!("${{{VARIABLE}}}");
    let models: Vec<_> = models(wiring)
        .zip(0..)
        .map(|(model, index)| card(model, index, &v1(wiring), &reference))
        .collect();
    let settings = json!({ "model": id(&wiring.model), MODELS: models });
    Ok(Launch {
        program: "droid",
        // Before a subcommand, which would not know it.
        args: vec!["--settings".into(), "{files}/settings.json".into()],
        env: vec![(VARIABLE.to_owned(), key(wiring).to_owned())],
        without: vec!["FACTORY_RUNTIME_SETTINGS_PATH"],
        files: vec![("settings.json".to_owned(), settings.to_string())],
    })
}

fn is_ours(model: &Value, wiring: &Wiring) -> bool {
    let at = |name: &str| model.get(name).and_then(Value::as_str).unwrap_or_default();
    at("baseUrl").trim_end_matches('/') == v1(wiring)
        || models(wiring).any(|model| at("id") == id(&model.id))
}

fn id(model: &str) -> String {
    format!("custom:ibeam-{model}")
}

fn card(model: &Offered, index: u64, url: &str, key: &str) -> Value {
    json!({
        "model": model.id,
        "id": id(&model.id),
        "index": index,
        "displayName": format!("{} (ibeam)", model.name),
        "baseUrl": url,
        "apiKey": key,
        "provider": "generic-chat-completion-api",
        "maxOutputTokens": model.output,
        "maxContextLimit": model.context,
        "noImageSupport": !model.images,
    })
}

#[cfg(test)]
#[path = "droid_tests.rs"]
mod tests;
