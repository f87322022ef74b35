//! Open WebUI: variables. Its settings are in a database of its own, which belongs to it;
//! the plan is a file of variables that a server or a container can be started with.
//!
//! Facts from Open WebUI's documentation of version 0.8: the variables count until an
//! administrator saves a setting, unless `ENABLE_PERSISTENT_CONFIG` is off.

use super::{
    Change, ClientApi, ClientSpec, Launch, SetupPlan, UnfitSettings, UserMachine, Wiring, env,
    sheet::{key, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "open-webui",
    also: &["openwebui", "open_webui", "webui"],
    title: "Open WebUI",
    programs: &["open-webui"],
    speaks: ClientApi::Chat,
    traces: |_| Vec::new(),
    plan,
    launch: Some(launch),
    headless: None,
    install: "pip install open-webui",
    page: "docs/clients/open-webui.md",
};

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let path = env::folder(machine).join("open-webui.env");
    // Docker takes a value as it stands: no quotes.
    let lines = variables(wiring).map(|(name, value)| format!("{name}={value}\n"));
    let shown = path.display();
    let notes = vec![
        format!("for a container: `docker run --network=host --env-file {shown} …`"),
        "`ibeam run open-webui` starts one that is installed here".to_owned(),
        "an instance that ran before keeps its connections in its database: enter it there in \
         Admin Panel, Settings, Connections, or start it with ENABLE_PERSISTENT_CONFIG=False"
            .to_owned(),
    ];
    let after = lines.concat();
    let changes = vec![Change { path, after, private: !wiring.is_open() }];
    Ok(SetupPlan { changes, notes, ..SetupPlan::default() })
}

/// What its database says does not count for this run, since it may lead elsewhere.
fn launch(_: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    let mut env: Vec<_> =
        variables(wiring).map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    env.push(("ENABLE_PERSISTENT_CONFIG".to_owned(), "False".to_owned()));
    Ok(Launch { program: "open-webui", args: vec!["serve".into()], env, ..Launch::default() })
}

/// The names for several servers go before those for one.
fn variables(wiring: &Wiring) -> [(&'static str, String); 4] {
    [
        ("ENABLE_OPENAI_API", "True".to_owned()),
        ("OPENAI_API_BASE_URLS", v1(wiring)),
        ("OPENAI_API_KEYS", key(wiring).to_owned()),
        ("ENABLE_OLLAMA_API", "False".to_owned()),
    ]
}

#[cfg(test)]
#[path = "open_webui_tests.rs"]
mod tests;
