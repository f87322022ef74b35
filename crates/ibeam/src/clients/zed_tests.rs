use super::{super::fixtures::*, *};

const FILE: &str = "/home/me/.config/zed/settings.json";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = r#"// Zed settings
//
// see the documentation
{
  "theme": "One Dark", // at night
  "language_models": {
    "openai_compatible": {
      "work": {
        "api_url": "https://example.com/v1",
        "available_models": [],
      },
    },
  },
  /* nothing else */
}
"#;
    insta::assert_snapshot!(plan_text(&with(&CLIENT, FILE, own)));
}

#[test]
fn provider_of_this_name_is_a_conflict() {
    let own = r#"{ "language_models": { "openai_compatible": { "ibeam-gateway": {} } } }"#;
    assert!(matches!(refused(&CLIENT, FILE, own), UnfitSettings::Conflict { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "{ theme"), UnfitSettings::Malformed { .. }));
}

#[test]
fn run_requires_the_settings() {
    let without = launch(&home(&[]), &open()).expect_err("a refusal");
    assert!(without.to_string().contains("`ibeam setup zed` first"), "{without}");
    let after = &plan(&home(&[]), &open()).expect("a plan").changes[0].after;
    let elsewhere = Wiring { url: "http://127.0.0.1:1".to_owned(), ..open() };
    launch(&home(&[(FILE, after)]), &elsewhere).expect_err("another address");
    let there = launch(&home(&[(FILE, after)]), &locked()).expect("a launch");
    insta::assert_snapshot!(started(&there));
}

#[test]
fn settings_path_depends_on_the_system() {
    assert_eq!(
        places(&CLIENT, System::Linux, &[("XDG_CONFIG_HOME", "/x")]),
        ["/x/zed/settings.json"]
    );
    assert_eq!(places(&CLIENT, System::MacOs, &[("XDG_CONFIG_HOME", "/x")]), [FILE]);
    assert_eq!(places(&CLIENT, System::Windows, &[("APPDATA", "/r")]), ["/r/Zed/settings.json"]);
}
