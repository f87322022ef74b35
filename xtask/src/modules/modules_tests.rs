//! Small repositories, and what the check says about them.

use std::fs;

use tempfile::TempDir;

use super::{faults, source};

const LAYERS: &str =
    "# Layers\n\n```modules crates/one\nlow\nmiddle other # beside each other\nhigh\n```\n";

/// A repository with one crate.
fn repository(document: &str, files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("crates/one");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(root.path().join("ARCHITECTURE.md"), document).unwrap();
    fs::write(folder.join("Cargo.toml"), "").unwrap();
    for (name, text) in files {
        let file = folder.join("src").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

/// A crate with the modules of `LAYERS`, of which one contains this code.
fn faults_with(module: &str, code: &str) -> Vec<String> {
    let file = format!("{module}.rs");
    let mut files = vec![("lib.rs", "mod low;\nmod middle;\nmod other;\nmod high;\n")];
    files.extend(["low.rs", "middle.rs", "other.rs", "high.rs"].map(|name| (name, "")));
    files.push((&file, code));
    let root = repository(LAYERS, &files);
    faults(root.path()).unwrap()
}

/// The modules that a module uses, in a crate that has `a`, `b` and `c`.
fn used(code: &str) -> Vec<String> {
    let root = repository(
        "",
        &[
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Thing;\n"),
            ("a/mod.rs", code),
            ("b.rs", ""),
            ("c.rs", ""),
        ],
    );
    let graph = source::read(root.path(), "crates/one").unwrap();
    graph.used_by("a").map(str::to_owned).collect()
}

#[test]
fn uses_of_lower_layers_pass() {
    assert_eq!(faults_with("high", "use crate::{low, middle::Thing};"), [""; 0]);
}

#[test]
fn cycle_fails_with_each_place() {
    let root = repository(
        "```modules crates/one\nlow high\n```\n",
        &[
            ("lib.rs", "mod low;\nmod high;\n"),
            ("low.rs", "\nfn call() { crate::high::call() }\n"),
            ("high.rs", "use crate::low::call;\n"),
        ],
    );
    let faults = faults(root.path()).unwrap();
    let cycle = "crates/one: cycle high → low → high, in a knot of 2\n    \
                 crates/one/src/high.rs:1: high uses low\n    \
                 crates/one/src/low.rs:2: low uses high";
    assert_eq!(faults.first().unwrap(), cycle);
}

#[test]
fn use_of_a_higher_layer_fails() {
    let place = "crates/one/src/low.rs:2: low must not use high: ARCHITECTURE.md has high in a line below it";
    assert_eq!(faults_with("low", "\nuse crate::high::Thing;"), [place]);
}

#[test]
fn use_within_a_layer_fails() {
    let place = "crates/one/src/other.rs:1: other must not use middle: ARCHITECTURE.md has middle in the same line";
    assert_eq!(faults_with("other", "use crate::middle;"), [place]);
}

#[test]
fn use_that_the_document_rules_out_fails() {
    let document = "```modules crates/one\nlow\nhigh\nhigh ↛ low\n```\n";
    let files = [("lib.rs", "mod low {}\nmod high { use super::low; }\n")];
    let faults = faults(repository(document, &files).path()).unwrap();
    let fault = "crates/one/src/lib.rs:2: high must not use low: ARCHITECTURE.md says high ↛ low";
    assert_eq!(faults, [fault]);
}

#[test]
fn document_must_name_every_module_once() {
    let document = "```modules crates/one\nlow low\ngone\n```\n```modules crates/two\n```\n";
    let root = repository(document, &[("lib.rs", "mod low;\nmod high { }\n"), ("low.rs", "")]);
    let faults = faults(root.path()).unwrap();
    let expected = [
        "ARCHITECTURE.md:5: there is no crate crates/two",
        "ARCHITECTURE.md:1: crates/one has module low twice",
        "ARCHITECTURE.md:1: crates/one does not have a module gone",
        "ARCHITECTURE.md:1: module high of crates/one is missing",
    ];
    assert_eq!(faults, expected);
}

#[test]
fn crate_without_layers_fails() {
    let root = repository("", &[("lib.rs", "mod low { }")]);
    let fault = "crates/one: ARCHITECTURE.md has no block ```modules crates/one";
    assert_eq!(faults(root.path()).unwrap(), [fault]);
}

#[test]
fn item_of_the_root_counts_as_a_module() {
    let lib = "mod low;\nstruct Shared(low::Thing);\n";
    let root = repository(
        "```modules crates/one\nlow\nlib\n```\n",
        &[("lib.rs", lib), ("low.rs", "use crate::Shared;")],
    );
    let faults = faults(root.path()).unwrap();
    assert!(faults.first().unwrap().contains("cycle lib → low → lib"), "{faults:?}");
}

#[test]
fn every_form_of_a_path_is_found() {
    let found = [
        "use crate::b;",
        "use crate::{b::{self, Thing}, b::{Other}, b};",
        "use super::b as other;",
        "pub(crate) use crate::b::*;",
        "fn call<'a>(x: &'a str) -> char { crate::b::call(x); 'b' }",
        "mod inner { fn call() -> super::super::b::Thing { loop {} } }",
        "fn text() { format!(\"{}\", crate::b::TEXT) }",
        "macro_rules! m { () => { $crate::b::call() } }",
        "const QUOTE: char = '\"'; use crate::b;",
        "const RAW: &str = r#\"\"#; use crate::b; // \"",
    ];
    for code in found {
        assert_eq!(used(code), ["b"], "{code}");
    }
    assert_eq!(used("use crate::Thing;"), ["c"]);
}

#[test]
fn tests_texts_and_other_crates_are_left_out() {
    let left_out = [
        "#[cfg(test)] use crate::{b, c};",
        "#[cfg(all(test, unix))] mod tests { use crate::b; }",
        "#[cfg(test)] #[path = \"b_tests.rs\"] mod tests;",
        "struct A { #[cfg(test)] pub(crate) field: Vec<crate::b::Thing>, other: u8 }",
        "fn f(x: A) { match x { #[cfg(test)] A::B { .. } => { crate::b::call() } _ => {} } }",
        "// use crate::b;\n/* crate::b /* crate::c */ crate::b */",
        "const TEXT: &str = \"crate::b \\\" crate::c\"; const BYTE: u8 = b'\\'';",
        "use b::Thing; use ::c::Other; use self::inner::Thing; mod inner { use super::*; }",
        "fn call() -> impl Sized + use<> { inner::b::call() }",
    ];
    for code in left_out {
        assert_eq!(used(code), [""; 0], "{code}");
    }
    assert_eq!(used("#[cfg(test)] const A: [u8; 2] = B; use crate::b;"), ["b"]);
    assert_eq!(used("#[cfg(not(test))] use crate::b;"), ["b"]);
    assert_eq!(used("struct A { #[cfg(test)] x: u8, y: crate::b::Thing }"), ["b"]);
}
