//! ibeam's own file: its content, its permissions, and what happens when it cannot be used.

use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use serde_json::{Value, json};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A private file with that text, in place of the credentials.
async fn planted(home: &Home, text: &str) -> CredentialFile {
    home.save("default", &credential("old")).await;
    let file = home.file("default");
    fs::write(file.path(), text).unwrap();
    file
}

fn json_of(file: &CredentialFile) -> Value {
    serde_json::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap()
}

#[tokio::test]
async fn saved_credential_is_loaded() {
    let home = Home::new();
    let file = home.file("default");
    assert!(file.load().unwrap().is_none());
    let whole = Credential { api_key: Some("crsr_1".into()), ..credential("a") };
    for saved in
        [whole, credential("b"), Credential::of_access_token("t"), Credential::of_api_key("k")]
    {
        home.save("default", &saved).await;
        assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&saved));
    }
    assert!(!fs::exists(home.at(".config/ibeam/default.json")).unwrap());
    assert!(file.path().ends_with(".config/ibeam/credentials/default.json"));
    assert_eq!((mode(file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
    assert_eq!(mode(&file.path().with_extension("lock")), 0o600);

    let lock = file.lock(SHORT).await.unwrap();
    assert!(lock.remove().unwrap());
    assert!(!lock.remove().unwrap());
    assert!(lock.load().unwrap().is_none());
}

#[tokio::test]
async fn file_format_is_stable_and_unknown_fields_are_kept() {
    let home = Home::new();
    home.save("default", &credential("a")).await;
    let file = home.file("default");
    let shape = json!({
        "type": "oauth", "access": "access-a", "refresh": "refresh-a",
        "expires": 1_800_000_000_000_u64, "account": {"email": "a@example.com"},
    });
    assert_eq!(json_of(&file), shape);

    let mut more = shape;
    more["later"] = json!({"deep": [1, 2.5, null]});
    fs::write(file.path(), more.to_string()).unwrap();
    home.save("default", &Credential::of_access_token("b")).await;
    let expect = json!({"type": "oauth", "access": "b", "later": {"deep": [1, 2.5, null]}});
    assert_eq!(json_of(&file), expect);
}

#[tokio::test]
async fn expiry_is_read_in_milliseconds_in_every_notation() {
    let home = Home::new();
    let rows = [
        ("1700000000000", Some(1_700_000_000)),
        ("1.7e12", Some(1_700_000_000)),
        ("1700000000000.5", Some(1_700_000_000)),
        ("7000", Some(7)),
        ("0", None),
        ("null", None),
    ];
    for (written, expect) in rows {
        let file = planted(&home, &format!(r#"{{"access":"a","expires":{written}}}"#)).await;
        assert_eq!(file.load().unwrap().unwrap().expires, expect, "{written}");
    }
}

#[tokio::test]
async fn damaged_file_is_reported_and_can_be_replaced() {
    let home = Home::new();
    let rows = [
        ("", "not valid JSON at line 1"),
        ("{\"type\":\n\"oauth\",", "not valid JSON at line 2"),
        ("[]", "it is not a JSON object"),
        ("{}", "it has no token"),
        (r#"{"type":"oauth","access":""}"#, "it has no token"),
        (r#"{"type":"wellknown","access":"a"}"#, "`type` is not `oauth`"),
        (r#"{"type":5,"access":"a"}"#, "`type` is not `oauth`"),
        (r#"{"access":5}"#, "`access` is not a string"),
        (r#"{"access":"a\nb"}"#, "`access` is not a valid token"),
        (r#"{"access":"a","expires":"soon"}"#, "`expires` is not a valid time"),
        (r#"{"access":"a","account":"me"}"#, "`account` is not an object"),
    ];
    for (text, expect) in rows {
        let file = planted(&home, text).await;
        let error = file.load().unwrap_err();
        let AuthFileError::Malformed { what, .. } = &error else { panic!("{error:?}") };
        assert_eq!(what, expect, "{text}");
        assert!(error.to_string().contains("`ibeam login`"));
        home.save("default", &credential("new")).await;
        assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&credential("new")));
    }
    let file = planted(&home, "").await;
    fs::write(file.path(), [0xff, 0xfe]).unwrap();
    assert!(file.load().unwrap_err().to_string().contains("not text"));
    fs::write(file.path(), vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(file.load().unwrap_err().to_string().contains("too long"));
}

#[tokio::test]
async fn file_that_others_can_read_is_refused_with_the_fix() {
    let home = Home::new();
    home.save("default", &credential("a")).await;
    let file = home.file("default");
    for (bits, what) in [(0o644, "read"), (0o640, "read"), (0o604, "read"), (0o602, "change")] {
        set_mode(file.path(), bits);
        let error = file.load().unwrap_err();
        let AuthFileError::File(FileError::Exposed { command, .. }) = &error else {
            panic!("{error:?}")
        };
        let text = error.to_string();
        assert!(text.starts_with(&format!("other users can {what} ")), "{text}");
        assert!(text.contains(&format!("(mode {bits:03o})")), "{text}");
        assert!(text.ends_with(&format!("; run `{command}`")), "{text}");
        assert!(command.starts_with("chmod 600 "), "{command}");
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
        assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&credential("a")));
    }
    // Signing in again fixes it, too.
    set_mode(file.path(), 0o644);
    home.save("default", &credential("b")).await;
    assert_eq!(mode(file.path()), 0o600);
}

#[tokio::test]
async fn directory_that_others_can_write_is_refused() {
    let home = Home::new();
    home.save("default", &credential("a")).await;
    let file = home.file("default");
    let dir = file.path().parent().unwrap();
    set_mode(dir, 0o777);
    let error = file.load().unwrap_err();
    let AuthFileError::File(FileError::Exposed { command, .. }) = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(file.lock(SHORT).await, Err(AuthFileError::File(FileError::Exposed { .. }))));
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert_eq!(mode(dir), 0o700);
    assert!(file.load().unwrap().is_some());
    // One in which they may only look is closed in passing.
    set_mode(dir, 0o755);
    assert!(file.load().unwrap().is_some());
    home.save("default", &credential("b")).await;
    assert_eq!(mode(dir), 0o700);
}

#[tokio::test]
async fn symbolic_link_is_never_followed() {
    let home = Home::new();
    let file = home.file("default");
    home.save("other", &credential("theirs")).await;
    let target = home.file("other").path().to_path_buf();
    let before = fs::read(&target).unwrap();
    symlink(&target, file.path()).unwrap();
    assert!(matches!(file.load(), Err(AuthFileError::File(FileError::Link { .. }))));
    let lock = file.lock(SHORT).await.unwrap();
    assert!(matches!(
        lock.save(&credential("a")),
        Err(AuthFileError::File(FileError::Link { .. }))
    ));
    assert_eq!(fs::read(&target).unwrap(), before);
    assert!(lock.remove().unwrap(), "the link goes");
    assert_eq!(fs::read(&target).unwrap(), before, "and what it led to stays");

    // A lock that leads elsewhere would make a file there.
    let (lock_path, elsewhere) = (file.path().with_extension("lock"), home.at("elsewhere"));
    drop(lock);
    fs::remove_file(&lock_path).unwrap();
    symlink(&elsewhere, &lock_path).unwrap();
    assert!(matches!(file.lock(SHORT).await, Err(AuthFileError::File(FileError::Link { .. }))));
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn non_regular_file_is_refused_without_blocking() {
    let home = Home::new();
    home.save("default", &credential("a")).await;
    let file = home.file("default");
    fs::remove_file(file.path()).unwrap();
    let made = Command::new("mkfifo").arg("-m600").arg(file.path()).status();
    assert!(made.unwrap().success());
    assert!(matches!(file.load(), Err(AuthFileError::File(FileError::NotRegular { .. }))));
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert!(matches!(file.load(), Err(AuthFileError::File(FileError::NotRegular { .. }))));
}

#[tokio::test]
async fn profiles_have_separate_files() {
    let home = Home::new();
    assert_eq!(CredentialFile::profiles(&home.config()).unwrap(), []);
    home.save("work", &credential("w")).await;
    home.save("default", &credential("d")).await;
    let load = |name| plain(&home.file(name).load().unwrap().unwrap());
    assert_eq!(load("work"), plain(&credential("w")));
    assert_eq!(load("default"), plain(&credential("d")));
    // Locks, half-written files and unknown files are not profiles.
    home.write(".config/ibeam/credentials/.work.json.x.ibeam.tmp", "");
    home.write(".config/ibeam/credentials/No Profile.json", "{}");
    let names = CredentialFile::profiles(&home.config()).unwrap();
    let names: Vec<_> = names.iter().map(Profile::as_str).collect();
    assert_eq!(names, ["default", "work"]);

    let lock = home.file("work").lock(SHORT).await.unwrap();
    let other = home.file("default").lock(Duration::ZERO).await.unwrap();
    assert!(other.remove().unwrap());
    assert!(lock.load().unwrap().is_some());
    let names = CredentialFile::profiles(&home.config()).unwrap();
    assert_eq!(names, ["work".parse().unwrap()]);
}

#[tokio::test]
async fn leftovers_of_a_killed_process_are_removed_by_the_next_save() {
    let home = Home::new();
    home.save("default", &credential("a")).await;
    let left = home.write(".config/ibeam/credentials/.default.json.k1LLed.ibeam.tmp", "half");
    let others = home.write(".config/ibeam/credentials/.work.json.wr1te.ibeam.tmp", "half");
    home.save("default", &credential("b")).await;
    assert!(!left.exists() && others.exists());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_credential_lock_is_limited() {
    let home = Home::new();
    let file = home.file("default");
    let held = file.lock(SHORT).await.unwrap();
    let started = tokio::time::Instant::now();
    let error = file.lock(Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(60));
    let text = error.to_string();
    assert!(text.contains("default.lock for 60 s; try again"), "{text}");

    let next = file.lock(Duration::from_secs(60));
    let release = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        drop(held);
    };
    let (next, ()) = tokio::join!(next, release);
    next.unwrap().save(&credential("a")).unwrap();
    assert!(started.elapsed() < Duration::from_secs(71));
}
