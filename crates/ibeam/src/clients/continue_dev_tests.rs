use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.continue/config.yaml";

const OWN: &str = r#"name: mine   # whatever
version: 0.0.1
schema: v1

models:
  # the one at work
  - name: Work
    provider: openai
    model: big
    apiBase: https://example.com/v1

rules:
  - Speak plainly.
mcpServers:
  - name: files
    command: npx
    args: ["-y", "server-files"]
# the end
"#;

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    insta::assert_snapshot!(plan_text(&with(&CLIENT, FILE, OWN)));
}

#[test]
fn older_settings_file_is_a_conflict() {
    for name in OLDER {
        let path = format!("/home/me/.continue/{name}");
        let UnfitSettings::Conflict { path: at, .. } = refused(&CLIENT, &path, "{}") else {
            panic!("{name}")
        };
        assert_eq!(at.display().to_string(), path);
    }
    let both = home(&[("/home/me/.continue/config.json", "{}"), (FILE, OWN)]);
    assert!(plan(&both, &open()).is_ok());
    assert!(matches!(refused(&CLIENT, FILE, "models: {a\n"), UnfitSettings::Malformed { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "models: none\n"), UnfitSettings::Malformed { .. }));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[(FILE, OWN)]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_follows_the_variable() {
    assert_eq!(places(&CLIENT, System::Windows, &[]), [FILE]);
    let env = [("CONTINUE_GLOBAL_DIR", "/c")];
    assert_eq!(places(&CLIENT, System::MacOs, &env), ["/c/config.yaml"]);
}
