//! Claude Code: the `env` block of its settings.
//!
//! The key goes into `ANTHROPIC_AUTH_TOKEN`: with `ANTHROPIC_API_KEY`, it asks at its first
//! start whether the key may be used.
//!
//! It reads plain JSON (2.1): a file with a comment in it is ignored as a whole.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "claude-code",
    also: &["claude", "claudecode", "claude_code"],
    title: "Claude Code",
    programs: &["claude"],
    speaks: ClientApi::Messages,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: Some(&["-p", "{prompt}", "--allowedTools", "Read"]),
    install: "npm install -g @anthropic-ai/claude-code",
    page: "docs/clients/claude-code.md",
};

const BASE_URL: &str = "ANTHROPIC_BASE_URL";
const TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const API_KEY: &str = "ANTHROPIC_API_KEY";
const MODEL: &str = "ANTHROPIC_MODEL";
/// What it uses for small things in the background.
const SMALL: &str = "ANTHROPIC_DEFAULT_HAIKU_MODEL";

/// These lead it past any address.
const ELSEWHERE: [&str; 3] =
    ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];

fn folder(machine: &UserMachine) -> PathBuf {
    machine.folder("CLAUDE_CONFIG_DIR", &[".claude"])
}

fn settings(machine: &UserMachine) -> PathBuf {
    folder(machine).join("settings.json")
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut sheet = JsonSheet::open_strict(machine, settings(machine))?;
    let mut notes = Vec::new();
    for name in ELSEWHERE {
        if sheet.get(&["env", name]).is_some_and(|value| is_on(&value)) {
            return Err(sheet.conflict(format!("`env.{name}`")));
        }
        if machine.env(name).is_some() {
            notes.push(format!("{name} is set in your shell: unset it, or requests go there"));
        }
    }
    if sheet.has(&["apiKeyHelper"]) {
        return Err(sheet.conflict("`apiKeyHelper`"));
    }
    for (name, value) in variables(wiring) {
        sheet.set(&["env", name], value)?;
    }
    // Both would be sent, and it warns of it.
    if machine.env(API_KEY).is_some() || sheet.has(&["env", API_KEY]) {
        sheet.set(&["env", API_KEY], "")?;
    }
    let own = [&["model"][..], &["env", MODEL]].into_iter().find_map(|at| sheet.get(at));
    match own {
        None => sheet.set(&["model"], model(wiring))?,
        Some(own) => notes.push(format!(
            "the model stays as you have it ({}); `/model` in Claude Code changes it",
            own.as_str().unwrap_or_default()
        )),
    }
    Ok(SetupPlan { changes: vec![sheet.change(!wiring.is_open())], notes, paste: None })
}

fn is_on(value: &Value) -> bool {
    !matches!(value.as_str(), Some("" | "0" | "false")) && !value.is_null()
}

fn variables(wiring: &Wiring) -> [(&'static str, String); 3] {
    [(BASE_URL, wiring.url.clone()), (TOKEN, key(wiring).to_owned()), (SMALL, small(wiring))]
}

/// It knows the windows of Claude's models and guesses those of others, so that one of
/// those is better than `auto`.
fn model(wiring: &Wiring) -> &str {
    let claude = |model: &Offered| model.id.starts_with("claude");
    match wiring.rather_than_auto(|model| claude(model) && model.id.contains("sonnet")) {
        "auto" => wiring.rather_than_auto(claude),
        model => model,
    }
}

fn small(wiring: &Wiring) -> String {
    let small = |model: &&Offered| ["haiku", "mini", "flash"].iter().any(|w| model.id.contains(w));
    wiring
        .models
        .iter()
        .find(small)
        .map_or_else(|| model(wiring).to_owned(), |model| model.id.clone())
}

fn launch(machine: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let mut env: Vec<(String, String)> =
        variables(wiring).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    env.push((MODEL.to_owned(), model(wiring).to_owned()));
    let mut launch = Launch {
        program: "claude",
        without: [&[API_KEY][..], &ELSEWHERE].concat(),
        ..Launch::default()
    };
    // Settings of the user's come before variables, and a file given by flag before both.
    let sheet = JsonSheet::open(machine, settings(machine))?;
    let overrides = sheet.get(&["env"]).is_some_and(|there| {
        let names = env.iter().map(|(name, _)| name.as_str());
        names.chain(launch.without.iter().copied()).any(|name| there.get(name).is_some())
    });
    if overrides || sheet.has(&["apiKeyHelper"]) {
        let mut block: serde_json::Map<String, Value> =
            env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        block.extend(launch.without.iter().map(|name| ((*name).to_owned(), Value::from(""))));
        launch.args = vec!["--settings".into(), "{files}/settings.json".into()];
        launch.files = vec![("settings.json".to_owned(), json!({ "env": block }).to_string())];
    }
    launch.env = env;
    Ok(launch)
}

#[cfg(test)]
#[path = "claude_code_tests.rs"]
mod tests;
