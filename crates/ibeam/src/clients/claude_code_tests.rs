use super::*;
use crate::clients::{
    Change, System,
    fixtures::{LOCKED, home, locked, open, with},
};

const PATH: &str = "/home/me/.claude/settings.json";

#[test]
fn plan_without_settings() {
    let plan = plan(&home(&[]), &open()).unwrap();
    let wanted = r#"{
  "env": {
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:18741",
    "ANTHROPIC_AUTH_TOKEN": "ibeam",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "auto"
  },
  "model": "auto"
}
"#;
    let change = Change { path: PATH.into(), after: wanted.to_owned(), private: false };
    assert_eq!(plan, SetupPlan { changes: vec![change], ..SetupPlan::default() });
}

#[test]
fn known_models_are_preferred() {
    let mut wiring = open();
    for id in ["claude-opus-5", "claude-sonnet-5", "claude-haiku-5"] {
        wiring.models.push(Offered::named(id));
    }
    assert_eq!((model(&wiring), &*small(&wiring)), ("claude-sonnet-5", "claude-haiku-5"));
    wiring.model = "gpt-5.5".to_owned();
    assert_eq!(model(&wiring), "gpt-5.5");
}

#[test]
fn users_model_stays() {
    let text = "{\n  \"model\": \"opus\",\n  \"env\": {\n    \"X\": \"1\"\n  }\n}\n";
    let plan = with(&CLIENT, PATH, text);
    assert!(plan.changes[0].after.contains("\"model\": \"opus\""));
    assert!(plan.notes[0].contains("opus"), "{:?}", plan.notes);
}

#[test]
fn anthropic_api_key_is_cleared() {
    let env = &[("ANTHROPIC_API_KEY", "sk-ant-mine"), ("CLAUDE_CONFIG_DIR", "/elsewhere")];
    let machine = UserMachine::made_up(System::Linux, env, &[], &[]);
    let plan = plan(&machine, &locked()).unwrap();
    let change = &plan.changes[0];
    assert_eq!(change.path, PathBuf::from("/elsewhere/settings.json"));
    assert!(change.private && change.after.contains("\"ANTHROPIC_API_KEY\": \"\""));
    let launch = launch(&machine, &locked()).unwrap();
    assert!(launch.without.contains(&"ANTHROPIC_API_KEY"));
}

#[test]
fn other_sign_ins_are_conflicts() {
    for text in [r#"{"apiKeyHelper": "/bin/key"}"#, r#"{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}"#]
    {
        let refused = plan(&home(&[(PATH, text)]), &open()).unwrap_err();
        assert!(matches!(refused, UnfitSettings::Conflict { .. }), "{refused:?}");
    }
    let off = r#"{"env": {"CLAUDE_CODE_USE_BEDROCK": "0"}}"#;
    assert!(plan(&home(&[(PATH, off)]), &open()).is_ok());
}

/// Settings beat variables, and a file that a flag names beats those.
#[test]
fn run_overrides_the_settings() {
    let plain = launch(&home(&[]), &locked()).unwrap();
    assert!(plain.args.is_empty() && plain.files.is_empty());
    assert!(plain.env.contains(&(TOKEN.to_owned(), LOCKED.to_owned())));
    let other = r#"{"env": {"ANTHROPIC_BASE_URL": "http://other"}}"#;
    let launch = launch(&home(&[(PATH, other)]), &locked()).unwrap();
    assert_eq!(launch.args, ["--settings", "{files}/settings.json"]);
    assert!(launch.files[0].1.contains("127.0.0.1:18741"), "{:?}", launch.files);
}
