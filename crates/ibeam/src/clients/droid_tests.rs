use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.factory/settings.json";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = r#"{
  "theme": "dark",
  "customModels": [
    // at work
    {
      "model": "big",
      "id": "custom:big-0",
      "index": 4,
      "baseUrl": "https://example.com/v1",
      "apiKey": "${WORK_KEY}",
      "provider": "openai"
    }
  ]
}
"#;
    insta::assert_snapshot!(plan_text(&with(&CLIENT, FILE, own)));
}

#[test]
fn models_of_this_gateway_are_a_conflict() {
    let own =
        r#"{ "customModels": [{ "model": "auto", "baseUrl": "http://127.0.0.1:18741/v1/" }] }"#;
    assert!(matches!(refused(&CLIENT, FILE, own), UnfitSettings::Conflict { .. }));
    assert!(matches!(
        refused(&CLIENT, FILE, r#"{ "customModels": {} }"#),
        UnfitSettings::Malformed { .. }
    ));
    assert!(matches!(refused(&CLIENT, FILE, "{]"), UnfitSettings::Malformed { .. }));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_is_the_same_on_every_system() {
    for system in [System::Linux, System::MacOs, System::Windows] {
        assert_eq!(places(&CLIENT, system, &[]), [FILE]);
    }
}
