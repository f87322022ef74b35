use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.pi/agent/models.json";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = r#"{
  // what runs here
  "providers": {
    "ollama": {
      "baseUrl": "http://localhost:11434/v1",
      "models": [{ "id": "qwen" }] // small
    }
  }
}"#;
    insta::assert_snapshot!(plan_text(&with(&CLIENT, FILE, own)));
}

#[test]
fn provider_of_this_name_is_a_conflict() {
    let own = r#"{ "providers": { "ibeam": {} } }"#;
    assert!(matches!(refused(&CLIENT, FILE, own), UnfitSettings::Conflict { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "{"), UnfitSettings::Malformed { .. }));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_follows_the_variable() {
    assert_eq!(places(&CLIENT, System::Windows, &[]), [FILE]);
    assert_eq!(
        places(&CLIENT, System::Linux, &[("PI_CODING_AGENT_DIR", "/p")]),
        ["/p/models.json"]
    );
}
