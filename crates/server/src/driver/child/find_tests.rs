use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

fn program(path: &Path, says: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn likeliest_places_come_first() {
    let found = candidates(OsStr::new("/a:relative:/b:/a"), Some(Path::new("/home/me")));
    let found: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
    let want = [
        "/a/cursor-agent",
        "/b/cursor-agent",
        "/a/agent",
        "/b/agent",
        "/home/me/.local/bin/cursor-agent",
        "/home/me/.local/bin/agent",
        "/home/me/.cursor-agent/cursor-agent",
        "/usr/local/bin/cursor-agent",
    ];
    assert_eq!(found, want);
}

#[tokio::test]
async fn other_program_of_that_name_is_skipped() {
    let base = tempfile::tempdir().unwrap();
    let (other, real) = (base.path().join("a/agent"), base.path().join("b/agent"));
    program(&other, "agent 1.2.3");
    program(&real, "2026.01.28-fd13201");
    let plain = base.path().join("c/cursor-agent");
    fs::create_dir_all(plain.parent().unwrap()).unwrap();
    fs::write(&plain, "").unwrap();
    let finder = Finder::new(None, None, &Tasks::new());
    let places = vec![plain.clone(), other.clone(), real.clone()];
    assert_eq!(finder.search_in(places).await.unwrap(), Program::at(real));
    let error = finder.search_in(vec![plain, other.clone()]).await.unwrap_err();
    assert!(error.message.contains(other.to_str().unwrap()), "{error}");
    assert!(error.message.contains("cursor.com/install"), "{error}");
    assert!(error.message.contains("cursor_agent.bin"), "{error}");
}

#[tokio::test]
async fn configured_program_must_be_cursor_agent() {
    let base = tempfile::tempdir().unwrap();
    let mine = base.path().join("mine");
    program(&mine, "2026.06.12-01-15-52");
    let finder = Finder::new(Some(Program::at(&mine)), None, &Tasks::new());
    assert_eq!(finder.find().await.unwrap().path, mine);
    let other = base.path().join("other");
    program(&other, "whatever");
    for wrong in [other, base.path().join("none")] {
        let error = Finder::new(Some(Program::at(&wrong)), None, &Tasks::new());
        let error = error.find().await.unwrap_err();
        assert!(error.message.contains("cursor_agent.bin"), "{error}");
        assert!(error.message.contains(wrong.to_str().unwrap()), "{error}");
    }
}

/// Prints a version, and records that it was started, and where.
fn noting(path: &Path) {
    program(path, "2026.01.28-fd13201");
    let text = "#!/bin/sh\nstat -c %a . > \"$0.mode\"; pwd > \"$0.folder\"\n\
                ls -A > \"$0.files\"\necho 2026.01.28-fd13201\n";
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn program_that_others_can_replace_is_not_started() {
    let base = tempfile::tempdir().unwrap();
    let open = base.path().join("open/agent");
    noting(&open);
    fs::set_permissions(open.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let finder = Finder::new(None, None, &Tasks::new());
    let error = finder.search_in(vec![open.clone()]).await.unwrap_err();
    assert!(error.message.contains("other users may write to"), "{error}");
    let named = Finder::new(Some(Program::at(&open)), None, &Tasks::new());
    let error = named.find().await.unwrap_err();
    assert!(error.message.contains("other users may write to"), "{error}");
    assert!(!base.path().join("open/agent.folder").exists(), "it was started");
    assert_eq!(likely(Some(&open)), None);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn program_is_asked_in_an_empty_private_folder() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("bin/agent");
    noting(&path);
    let folders = base.path().join("cache/runs");
    let finder = Finder::new(None, Some(folders.clone()), &Tasks::new());
    assert!(finder.search_in(vec![path.clone()]).await.is_ok());
    let note = |name: &str| fs::read_to_string(path.with_extension(name)).unwrap();
    assert_eq!((note("mode").trim(), note("files").trim()), ("700", ""));
    assert!(note("folder").starts_with(folders.to_str().unwrap()), "{}", note("folder"));
    assert_eq!(fs::read_dir(&folders).unwrap().count(), 0, "and it is removed");
}
