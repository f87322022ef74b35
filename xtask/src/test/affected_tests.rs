use super::*;

fn example() -> BTreeMap<String, WorkspacePackage> {
    let package = |folder: &str, dependencies: &[&str]| WorkspacePackage {
        folder: folder.to_owned(),
        dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
    };
    BTreeMap::from([
        ("proto".to_owned(), package("crates/proto", &["prost"])),
        ("core".to_owned(), package("crates/core", &["proto"])),
        ("server".to_owned(), package("crates/server", &["core"])),
        (APART.to_owned(), package("interop", &["server"])),
        ("xtask".to_owned(), package("xtask", &[])),
    ])
}

#[test]
fn dependents_are_tested_too() {
    let (packages, why) = affected(&["crates/core/src/lib.rs", "xtask/src/main.rs"], &example());
    assert_eq!(packages, ["core", "server", "xtask"]);
    let wanted = format!("files of core, xtask changed, and {APART}, server depend on that");
    assert_eq!(why, wanted);
    let (packages, why) = affected(&["xtask/Cargo.toml"], &example());
    assert_eq!((packages, why.as_str()), (vec!["xtask".to_owned()], "files of xtask changed"));
}

#[test]
fn other_files_mean_everything() {
    for file in ["Cargo.toml", "crates/README.md", "docs/errors.md", "crates/core-more/a.rs"] {
        let (packages, why) = affected(&["crates/core/src/lib.rs", file], &example());
        assert!(packages.is_empty() && why.contains(file), "{why}");
    }
    assert!(affected(&[], &example()).0.is_empty());
}

#[test]
fn real_workspace_is_understood() {
    let workspace = workspace().unwrap();
    let (packages, _) = affected(&["crates/core/src/lib.rs"], &workspace);
    assert_eq!(packages, ["ibeam", "ibeam-bench", "ibeam-core", "ibeam-server", "ibeam-sim"]);
}
