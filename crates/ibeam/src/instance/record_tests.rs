use std::fs;

use super::*;

fn record(url: &str) -> InstanceRecord {
    InstanceRecord {
        v: VERSION,
        url: url.to_owned(),
        key: "ibi_0".to_owned(),
        pid: 7,
        version: "0.1.0".to_owned(),
        shared: true,
        kind: InstanceKind {
            profile: "default".to_owned(),
            backend: "agent".to_owned(),
            sim: false,
            upstream: "https://example.com".to_owned(),
            token: None,
        },
    }
}

fn urls(folder: &Path) -> Vec<String> {
    let mut urls: Vec<_> = living(folder).into_iter().map(|entry| entry.record.url).collect();
    urls.sort_unstable();
    urls
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn living_gateway_is_found_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("instances");
    assert!(urls(&folder).is_empty());
    let one = Registration::new(&folder, &record("http://127.0.0.1:1")).unwrap();
    let two = Registration::new(&folder, &record("http://127.0.0.1:2")).unwrap();
    assert_eq!(urls(&folder), ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
    #[cfg(unix)]
    for path in [&one.record, &one.lock] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // It is not found, although it lives.
    let entry = living(&folder).into_iter().find(|entry| entry.record.url.ends_with(":1")).unwrap();
    one.retire();
    assert_eq!(urls(&folder), ["http://127.0.0.1:2"]);
    assert!(entry.is_alive());
    drop(one);
    assert!(!entry.is_alive());
    drop(two);
    assert!(names(&folder).is_empty());
}

/// As after `kill -9`: the system released the lock, and the files are left.
#[test]
fn files_of_a_killed_gateway_are_removed() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    let registration = Registration::new(folder, &record("http://127.0.0.1:1")).unwrap();
    for path in [&registration.record, &registration.lock] {
        let extension = path.extension().unwrap();
        fs::copy(path, folder.join("0123456789abcdef").with_extension(extension)).unwrap();
    }
    // Killed before it wrote its record, or after it removed its lock.
    fs::write(folder.join("0123456789abcde0.lock"), "").unwrap();
    fs::write(folder.join("0123456789abcde1.json"), "{}").unwrap();
    // Killed before its lock had a name; the other one is about to get one.
    fs::write(folder.join(".lockAbCdEf"), "").unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1);
    File::open(folder.join(".lockAbCdEf")).unwrap().set_modified(long_ago).unwrap();
    fs::write(folder.join(".lockNewOne"), "").unwrap();
    // These are none of a gateway's.
    fs::write(folder.join("start.lock"), "").unwrap();
    fs::write(folder.join("notes.json"), "").unwrap();
    assert_eq!(urls(folder), ["http://127.0.0.1:1"]);
    let mut left = names(folder);
    left.retain(|name| !registration.lock.ends_with(name) && !registration.record.ends_with(name));
    left.sort_unstable();
    assert_eq!(left, [".lockNewOne", "notes.json", "start.lock"]);
}

/// One of a later version may say other things in its record.
#[test]
fn unusable_record_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let later = InstanceRecord { v: VERSION + 1, ..record("http://127.0.0.1:1") };
    let registration = Registration::new(temp.path(), &later).unwrap();
    assert!(urls(temp.path()).is_empty());
    assert!(registration.record.exists());
    fs::write(&registration.record, "nonsense").unwrap();
    assert!(urls(temp.path()).is_empty());
    assert!(registration.record.exists());
}

#[test]
fn use_by_a_client_is_detected() {
    let temp = tempfile::tempdir().unwrap();
    let registration = Registration::new(temp.path(), &record("http://127.0.0.1:1")).unwrap();
    let entry = living(temp.path()).pop().unwrap();
    assert!(!registration.is_in_use());
    let (one, two) = (entry.hold().unwrap(), entry.hold().unwrap());
    assert!(registration.is_in_use() && entry.is_in_use());
    drop(one);
    assert!(registration.is_in_use());
    drop(two);
    assert!(!registration.is_in_use() && !entry.is_in_use());
}
