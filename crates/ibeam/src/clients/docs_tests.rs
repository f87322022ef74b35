//! The pages of `docs/clients` and the plans: who follows a page by hand gets what `ibeam
//! setup` writes on an empty machine, as far as that does not depend on the user's plan.

use std::{collections::BTreeSet, fs, path::Path};

use saphyr_parser::Parser;
use secrecy::SecretString;
use serde_json::Value;

use super::{
    ANY_KEY, CLIENTS, ClientSpec, Offered, System, UserMachine, Wiring,
    edit::{self, SettingsDocument as _},
};

/// The models that the page of a client has. Most have two, of two kinds.
fn wiring(client: &ClientSpec) -> Wiring {
    let model = |id: &str, name: &str, sizes: (u64, u64), efforts: &[&str]| Offered {
        id: id.to_owned(),
        name: name.to_owned(),
        context: sizes.0,
        output: sizes.1,
        reasoning: !efforts.is_empty(),
        images: true,
        tools: true,
        efforts: efforts.iter().map(|effort| (*effort).to_owned()).collect(),
    };
    let models = match client.name {
        "claude-code" => vec![
            model("claude-sonnet-5", "Sonnet 5", (200_000, 32_000), &["low", "high"]),
            model("claude-haiku-4-5", "Haiku 4.5", (200_000, 32_000), &[]),
        ],
        _ => vec![
            model("auto", "Auto", (200_000, 32_000), &[]),
            model("gpt-5.5", "GPT-5.5", (272_000, 64_000), &["low", "medium", "high", "xhigh"]),
        ],
    };
    Wiring {
        url: "http://127.0.0.1:18741".to_owned(),
        key: SecretString::from(ANY_KEY),
        model: "auto".to_owned(),
        models,
        asked: true,
        // By hand there is no plugin.
        local: client.name != "opencode",
        args: Vec::new(),
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The files of a page: where they are, and what stands in them.
fn files(client: &ClientSpec) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(client.page)).unwrap();
    let mut files: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            let path = info.split_once(" file=~").map(|(_, path)| format!("/home/me{path}"));
            inside = path.is_some();
            files.extend(path.map(|path| (path, String::new())));
        } else if let Some((_, block)) = files.last_mut().filter(|_| inside) {
            block.push_str(line);
            block.push('\n');
        }
    }
    files
}

/// What a file means, whatever it looks like.
fn meaning(path: &str, text: &str) -> Value {
    match Path::new(path).extension().and_then(|kind| kind.to_str()) {
        Some("toml") => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
        Some("json") => serde_json::from_str(text).unwrap(),
        Some("yml" | "yaml") => {
            assert!(Parser::new_from_str(text).all(|event| event.is_ok()), "{path}:\n{text}");
            edit::yaml::YamlDocument::parse(text).unwrap().get(&[]).unwrap()
        }
        // Lines for a shell.
        _ => Value::from(text),
    }
}

#[test]
fn every_client_has_a_page() {
    let named: BTreeSet<String> = CLIENTS.iter().map(|client| client.page.to_owned()).collect();
    let there = fs::read_dir(root().join("docs/clients")).unwrap();
    let there: BTreeSet<String> = there
        .map(|entry| format!("docs/clients/{}", entry.unwrap().file_name().to_string_lossy()))
        .filter(|page| !page.ends_with("README.md"))
        .collect();
    assert_eq!(named, there);
    for client in CLIENTS {
        let text = fs::read_to_string(root().join(client.page)).unwrap();
        assert!(text.contains(&format!("ibeam setup {}", client.name)), "{}", client.page);
    }
}

#[test]
fn manual_instructions_match_setup() {
    let mut seen = 0;
    for client in CLIENTS {
        let machine = UserMachine::made_up(System::Linux, &[], &[], &[]);
        let plan = (client.plan)(&machine, &wiring(client)).unwrap();
        for (path, block) in files(client) {
            let change = plan.changes.iter().find(|change| change.path == Path::new(&path));
            let change = change.unwrap_or_else(|| panic!("{}: {path}", client.page));
            let (page, setup) = (meaning(&path, &block), meaning(&path, &change.after));
            assert_eq!(page, setup, "{}: setup writes\n{}", client.page, change.after);
            seen += 1;
        }
    }
    assert!(seen >= 13, "only {seen} blocks were compared");
}
