use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.omp/agent/models.yml";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = "# my providers\nproviders:\n    ollama:   # here\n        auth: none\n        \
               baseUrl: http://localhost:11434\n# the end\n";
    insta::assert_snapshot!(plan_text(&with(&CLIENT, FILE, own)));
}

#[test]
fn existing_yaml_extension_is_used() {
    let other = "/home/me/.omp/agent/models.yaml";
    let plan = with(&CLIENT, other, "# mine\nproviders:\n");
    assert_eq!(plan.changes[0].path.display().to_string(), other);
}

#[test]
fn older_settings_file_is_a_conflict() {
    let older = refused(&CLIENT, "/home/me/.omp/agent/models.json", "{}");
    assert!(older.to_string().ends_with("start it once"), "{older}");
    assert!(matches!(
        refused(&CLIENT, FILE, "providers: {ibeam: {}}\n"),
        UnfitSettings::Conflict { .. }
    ));
    assert!(matches!(refused(&CLIENT, FILE, "providers: {\n"), UnfitSettings::Malformed { .. }));
}

#[test]
fn single_run() {
    let launch = started(&launch(&home(&[]), &locked()).expect("a launch"));
    assert!(
        launch.starts_with("omp --extension {files}/ibeam.js --model ibeam/auto\n"),
        "{launch}"
    );
}

#[test]
fn settings_path_follows_variables() {
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], FILE),
        (&[("PI_CONFIG_DIR", ".other")], "/home/me/.other/agent/models.yml"),
        (&[("PI_CODING_AGENT_DIR", "/p")], "/p/models.yml"),
        (
            &[("PI_CODING_AGENT_DIR", "/p"), ("OMP_PROFILE", "other")],
            "/home/me/.omp/profiles/other/agent/models.yml",
        ),
        (&[("OMP_PROFILE", "default")], FILE),
    ];
    for (env, wanted) in cases {
        assert_eq!(places(&CLIENT, System::MacOs, env), [wanted]);
    }
}
