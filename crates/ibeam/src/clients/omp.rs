//! oh-my-pi: a provider in its `models.yml`.
//!
//! Facts from its documentation and source of version 17.

use std::path::PathBuf;

use serde_json::Map;

use super::{
    ClientApi, ClientSpec, Launch, SetupPlan, UnfitSettings, UserMachine, Wiring,
    pi::{ID, by_extension, provider},
    sheet::YamlSheet,
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "oh-my-pi",
    also: &["omp", "ohmypi"],
    title: "oh-my-pi",
    programs: &["omp"],
    speaks: ClientApi::Chat,
    traces: |machine| vec![root(machine)],
    plan,
    launch: Some(launch),
    headless: None,
    install: "bun install -g @oh-my-pi/pi-coding-agent",
    page: "docs/clients/oh-my-pi.md",
};

fn root(machine: &UserMachine) -> PathBuf {
    machine.home().join(machine.env("PI_CONFIG_DIR").unwrap_or(".omp"))
}

/// A profile comes before a folder of pi's.
fn folder(machine: &UserMachine) -> PathBuf {
    let profile = ["OMP_PROFILE", "PI_PROFILE"].into_iter().find_map(|name| machine.env(name));
    match profile.map(str::trim).filter(|name| !name.is_empty() && *name != "default") {
        Some(name) => root(machine).join("profiles").join(name).join("agent"),
        None => {
            let own = machine.env("PI_CODING_AGENT_DIR").map(|path| machine.path(path));
            own.unwrap_or_else(|| root(machine).join("agent"))
        }
    }
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let folder = folder(machine);
    let names = ["models.yml", "models.yaml"].map(|name| folder.join(name));
    let there = names.iter().find(|path| machine.is_there(path));
    let older = folder.join("models.json");
    if there.is_none() && machine.is_there(&older) {
        // It makes the newer file of it at its next start, unless there is one.
        let what = "models, which it moves to models.yml when it starts: start it once".to_owned();
        return Err(UnfitSettings::Conflict { path: older, what });
    }
    let [first, _] = &names;
    let mut sheet = YamlSheet::open(machine, there.unwrap_or(first).clone())?;
    if sheet.has(&["providers", ID]) {
        return Err(sheet.conflict(format!("`providers.{ID}`")));
    }
    sheet.set(&["providers", ID], provider(wiring, |_| Map::new()))?;
    let notes = vec![format!(
        "`omp --model {ID}/{}` starts with it; `/model` in omp chooses another",
        wiring.model
    )];
    Ok(SetupPlan { changes: vec![sheet.change(!wiring.is_open())], notes, ..SetupPlan::default() })
}

fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    Ok(by_extension("omp", &provider(wiring, |_| Map::new()), &wiring.model))
}

#[cfg(test)]
#[path = "omp_tests.rs"]
mod tests;
