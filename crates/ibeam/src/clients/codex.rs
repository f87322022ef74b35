//! Codex: a provider in its `config.toml`.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{
    ClientApi, ClientSpec, Launch, SetupPlan, UnfitSettings, UserMachine, Wiring,
    edit::toml,
    sheet::{TomlSheet, key, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "codex",
    also: &["codex-cli", "openai-codex"],
    title: "Codex",
    programs: &["codex"],
    speaks: ClientApi::Responses,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: Some(&["exec", "--skip-git-repo-check", "--sandbox", "read-only", "{prompt}"]),
    install: "npm install -g @openai/codex",
    page: "docs/clients/codex.md",
};

const ID: &str = "ibeam";

/// Where a started Codex finds its key.
const VARIABLE: &str = "IBEAM_CLIENT_KEY";

fn folder(machine: &UserMachine) -> PathBuf {
    machine.folder("CODEX_HOME", &[".codex"])
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut sheet = TomlSheet::open(machine, folder(machine).join("config.toml"))?;
    let mut notes = Vec::new();
    if sheet.has(&["model_providers", ID]) {
        return Err(sheet.conflict(format!("`[model_providers.{ID}]`")));
    }
    let text_at = |key: &str| sheet.get(&[key]).as_ref().and_then(Value::as_str).map(str::to_owned);
    let (own, provider, profile) =
        (text_at("model"), text_at("model_provider"), text_at("profile"));
    if !own.as_ref().is_some_and(|own| wiring.models.iter().any(|model| model.id == *own)) {
        let model = model(wiring);
        // Without the list of models it is unknown what the plan has.
        if let Some(own) = own.filter(|_| wiring.asked) {
            notes.push(format!("the model `{own}` is not in your plan: `{model}` instead"));
        }
        sheet.set(&["model"], model)?;
    }
    if let Some(own) = provider.filter(|own| own != ID) {
        notes.push(format!("the provider `{own}` is replaced; `ibeam undo codex` puts it back"));
    }
    sheet.set(&["model_provider"], ID)?;
    if let Some(profile) = profile {
        notes.push(format!("your profile `{profile}` may name another model or provider"));
    }
    let mut provider = block(wiring);
    if !wiring.is_open() {
        provider.push(("experimental_bearer_token", key(wiring).to_owned()));
    }
    for (name, value) in provider {
        sheet.set(&["model_providers", ID, name], value)?;
    }
    Ok(SetupPlan { changes: vec![sheet.change(!wiring.is_open())], notes, paste: None })
}

/// It knows what those of OpenAI can do, and guesses for others: one of those is better
/// than `auto`.
fn model(wiring: &Wiring) -> &str {
    wiring.rather_than_auto(|model| model.id.starts_with("gpt-"))
}

fn block(wiring: &Wiring) -> Vec<(&'static str, String)> {
    vec![
        ("name", "ibeam".to_owned()),
        ("base_url", v1(wiring)),
        ("wire_api", "responses".to_owned()),
    ]
}

fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let mut provider = block(wiring);
    provider.push(("env_key", VARIABLE.to_owned()));
    let provider: Map<String, Value> =
        provider.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let mut args = Vec::new();
    let mut set = |key: &str, value: &Value| {
        args.push("-c".into());
        args.push(format!("{key}={}", toml::literal(value)).into());
    };
    set("model", &Value::from(model(wiring)));
    set("model_provider", &Value::from(ID));
    set(&format!("model_providers.{ID}"), &Value::Object(provider));
    let env = vec![(VARIABLE.to_owned(), key(wiring).to_owned())];
    Ok(Launch { program: "codex", args, env, ..Launch::default() })
}

#[cfg(test)]
#[path = "codex_tests.rs"]
mod tests;
