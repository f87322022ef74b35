//! Zed: a provider in its `settings.json`. The key is not a setting: Zed takes it from a
//! variable, or keeps it in the keychain once it was entered.
//!
//! Facts from Zed's documentation and source of 2026. The variable's name is that of the
//! provider; `ibeam` alone would be `IBEAM_API_KEY`, which says what this gateway asks for.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, System, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "zed",
    also: &["zeditor"],
    title: "Zed",
    programs: &["zed", "zeditor"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![folder(machine)],
    plan,
    launch: Some(launch),
    headless: None,
    install: "https://zed.dev/download",
    page: "docs/clients/zed.md",
};

const PROVIDER: [&str; 3] = ["language_models", "openai_compatible", "ibeam-gateway"];
const VARIABLE: &str = "IBEAM_GATEWAY_API_KEY";

/// It keeps to `~/.config` on macOS, too.
fn folder(machine: &UserMachine) -> PathBuf {
    match machine.system() {
        System::Linux => machine.config_home().join("zed"),
        System::MacOs => machine.home().join(".config").join("zed"),
        System::Windows => machine.app_config().join("Zed"),
    }
}

fn settings(machine: &UserMachine) -> PathBuf {
    folder(machine).join("settings.json")
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut sheet = JsonSheet::open(machine, settings(machine))?;
    if sheet.has(&PROVIDER) {
        return Err(sheet.conflict(format!("`{}`", PROVIDER.join("."))));
    }
    let models: Vec<_> = models(wiring).map(card).collect();
    sheet.set(&PROVIDER, json!({ "api_url": v1(wiring), "available_models": models }))?;
    let key = if wiring.is_open() { key(wiring) } else { "what `ibeam keys add zed` prints" };
    let notes = vec![
        "choose a model of `ibeam-gateway` in the agent panel".to_owned(),
        format!(
            "Zed needs a key, which is not stored in its settings: `ibeam run zed` passes one; \
             otherwise enter {key} once in Settings, AI, LLM Providers, or set {VARIABLE} in Zed's \
             environment"
        ),
    ];
    Ok(SetupPlan { changes: vec![sheet.change(false)], notes, ..SetupPlan::default() })
}

/// Its models can only come from its settings; what is left for the run is the key.
fn launch(machine: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let sheet = JsonSheet::open(machine, settings(machine))?;
    let [first, second, third] = PROVIDER;
    let there = sheet.get(&[first, second, third, "api_url"]);
    if there != Some(Value::from(v1(wiring))) {
        let what = format!(
            "Zed reads its models from its settings, which do not name {}: `ibeam setup zed` first",
            wiring.url
        );
        return Err(UnfitSettings::Missing { what });
    }
    let program = if machine.program("zed").is_some() { "zed" } else { "zeditor" };
    Ok(Launch {
        program,
        // A Zed that is started in the background may not inherit the variable.
        args: vec!["--foreground".into()],
        env: vec![(VARIABLE.to_owned(), key(wiring).to_owned())],
        ..Launch::default()
    })
}

fn card(model: &Offered) -> Value {
    json!({
        "name": model.id,
        "display_name": model.name,
        "max_tokens": model.context,
        "max_output_tokens": model.output,
        "capabilities": {
            "tools": model.tools,
            "images": model.images,
            "parallel_tool_calls": model.tools,
            "prompt_cache_key": false,
            "chat_completions": true,
        },
    })
}

#[cfg(test)]
#[path = "zed_tests.rs"]
mod tests;
