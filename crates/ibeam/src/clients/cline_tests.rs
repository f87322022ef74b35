use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.cline/data/settings/providers.json";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = r#"{
  "version": 1,
  "lastUsedProvider": "anthropic",
  "modes": {},
  "providers": {
    "anthropic": {
      "settings": { "provider": "anthropic", "apiKey": "sk-mine" },
      "updatedAt": "2026-05-05T05:05:05.000Z",
      "tokenSource": "manual"
    }
  }
}
"#;
    // All lines but that of the last provider.
    let plan = plan(&home(&[(FILE, own)]), &open()).expect("a plan");
    let [change] = &plan.changes[..] else { panic!("{plan:?}") };
    assert_kept(&own.replace("  \"lastUsedProvider\": \"anthropic\",\n", ""), &change.after);
    insta::assert_snapshot!(plan_text(&plan));
}

#[test]
fn file_rewritten_by_cline_is_not_a_conflict() {
    let machine = home(&[]);
    let first = plan(&machine, &open()).expect("a plan");
    let renewed = first.changes[0].after.replace(SINCE, "2026-11-11T11:11:11.111Z");
    let second = plan(&home(&[(FILE, &renewed)]), &open()).expect("a plan");
    assert_eq!(second.changes[0].after, renewed);
}

#[test]
fn other_compatible_server_is_a_conflict() {
    let own = r#"{ "providers": { "openai-compatible": { "settings": { "baseUrl": "http://box/v1" } } } }"#;
    assert!(matches!(refused(&CLIENT, FILE, own), UnfitSettings::Conflict { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "{ \"version\": "), UnfitSettings::Malformed { .. }));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_follows_variables() {
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[], FILE),
        (&[("CLINE_DIR", "/c")], "/c/data/settings/providers.json"),
        (&[("CLINE_DIR", "/c"), ("CLINE_DATA_DIR", "/d")], "/d/settings/providers.json"),
        (&[("CLINE_DATA_DIR", "/d"), (PLACE, "/p.json")], "/p.json"),
    ];
    for (env, wanted) in cases {
        assert_eq!(places(&CLIENT, System::MacOs, env), [wanted]);
    }
}
