//! Claude Code: the `env` block of its settings.
//!
//! The key goes into `ANTHROPIC_AUTH_TOKEN`: with `ANTHROPIC_API_KEY`, it asks at its first
//! start whether the key may be used.
//!
//! It reads plain JSON (2.1): with a comment in it, the whole file counts for nothing.

use std::path::PathBuf;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{
    Change, ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    edit::json,
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
    let path = settings(machine);
    let refused = UnfitSettings::in_file(&path);
    let text = machine.read(&path)?.unwrap_or_default();
    let mut document = json::JsonDocument::parse_strict(&text).map_err(&refused)?;
    let mut notes = Vec::new();
    for name in ELSEWHERE {
        if document.get(&["env", name]).is_some_and(|value| is_on(&value)) {
            return Err(UnfitSettings::Conflict { path, what: format!("`env.{name}`") });
        }
        if machine.env(name).is_some() {
            notes.push(format!(
                "{name} is set in your shell: unset it, or requests go there \
                                instead"
            ));
        }
    }
    if document.get(&["apiKeyHelper"]).is_some() {
        return Err(UnfitSettings::Conflict { path, what: "`apiKeyHelper`".to_owned() });
    }
    for (name, value) in variables(wiring) {
        document.set(&["env", name], &Value::from(value)).map_err(&refused)?;
    }
    // Both would be sent, and it warns of it.
    let shell = machine.env(API_KEY).is_some();
    if shell || document.get(&["env", API_KEY]).is_some() {
        document.set(&["env", API_KEY], &Value::from("")).map_err(&refused)?;
    }
    let own = [&["model"][..], &["env", MODEL]].into_iter().find_map(|at| document.get(at));
    match own {
        None => document.set(&["model"], &Value::from(model(wiring))).map_err(&refused)?,
        Some(own) => notes.push(format!(
            "the model stays as you have it ({}); `/model` in Claude Code changes it",
            own.as_str().unwrap_or_default()
        )),
    }
    let change =
        Change { path, after: ended(&text, document.to_string()), private: !wiring.is_open() };
    Ok(SetupPlan { changes: vec![change], notes, paste: None })
}

/// A file that was empty ends in a line end, as others do.
fn ended(before: &str, mut after: String) -> String {
    if before.trim().is_empty() && !after.ends_with('\n') {
        after.push('\n');
    }
    after
}

fn is_on(value: &Value) -> bool {
    !matches!(value.as_str(), Some("" | "0" | "false")) && !value.is_null()
}

fn variables(wiring: &Wiring) -> [(&'static str, String); 3] {
    [
        (BASE_URL, wiring.url.clone()),
        (TOKEN, wiring.key.expose_secret().to_owned()),
        (SMALL, small(wiring)),
    ]
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
    let path = settings(machine);
    let text = machine.read(&path)?.unwrap_or_default();
    let document = json::JsonDocument::parse(&text).map_err(UnfitSettings::in_file(&path))?;
    let overrides = document.get(&["env"]).is_some_and(|there| {
        let names = env.iter().map(|(name, _)| name.as_str());
        names.chain(launch.without.iter().copied()).any(|name| there.get(name).is_some())
    });
    if overrides || document.get(&["apiKeyHelper"]).is_some() {
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
