use super::*;
use crate::clients::{
    Change, System,
    fixtures::{LOCKED, home, locked, open, with},
};

const PATH: &str = "/home/me/.codex/config.toml";

#[test]
fn plan_without_settings() {
    let plan = plan(&home(&[]), &open()).unwrap();
    let wanted = r#"model = "gpt-5.5"
model_provider = "ibeam"

[model_providers.ibeam]
name = "ibeam"
base_url = "http://127.0.0.1:18741/v1"
wire_api = "responses"
"#;
    let change = Change { path: PATH.into(), after: wanted.to_owned(), private: false };
    assert_eq!(plan, SetupPlan { changes: vec![change], ..SetupPlan::default() });
}

#[test]
fn key_is_written_only_if_required() {
    let machine = UserMachine::made_up(System::Linux, &[("CODEX_HOME", "/c")], &[], &[]);
    let plan = plan(&machine, &locked()).unwrap();
    let change = &plan.changes[0];
    assert_eq!(change.path, PathBuf::from("/c/config.toml"));
    assert!(change.private);
    assert!(change.after.contains(&format!("experimental_bearer_token = \"{LOCKED}\"")));
}

#[test]
fn replaced_settings_are_noted() {
    let text = "model = \"gpt-5.5\" # good\nmodel_provider = \"azure\"\n";
    let machine = home(&[(PATH, text)]);
    let plan = plan(&machine, &open()).unwrap();
    assert!(
        plan.changes[0]
            .after
            .starts_with("model = \"gpt-5.5\" # good\nmodel_provider = \"ibeam\"\n")
    );
    assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
    let plan = with(&CLIENT, PATH, "# mine\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n");
    assert!(plan.notes.is_empty());
    let own = "model = \"o9\"\nprofile = \"p\"\n";
    let plan = super::plan(&home(&[(PATH, own)]), &open()).unwrap();
    assert!(plan.notes[0].contains("`o9`") && plan.notes[1].contains("`p`"), "{:?}", plan.notes);
}

#[test]
fn existing_provider_is_a_conflict() {
    let text = "[model_providers.ibeam]\nname = \"mine\"\n";
    let refused = plan(&home(&[(PATH, text)]), &open()).unwrap_err();
    assert!(matches!(refused, UnfitSettings::Conflict { .. }), "{refused:?}");
}

#[test]
fn run_is_configured_by_flags() {
    let launch = launch(&home(&[]), &locked()).unwrap();
    let args: Vec<_> = launch.args.iter().map(|arg| arg.to_str().unwrap()).collect();
    let provider = "model_providers.ibeam={ base_url = \"http://127.0.0.1:18741/v1\", env_key = \
                    \"IBEAM_CLIENT_KEY\", name = \"ibeam\", wire_api = \"responses\" }";
    let wanted = ["-c", "model=\"gpt-5.5\"", "-c", "model_provider=\"ibeam\"", "-c", provider];
    assert_eq!(args, wanted);
    assert_eq!(launch.env, [(VARIABLE.to_owned(), LOCKED.to_owned())]);
}
