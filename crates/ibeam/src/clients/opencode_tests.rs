use std::path::Path;

use super::*;
use crate::clients::{
    System,
    fixtures::{LOCKED, home, locked, open},
};

const FOLDER: &str = "/home/me/.config/opencode";

#[test]
fn plan_without_settings() {
    let plan = plan(&home(&[]), &locked()).unwrap();
    let [plugin, settings] = &plan.changes[..] else { panic!("{plan:?}") };
    assert_eq!(plugin.path, Path::new(FOLDER).join("plugin/ibeam.js"));
    assert_eq!(plugin.after, PLUGIN);
    assert_eq!(settings.path, Path::new(FOLDER).join("opencode.json"));
    let wanted =
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"model\": \"cursor/auto\"\n}\n";
    assert_eq!(settings.after, wanted);
    // The plugin asks for the key itself.
    assert!(!plan.changes.iter().any(|change| change.private || change.after.contains(LOCKED)));
}

#[test]
fn file_with_precedence_is_changed() {
    let file = |name: &str| format!("{FOLDER}/{name}");
    let (json, jsonc) = (file("opencode.json"), file("opencode.jsonc"));
    let machine = home(&[(&json, "{}"), (&jsonc, "{ // mine\n}")]);
    let plan = plan(&machine, &open()).unwrap();
    assert_eq!(plan.changes[1].path, PathBuf::from(&jsonc));
    assert!(plan.changes[1].after.contains("// mine"));
    let env = &[("OPENCODE_CONFIG", "/etc/mine.json"), ("XDG_CONFIG_HOME", "/x")];
    let machine = UserMachine::made_up(System::Linux, env, &[("/etc/mine.json", "{}")], &[]);
    let plan = super::plan(&machine, &open()).unwrap();
    assert_eq!(plan.changes[0].path, PathBuf::from("/x/opencode/plugin/ibeam.js"));
    assert_eq!(plan.changes[1].path, PathBuf::from("/etc/mine.json"));
}

#[test]
fn users_models_are_kept() {
    let path = format!("{FOLDER}/opencode.json");
    let text = "{\"model\": \"a/b\", \"provider\": {\"cursor\": {\"models\": {}}}}";
    let machine = home(&[(&path, text)]);
    let plan = plan(&machine, &open()).unwrap();
    assert_eq!(plan.changes.len(), 1, "the plugin alone");
    assert_eq!(plan.notes.len(), 2, "{:?}", plan.notes);
    // One of a gateway elsewhere would stand in its place.
    let elsewhere = Wiring { local: false, ..open() };
    assert!(matches!(super::plan(&machine, &elsewhere), Err(UnfitSettings::Conflict { .. })));
}

#[test]
fn plugin_gets_the_options_of_the_gateway() {
    let args = ["--profile", "work", "--sim"].map(str::to_owned).to_vec();
    let wiring = Wiring { args, ..open() };
    let path = format!("{FOLDER}/opencode.json");
    let text = "{\"model\": \"a/b\", \"provider\": {\"cursor\": {\"models\": {\"mine\": {}}}}}";
    for (machine, model) in [(home(&[]), "cursor/auto"), (home(&[(&path, text)]), "a/b")] {
        let plan = plan(&machine, &wiring).unwrap();
        let [_, settings] = &plan.changes[..] else { panic!("{plan:?}") };
        let value: Value = serde_json::from_str(&settings.after).unwrap();
        assert_eq!(value["model"], model);
        let cursor = &value["provider"]["cursor"];
        assert_eq!(cursor["options"], json!({ "args": ["--profile", "work", "--sim"] }));
        assert_eq!(cursor.get("models").is_some(), model == "a/b");
    }
}

#[test]
fn remote_gateway_becomes_a_provider() {
    let wiring = Wiring { local: false, url: "https://box".to_owned(), ..locked() };
    let plan = plan(&home(&[]), &wiring).unwrap();
    let [settings] = &plan.changes[..] else { panic!("{plan:?}") };
    assert!(settings.private);
    let value: Value = serde_json::from_str(&settings.after).unwrap();
    let cursor = &value["provider"]["cursor"];
    assert_eq!(cursor["options"]["baseURL"], "https://box/v1");
    assert_eq!(cursor["models"]["gpt-5.5"]["limit"]["context"], 272_000);
    assert_eq!(cursor["models"]["gpt-5.5"]["variants"]["high"]["reasoningEffort"], "high");
    assert!(cursor["models"]["auto"].get("variants").is_none());
}

#[test]
fn run_writes_no_file() {
    let launch = launch(&home(&[]), &locked()).unwrap();
    let [(name, content)] = &launch.env[..] else { panic!("{launch:?}") };
    assert_eq!(name, "OPENCODE_CONFIG_CONTENT");
    let content: Value = serde_json::from_str(content).unwrap();
    assert_eq!(content["model"], "cursor/auto");
    assert_eq!(content["provider"]["cursor"]["options"]["apiKey"], LOCKED);
    assert!(launch.args.is_empty() && launch.files.is_empty());
}
