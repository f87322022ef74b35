use super::*;

const OLD: &str = "aa  crates/proto/proto/a.proto\nbb  crates/proto/src/generated/a.rs\n";

#[test]
fn equal_stamps_have_no_difference() {
    assert!(changed(OLD, OLD).is_empty());
}

#[test]
fn changed_added_and_removed_files_are_named() {
    let edited = OLD.replace("bb", "cc");
    assert_eq!(changed(OLD, &edited), ["crates/proto/src/generated/a.rs"]);
    let added = format!("{OLD}dd  tools/codegen/src/b.rs\n");
    assert_eq!(changed(OLD, &added), ["tools/codegen/src/b.rs"]);
    assert_eq!(changed(&added, OLD), ["tools/codegen/src/b.rs"]);
}

#[test]
fn stamp_covers_inputs_generator_and_outputs() {
    let stamp = stamp(&crate::root()).unwrap();
    for path in [
        "crates/proto/proto/agent/v1/agent.proto",
        "crates/proto/src/generated/fields.rs",
        "tools/codegen/Cargo.lock",
        "tools/codegen/src/main.rs",
    ] {
        assert!(stamp.lines().any(|line| line.ends_with(&format!("  {path}"))), "{path}: {stamp}");
    }
}
