use std::process::{Command, Stdio};

use super::*;
use crate::driver::child::environment::MARK;

#[test]
fn folder_is_deleted_with_its_owner() {
    let base = tempfile::tempdir().unwrap();
    let folders = Workspaces::new(Some(base.path().join("runs")));
    let one = folders.open(None).unwrap();
    let two = folders.open(None).unwrap();
    assert_ne!(one.path(), two.path());
    fs::write(one.path().join("left"), "x").unwrap();
    let path = one.path().to_path_buf();
    drop(one);
    assert!(!path.exists() && two.path().exists());
    let home = two.path().parent().unwrap().to_path_buf();
    // A second program has a parent folder of its own, which is removed with it.
    let others = Workspaces::new(Some(base.path().join("runs")));
    let elsewhere = others.open(None).unwrap().path().parent().unwrap().to_path_buf();
    assert_ne!(elsewhere, home);
    drop((two, others));
    assert!(!elsewhere.exists());
    drop(folders);
    let left: Vec<_> =
        fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [LOCK]);
}

/// The CLI finds its conversations by their folders.
#[test]
fn a_conversation_has_the_same_folder_after_a_restart() {
    let base = tempfile::tempdir().unwrap();
    let folders = || Workspaces::new(Some(base.path().join("runs")));
    let before = folders();
    let first = before.open(Some("one")).unwrap();
    let path = first.path().to_path_buf();
    assert_ne!(before.open(Some("one")).unwrap().path(), path, "somebody is in it");
    assert_ne!(before.open(Some("two")).unwrap().path(), path);
    // Killed: nothing is removed.
    std::mem::forget(first);
    drop(before);
    let after = folders();
    after.sweep();
    assert!(!path.exists());
    assert_eq!(after.open(Some("one")).unwrap().path(), path);
}

#[test]
fn folder_without_a_home_is_an_error() {
    let error = Workspaces::new(None).open(None).unwrap_err();
    assert!(error.to_string().contains("HOME"), "{error}");
}

#[test]
fn own_tools_are_not_forbidden_if_enabled() {
    let base = tempfile::tempdir().unwrap();
    let folders = Workspaces::new(Some(base.path().join("runs")));
    let one = folders.open(None).unwrap();
    one.furnish(None, true).unwrap();
    assert!(!one.path().join(".cursor/cli.json").exists());
    let servers = fs::read_to_string(one.path().join(".cursor/mcp.json")).unwrap();
    assert_eq!(servers, r#"{"mcpServers":{}}"#);
}

/// A killed program leaves folders and processes. A running program has a lock; one that is just
/// starting has no name yet; one with a name and no lock was partly removed.
#[test]
fn leftovers_of_killed_programs_are_swept() {
    let base = tempfile::tempdir().unwrap();
    let runs = base.path().join("runs");
    let folders = Workspaces::new(Some(runs.clone()));
    let alive = folders.open(None).unwrap();
    let dead = runs.join("dead");
    let name = random_name();
    fs::create_dir_all(dead.join(&name).join(".cursor")).unwrap();
    fs::write(dead.join(LOCK), "").unwrap();
    let unborn = runs.join("new-born");
    fs::create_dir(&unborn).unwrap();
    fs::write(unborn.join(LOCK), "").unwrap();
    let torn = runs.join("torn");
    fs::create_dir_all(torn.join(random_name())).unwrap();
    let stillborn = runs.join("new-stillborn");
    fs::create_dir(&stillborn).unwrap();
    File::open(&stillborn).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let mut left = Command::new("sleep");
    left.arg("1000").env(MARK, format!("{name}.1")).stdin(Stdio::null());
    let mut left = left.spawn().unwrap();
    let mut other = Command::new("sleep").arg("1000").env(MARK, "another.1").spawn().unwrap();

    Workspaces::new(Some(runs)).sweep();
    assert!(!dead.exists() && unborn.exists() && alive.path().exists());
    assert!(!torn.exists() && !stillborn.exists());
    if cfg!(target_os = "linux") {
        assert!(!left.wait().unwrap().success());
    }
    assert!(other.try_wait().unwrap().is_none());
    for child in [&mut left, &mut other] {
        let _ = child.kill();
        let _ = child.wait();
    }
}
