//! Cline: what `cline auth` would write. Its extensions for editors keep their settings in
//! other places and forms, which change; for those the plan says what to enter.
//!
//! Facts from Cline's CLI 3.0.65. A provider of a name of our own is refused there, so it
//! is the one that every compatible server shares. `updatedAt` must be a time, and is
//! renewed with every start.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    ClientApi, ClientSpec, Launch, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "cline",
    also: &["cline-cli"],
    title: "Cline",
    programs: &["cline"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: None,
    install: "npm install -g cline",
    page: "docs/clients/cline.md",
};

const PROVIDER: &str = "openai-compatible";
const LAST: &str = "lastUsedProvider";
/// Any time will do, and one that does not change keeps a second setup from changing it.
const SINCE: &str = "2026-01-01T00:00:00.000Z";
const PLACE: &str = "CLINE_PROVIDER_SETTINGS_PATH";

fn folder(machine: &UserMachine) -> PathBuf {
    machine.folder("CLINE_DIR", &[".cline"])
}

fn settings(machine: &UserMachine) -> PathBuf {
    if let Some(path) = machine.env(PLACE) {
        return machine.path(path);
    }
    let data = machine.env("CLINE_DATA_DIR").map(|path| machine.path(path));
    data.unwrap_or_else(|| folder(machine).join("data")).join("settings").join("providers.json")
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let path = settings(machine);
    let mut sheet = JsonSheet::open(machine, path.clone())?;
    let wanted = provider(wiring);
    let own = sheet.get(&["providers", PROVIDER, "settings"]);
    if own.as_ref().is_some_and(|own| *own != wanted) {
        return Err(sheet.conflict(format!("`providers.{PROVIDER}`")));
    }
    let mut notes = Vec::new();
    if let Some(Value::String(last)) = sheet.get(&[LAST])
        && last != PROVIDER
    {
        notes.push(format!("it used `{last}` until now; `cline -P {last}` still does"));
    }
    if own.is_none() {
        fill(&mut sheet, &wanted)?;
    }
    notes.push(format!(
        "in VS Code and other editors, enter it in Cline's settings: API Provider `OpenAI \
         Compatible`, Base URL `{}`, API Key `{}`, Model ID `{}`",
        v1(wiring),
        // It is shown on a screen.
        if wiring.is_open() { key(wiring) } else { "the one in this file" },
        wiring.model,
    ));
    let changes = vec![sheet.change(true)];
    Ok(SetupPlan { changes, notes, ..SetupPlan::default() })
}

/// Settings of its own for the run: it would write its state into those of the user.
fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let mut sheet = JsonSheet::blank("providers.json")?;
    fill(&mut sheet, &provider(wiring))?;
    Ok(Launch {
        program: "cline",
        env: vec![(PLACE.to_owned(), "{files}/providers.json".to_owned())],
        files: vec![("providers.json".to_owned(), sheet.text())],
        ..Launch::default()
    })
}

fn fill(sheet: &mut JsonSheet, settings: &Value) -> Result<(), UnfitSettings> {
    // A file without these is no file of settings to it, and is not read.
    if !sheet.has(&["version"]) {
        sheet.set(&["version"], 1)?;
    }
    sheet.set(&[LAST], PROVIDER)?;
    if !sheet.has(&["modes"]) {
        sheet.set(&["modes"], json!({}))?;
    }
    let entry = json!({ "settings": settings, "updatedAt": SINCE, "tokenSource": "manual" });
    sheet.set(&["providers", PROVIDER], entry)
}

fn provider(wiring: &Wiring) -> Value {
    json!({
        "provider": PROVIDER,
        "baseUrl": v1(wiring),
        "apiKey": key(wiring),
        "model": wiring.model,
    })
}

#[cfg(test)]
#[path = "cline_tests.rs"]
mod tests;
