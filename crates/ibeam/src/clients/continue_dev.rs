//! Continue: the models of `config.yaml`, which its extensions and its command line read.
//!
//! Facts from Continue's command line 1.5.47 and the reference of its settings.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{YamlSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "continue",
    also: &["cn", "continue-dev", "continue.dev"],
    title: "Continue",
    programs: &["cn"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: Some(&["-p", "--readonly", "{prompt}"]),
    install: "npm install -g @continuedev/cli",
    page: "docs/clients/continue.md",
};

const SETTINGS: &str = "config.yaml";
/// The format before. It is not read any more once the newer file is there.
const OLDER: [&str; 2] = ["config.json", "config.ts"];
/// What a run keeps of the user's settings.
const KEPT: [&str; 6] = ["rules", "mcpServers", "prompts", "context", "docs", "data"];

fn folder(machine: &UserMachine) -> PathBuf {
    machine.folder("CONTINUE_GLOBAL_DIR", &[".continue"])
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let path = folder(machine).join(SETTINGS);
    if !machine.is_there(&path)
        && let Some(older) =
            OLDER.map(|name| folder(machine).join(name)).into_iter().find(|at| machine.is_there(at))
    {
        let what = format!("settings, which a new {SETTINGS} would hide");
        return Err(UnfitSettings::Conflict { path: older, what });
    }
    let mut sheet = YamlSheet::open(machine, path)?;
    let mut notes = Vec::new();
    if sheet.get(&["models"]).is_some_and(|own| own.as_array().is_some_and(|own| !own.is_empty())) {
        notes.push("your models stay first; choose another in Continue's list".to_owned());
    }
    head(&mut sheet)?;
    for model in models(wiring) {
        sheet.push(&["models"], card(model, wiring))?;
    }
    let changes = vec![sheet.change(!wiring.is_open())];
    Ok(SetupPlan { changes, notes, ..SetupPlan::default() })
}

/// With models of ours alone, since the first of them is used, and all else as the user
/// has it.
fn launch(machine: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let own = YamlSheet::open(machine, folder(machine).join(SETTINGS))?;
    let mut sheet = YamlSheet::blank(SETTINGS)?;
    head(&mut sheet)?;
    for model in models(wiring) {
        sheet.push(&["models"], card(model, wiring))?;
    }
    for name in KEPT {
        if let Some(value) = own.get(&[name]).filter(|value| !value.is_null()) {
            sheet.set(&[name], value)?;
        }
    }
    Ok(Launch {
        program: "cn",
        args: vec!["--config".into(), format!("{{files}}/{SETTINGS}").into()],
        files: vec![(SETTINGS.to_owned(), sheet.text())],
        ..Launch::default()
    })
}

/// What has to be there before anything else.
fn head(sheet: &mut YamlSheet) -> Result<(), UnfitSettings> {
    if sheet.is_blank() {
        sheet.set(&["name"], "ibeam")?;
        sheet.set(&["version"], "1.0.0")?;
        sheet.set(&["schema"], "v1")?;
    }
    Ok(())
}

fn card(model: &Offered, wiring: &Wiring) -> Value {
    let able = [("tool_use", model.tools), ("image_input", model.images)];
    let able: Vec<_> = able.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    json!({
        "name": format!("ibeam/{}", model.id),
        "provider": "openai",
        "model": model.id,
        "apiBase": v1(wiring),
        "apiKey": key(wiring),
        "roles": ["chat", "edit", "apply"],
        "capabilities": able,
        // It keeps room for the longest answer in every request.
        "defaultCompletionOptions": {
            "contextLength": model.context,
            "maxTokens": model.output.min(model.context / 4),
        },
    })
}

#[cfg(test)]
#[path = "continue_dev_tests.rs"]
mod tests;
