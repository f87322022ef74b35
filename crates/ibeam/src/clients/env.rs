//! Anything else: the variables that SDKs and programs built on them read, in a file to be
//! read by a shell.

use std::path::PathBuf;

use super::{
    Change, ClientApi, ClientSpec, Launch, SetupPlan, System, UnfitSettings, UserMachine, Wiring,
    sheet::{key, v1},
};

pub(super) const CLIENT: ClientSpec = ClientSpec {
    name: "env",
    also: &["environment", "shell"],
    title: "The environment",
    programs: &[],
    speaks: ClientApi::Chat,
    traces: |_| Vec::new(),
    plan,
    launch: Some(launch),
    headless: None,
    install: "nothing to install",
    page: "docs/clients/env.md",
};

/// Where ibeam's own settings are.
pub(super) fn folder(machine: &UserMachine) -> PathBuf {
    let base = match machine.system() {
        System::Linux | System::MacOs => machine.config_home(),
        System::Windows => machine.app_config(),
    };
    base.join("ibeam")
}

fn plan(machine: &UserMachine, wiring: &Wiring) -> Result<SetupPlan, UnfitSettings> {
    let folder = folder(machine);
    let variables = variables(wiring);
    let file = |name: &str, line: fn(&str, &str) -> String| Change {
        path: folder.join(name),
        after: variables.iter().map(|(name, value)| line(name, value)).collect(),
        private: !wiring.is_open(),
    };
    let (sh, fish, ps1) = ("env.sh", "env.fish", "env.ps1");
    let changes = vec![
        file(sh, |name, value| format!("export {name}={}\n", quoted(value, "'\\''"))),
        file(fish, |name, value| format!("set -gx {name} {}\n", quoted(value, "\\'"))),
        file(ps1, |name, value| format!("$env:{name} = {}\n", quoted(value, "''"))),
    ];
    let read = |name: &str, within: &str| {
        format!(". {}\n", quoted(&folder.join(name).to_string_lossy(), within))
    };
    let (paste, notes) = match machine.system() {
        System::Linux | System::MacOs => (
            read(sh, "'\\''"),
            vec![
                "add this line to ~/.profile, ~/.bashrc or ~/.zshrc; in fish: \
                 `source ~/.config/ibeam/env.fish`"
                    .replace("~/.config/ibeam", &folder.to_string_lossy()),
                "`ibeam run env COMMAND …` starts one program with it".to_owned(),
            ],
        ),
        System::Windows => {
            (read(ps1, "''"), vec!["add this line to the file that $PROFILE names".to_owned()])
        }
    };
    Ok(SetupPlan { changes, notes, paste: Some(paste) })
}

/// `env` starts what follows it.
fn launch(machine: &UserMachine, wiring: &Wiring) -> Result<Launch, UnfitSettings> {
    if machine.system() == System::Windows {
        let what = "Windows has no program `env`: `ibeam setup env` writes a file for PowerShell";
        return Err(UnfitSettings::Missing { what: what.to_owned() });
    }
    let env = variables(wiring).map(|(name, value)| (name.to_owned(), value)).into();
    Ok(Launch { program: "env", env, ..Launch::default() })
}

/// The one that ends in `BASE` is older, and still read by many.
fn variables(wiring: &Wiring) -> [(&'static str, String); 5] {
    [
        ("OPENAI_BASE_URL", v1(wiring)),
        ("OPENAI_API_BASE", v1(wiring)),
        ("OPENAI_API_KEY", key(wiring).to_owned()),
        ("ANTHROPIC_BASE_URL", wiring.url.clone()),
        ("ANTHROPIC_API_KEY", key(wiring).to_owned()),
    ]
}

/// In single quotes, with what stands for one of them inside.
fn quoted(text: &str, within: &str) -> String {
    format!("'{}'", text.replace('\'', within))
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
