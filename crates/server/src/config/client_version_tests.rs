use super::*;

#[test]
fn newest_installed_build_is_found() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(installed_cli_version(home.path()), None);
    let versions = home.path().join(CLI_VERSIONS);
    for name in ["2026.07.16-899851b", "2026.10.22-27dcf5f", "9999", "tmp-2026", "2026.1.1-abcdef0"]
    {
        std::fs::create_dir_all(versions.join(name)).unwrap();
    }
    std::fs::write(versions.join("2027.01.01-aaaaaaa"), "a file").unwrap();
    let found = installed_cli_version(home.path());
    assert_eq!(found.as_deref(), Some("cli-2026.10.22-27dcf5f"));
}

#[test]
fn other_names_are_not_builds() {
    for name in ["2026.08.11-e8db854", "2026.09.02-fa0c06e-lab"] {
        assert!(is_build(name), "{name}");
    }
    for name in
        ["2026.08.11", "2026.8.11-e8db854", "2026.08.11-xyz", "latest", "2026.08.11-e8db854/.."]
    {
        assert!(!is_build(name), "{name}");
    }
}
