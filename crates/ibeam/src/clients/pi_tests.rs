use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.pi/agent/models.json";

#[test]
fn for_someone_new() {
    insta::assert_snapshot!(told(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn beside_what_is_there() {
    let own = r#"{
  // what runs here
  "providers": {
    "ollama": {
      "baseUrl": "http://localhost:11434/v1",
      "models": [{ "id": "qwen" }] // small
    }
  }
}"#;
    insta::assert_snapshot!(told(&with(&CLIENT, FILE, own)));
}

#[test]
fn a_provider_of_this_name_stays() {
    let own = r#"{ "providers": { "ibeam": {} } }"#;
    assert!(matches!(refused(&CLIENT, FILE, own), UnfitSettings::Conflict { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "{"), UnfitSettings::Malformed { .. }));
}

#[test]
fn for_one_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn where_its_variable_says() {
    assert_eq!(places(&CLIENT, System::Windows, &[]), [FILE]);
    assert_eq!(
        places(&CLIENT, System::Linux, &[("PI_CODING_AGENT_DIR", "/p")]),
        ["/p/models.json"]
    );
}
