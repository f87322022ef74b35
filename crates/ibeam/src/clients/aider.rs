//! Aider: three settings in `~/.aider.conf.yml`, and the models' limits beside it.
//!
//! Facts from aider 0.86.2: settings of a project come before those in the home, variables
//! `AIDER_…` before both, and what they set replaces `OPENAI_API_BASE` and the like.

use serde_json::{Map, Value, json};

use super::{
    ClientApi, ClientSpec, Launch, Offered, SetupPlan, UnfitSettings, UserMachine, Wiring,
    sheet::{JsonSheet, YamlSheet, key, models, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "aider",
    also: &["aider-chat"],
    title: "Aider",
    programs: &["aider"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![machine.home().join(SETTINGS), machine.home().join(".aider")],
    plan,
    launch: Some(launch),
    headless: None,
    install: "python -m pip install aider-install && aider-install",
    page: "docs/clients/aider.md",
};

const SETTINGS: &str = ".aider.conf.yml";
const LIMITS: &str = ".aider.model.metadata.json";

/// A setting, and the variable that goes before it.
const NAMES: [(&str, &str); 3] = [
    ("model", "AIDER_MODEL"),
    ("openai-api-base", "AIDER_OPENAI_API_BASE"),
    ("openai-api-key", "AIDER_OPENAI_API_KEY"),
];

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let mut settings = YamlSheet::open(machine, machine.home().join(SETTINGS))?;
    let mut notes = Vec::new();
    for ((name, variable), value) in NAMES.into_iter().zip(values(wiring)) {
        if machine.env(variable).is_some() {
            notes.push(format!("{variable} is set in your shell and overrides this file"));
        }
        match settings.get(&[name]) {
            None => settings.set(&[name], value)?,
            Some(own) if own == value.as_str() => {}
            Some(own) if name == "model" => notes.push(format!(
                "your model stays `{}`; `aider --model {value}` takes this one",
                own.as_str().unwrap_or_default()
            )),
            Some(_) => return Err(settings.conflict(format!("`{name}`"))),
        }
    }
    let mut limits = JsonSheet::open(machine, machine.home().join(LIMITS))?;
    for model in models(wiring) {
        let name = name(&model.id);
        if !limits.has(&[&name]) {
            limits.set(&[&name], card(model))?;
        }
    }
    let changes = vec![settings.change(!wiring.is_open()), limits.change(false)];
    Ok(SetupPlan { changes, notes, ..SetupPlan::default() })
}

fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let cards: Map<String, Value> =
        models(wiring).map(|model| (name(&model.id), card(model))).collect();
    let variables = NAMES.into_iter().zip(values(wiring));
    let mut env: Vec<_> =
        variables.map(|((_, variable), value)| (variable.to_owned(), value)).collect();
    env.push(("AIDER_MODEL_METADATA_FILE".to_owned(), "{files}/models.json".to_owned()));
    let files = vec![("models.json".to_owned(), Value::Object(cards).to_string())];
    Ok(Launch { program: "aider", env, files, ..Launch::default() })
}

/// In the order of `NAMES`.
fn values(wiring: &Wiring) -> [String; 3] {
    [name(&wiring.model), v1(wiring), key(wiring).to_owned()]
}

/// Its library takes the part before the slash for the API to speak.
fn name(id: &str) -> String {
    format!("openai/{id}")
}

/// Without it, it warns that it knows neither window nor price.
fn card(model: &Offered) -> Value {
    json!({
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": model.context,
        "max_output_tokens": model.output,
        "max_tokens": model.output,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "supports_vision": model.images,
    })
}

#[cfg(test)]
#[path = "aider_tests.rs"]
mod tests;
