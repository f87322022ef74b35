use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn staged_content_appears_only_with_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    replace(&path, b"old", FileAccess::Private).unwrap();
    let staged = StagedFile::write(&path, b"new", FileAccess::Private).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
    staged.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    drop(StagedFile::write(&path, b"other", FileAccess::Private).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["settings.json"]);
}

#[test]
fn sweep_removes_only_leftovers_of_this_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let kept = [".a.json.x.tmp", ".b.json.x.ibeam.tmp", "a.json", "a.json.x.ibeam.tmp"];
    for name in kept.into_iter().chain([".a.json.x.ibeam.tmp"]) {
        fs::write(folder.path().join(name), "").unwrap();
    }
    sweep(&path).unwrap();
    assert_eq!(names(folder.path()), kept);
}

#[test]
fn remove_says_whether_there_was_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    assert!(!remove(&path).unwrap());
    fs::write(&path, "").unwrap();
    assert!(remove(&path).unwrap() && !path.exists());
}

#[cfg(unix)]
#[test]
fn file_access_decides_the_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for (access, mode) in [
        (FileAccess::Private, 0o600),
        (FileAccess::New(0o400), 0o400),
        (FileAccess::Inherited(0o646), 0o646),
    ] {
        replace(&path, b"", access).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{access:?}");
    }
}
