use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.aider.conf.yml";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = "# my aider\ndark-mode: true   # at night\n\nmodel: sonnet\n\n# the end\n";
    let limits = "{\n  // mine\n  \"deepseek/deepseek-chat\": { \"max_tokens\": 4096 },\n}\n";
    let machine = home(&[(FILE, own), ("/home/me/.aider.model.metadata.json", limits)]);
    let plan = plan(&machine, &open()).expect("a plan");
    let [settings, metadata] = &plan.changes[..] else { panic!("{plan:?}") };
    assert_kept(own, &settings.after);
    assert_kept(limits, &metadata.after);
    insta::assert_snapshot!(plan_text(&plan));
}

#[test]
fn other_server_is_a_conflict() {
    for line in ["openai-api-base: https://example.com/v1\n", "openai-api-key: sk-mine\n"] {
        assert!(matches!(refused(&CLIENT, FILE, line), UnfitSettings::Conflict { .. }), "{line}");
    }
    let broken = refused(&CLIENT, FILE, "model: [a\n");
    assert!(matches!(broken, UnfitSettings::Malformed { .. }), "{broken}");
}

#[test]
fn shell_variables_are_noted() {
    let machine = UserMachine::made_up(System::Linux, &[("AIDER_MODEL", "x")], &[], &[]);
    let plan = plan(&machine, &open()).expect("a plan");
    assert_eq!(plan.notes, ["AIDER_MODEL is set in your shell and overrides this file"]);
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_is_the_same_on_every_system() {
    let wanted = [FILE, "/home/me/.aider.model.metadata.json"];
    for system in [System::Linux, System::MacOs, System::Windows] {
        assert_eq!(places(&CLIENT, system, &[("XDG_CONFIG_HOME", "/x")]), wanted);
    }
}
