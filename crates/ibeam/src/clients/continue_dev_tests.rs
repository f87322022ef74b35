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
fn for_someone_new() {
    insta::assert_snapshot!(told(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn beside_what_is_there() {
    insta::assert_snapshot!(told(&with(&CLIENT, FILE, OWN)));
}

#[test]
fn an_older_file_is_not_hidden() {
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
fn for_one_run() {
    insta::assert_snapshot!(started(&launch(&home(&[(FILE, OWN)]), &locked()).expect("a launch")));
}

#[test]
fn where_its_variable_says() {
    assert_eq!(places(&CLIENT, System::Windows, &[]), [FILE]);
    let env = [("CONTINUE_GLOBAL_DIR", "/c")];
    assert_eq!(places(&CLIENT, System::MacOs, &env), ["/c/config.yaml"]);
}
