use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.factory/settings.json";

#[test]
fn for_someone_new() {
    insta::assert_snapshot!(told(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn beside_what_is_there() {
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
    insta::assert_snapshot!(told(&with(&CLIENT, FILE, own)));
}

#[test]
fn models_for_this_gateway_stay() {
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
fn for_one_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn the_same_place_on_every_system() {
    for system in [System::Linux, System::MacOs, System::Windows] {
        assert_eq!(places(&CLIENT, system, &[]), [FILE]);
    }
}
