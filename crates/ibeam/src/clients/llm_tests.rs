use super::{super::fixtures::*, *};
use crate::clients::System;

const FILE: &str = "/home/me/.config/io.datasette.llm/extra-openai-models.yaml";

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn plan_with_other_settings() {
    let own = "# extra\n- model_id: box   # at home\n  model_name: llama\n  api_base: http://box:8080/v1\n";
    let keys = "{\n  \"// Note\": \"This file stores secret API credentials. Do not share!\",\n  \"openai\": \"sk-mine\"\n}";
    let machine = home(&[
        (FILE, own),
        ("/home/me/.config/io.datasette.llm/keys.json", keys),
        ("/home/me/.config/io.datasette.llm/default_model.txt", "box\n"),
    ]);
    let plan = plan(&machine, &locked()).expect("a plan");
    let [models, secrets] = &plan.changes[..] else { panic!("{plan:?}") };
    assert_kept(own, &models.after);
    assert_kept(keys, &secrets.after);
    insta::assert_snapshot!(plan_text(&plan));
}

#[test]
fn settings_without_a_list_are_refused() {
    assert!(matches!(refused(&CLIENT, FILE, "model_id: box\n"), UnfitSettings::Malformed { .. }));
    assert!(matches!(refused(&CLIENT, FILE, "- [\n"), UnfitSettings::Malformed { .. }));
    let taken = home(&[("/home/me/.config/io.datasette.llm/keys.json", r#"{"ibeam":"x"}"#)]);
    assert!(matches!(plan(&taken, &locked()), Err(UnfitSettings::Conflict { .. })));
    assert!(plan(&taken, &open()).is_ok(), "no key is asked for");
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_depends_on_the_system() {
    let first = |system, env: &[(&str, &str)]| places(&CLIENT, system, env).swap_remove(0);
    let mac = "/home/me/Library/Application Support/io.datasette.llm/extra-openai-models.yaml";
    assert_eq!(first(System::Linux, &[]), FILE);
    assert_eq!(first(System::MacOs, &[]), mac);
    assert_eq!(
        first(System::Windows, &[("APPDATA", "/r")]),
        "/r/io.datasette.llm/extra-openai-models.yaml"
    );
    assert_eq!(first(System::MacOs, &[(PLACE, "/l")]), "/l/extra-openai-models.yaml");
}
