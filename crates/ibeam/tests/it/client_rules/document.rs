//! `docs/conformance.md` names a test for every rule, and only tests that there are.

use std::{collections::BTreeSet, fs, path::Path};

/// How many rules there are.
const RULES: usize = 24;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Words of a text that begin like this and are names.
fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(prefix))
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn the_document_names_the_test_of_every_rule() {
    let document = read("docs/conformance.md");
    let mut tests = BTreeSet::new();
    for part in ["every_api", "chat", "responses", "messages"] {
        let source = read(&format!("crates/ibeam/tests/it/client_rules/{part}.rs"));
        let functions = source.split("async fn ").skip(1).filter_map(|rest| rest.split('(').next());
        tests.extend(
            functions.filter(|name| name.starts_with("client_rule_")).map(ToOwned::to_owned),
        );
    }
    assert_eq!(names(&document, "client_rule_"), tests);
    for rule in 1..=RULES {
        let prefix = format!("client_rule_{rule:02}_");
        assert_eq!(tests.iter().filter(|name| name.starts_with(&prefix)).count(), 1, "{prefix}");
    }
    assert_eq!(tests.len(), RULES);
}

/// Each row of the first table names a file of tests and a step that runs it.
#[test]
fn the_document_names_existing_files_and_steps() {
    let document = read("docs/conformance.md");
    let steps = read("xtask/src/test/steps.rs");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .skip_while(|line| !line.starts_with("| step"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 8, "{rows:?}");
    for row in rows {
        let step = row[0].trim_matches('`');
        assert!(steps.contains(&format!("Step::new(\"{step}\",")), "there is no step {step}");
        for file in row[1].split(", ").map(|name| name.trim_matches('`')) {
            read(file);
        }
    }
}
