//! What other programs write, as they write it.

use std::{os::unix::fs::PermissionsExt as _, time::SystemTime};

use rusqlite::{Connection, types::Value};

use super::*;
use crate::auth::foreign::{self, ide, keychain};

#[test]
fn forms_of_json_files() {
    type Read = fn(&Path) -> Result<Option<Credential>, String>;
    let rows: [(Read, &str, [&str; 3], Option<u64>); 13] = [
        (
            foreign::cli,
            r#"{"accessToken":"a","refreshToken":"r","apiKey":"k","bedrockCredentials":{}}"#,
            ["a", "r", "k"],
            None,
        ),
        (foreign::cli, r#"{"accessToken":"a","refreshToken":null}"#, ["a", "", ""], None),
        (foreign::cli, r#"{"apiKey":"k"}"#, ["", "", "k"], None),
        (
            foreign::legacy,
            r#"{"type":"oauth","access":"a","refresh":"r","expires":1234567890000}"#,
            ["a", "r", ""],
            Some(1_234_567_890),
        ),
        (
            foreign::legacy,
            r#"{"type":"oauth","access":"a","refresh":"r|k"}"#,
            ["a", "r", "k"],
            None,
        ),
        (
            foreign::open_code,
            r#"{"x":1,"cursor":{"type":"oauth","access":"a","refresh":"r","expires":1000}}"#,
            ["a", "r", ""],
            Some(1),
        ),
        (
            foreign::open_code,
            r#"{"cursor":{"type":"oauth","access":"a","refresh":"r|k"}}"#,
            ["a", "r", "k"],
            None,
        ),
        (
            foreign::open_code,
            r#"{"cursor":{"type":"oauth","access":"a","refresh":"r|"}}"#,
            ["a", "r", ""],
            None,
        ),
        (
            foreign::open_code,
            r#"{"cursor":{"type":"oauth","access":"a","refresh":"|k"}}"#,
            ["a", "", "k"],
            None,
        ),
        (
            foreign::open_code,
            r#"{"cursor":{"type":"oauth","access":"","refresh":" r | k "}}"#,
            ["", "r", "k"],
            None,
        ),
        (
            foreign::open_code,
            r#"{"cursor":{"type":"api","key":"crsr_0123"}}"#,
            ["", "", "crsr_0123"],
            None,
        ),
        // A word in the place of a key.
        (
            foreign::open_code,
            r#"{"cursor":{"type":"api","key":"cursor-agent"}}"#,
            ["", "", ""],
            None,
        ),
        (foreign::open_code, r#"{"cursor":{"type":"api"}}"#, ["", "", ""], None),
    ];
    let home = Home::new();
    for (read, text, expect, expires) in rows {
        let path = home.write("file.json", text);
        let found = read(&path).unwrap();
        let credential = found.unwrap_or_default();
        assert_eq!(secrets(&credential), expect, "{text}");
        assert_eq!(credential.expires, expires, "{text}");
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    let wrong = [
        (r#"{"cursor":"x"}"#, "the entry `cursor` is not an object"),
        (r#"{"cursor":{"type":"oauth","refresh":"a b|k"}}"#, "`refresh` is not a valid token"),
        (r#"{"cursor":{"type":"oauth","refresh":"r|k|x y"}}"#, "`refresh` is not a valid token"),
        (r#"{"cursor":{"type":"wellknown"}}"#, "a `type` that ibeam does not know"),
    ];
    for (text, expect) in wrong {
        assert_eq!(foreign::open_code(&home.write("file.json", text)).unwrap_err(), expect);
    }
    fs::write(home.at("file.json"), vec![b' '; (4 << 20) + 1]).unwrap();
    assert_eq!(foreign::cli(&home.at("file.json")).unwrap_err(), "too long");
}

fn database(home: &Home, rows: &[(&str, Value)]) -> PathBuf {
    let path = home.write("global storage/state.vscdb", "");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        .unwrap();
    for (key, value) in rows {
        db.execute("INSERT INTO ItemTable VALUES (?1, ?2)", (key, value)).unwrap();
    }
    path
}

#[test]
fn ide_values_are_read_as_text_or_bytes_plain_or_quoted() {
    let home = Home::new();
    let rows = [
        ("cursorAuth/accessToken", Value::Text("eyJ.a.b".to_owned())),
        ("cursorAuth/refreshToken", Value::Blob(b"\"eyJ.r.s\"".to_vec())),
        ("cursorAuth/cachedEmail", Value::Text("me@example.com".to_owned())),
        ("storage.serviceMachineId", Value::Text("other".to_owned())),
    ];
    let found = ide::read(&database(&home, &rows)).unwrap().unwrap();
    let account = Account { email: Some("me@example.com".to_owned()), sub: None };
    assert_eq!(secrets(&found), ["eyJ.a.b", "eyJ.r.s", ""]);
    assert_eq!(found.account, Some(account));

    let nobody = [
        vec![],
        vec![("cursorAuth/accessToken", Value::Null)],
        vec![("cursorAuth/accessToken", Value::Text("null".to_owned()))],
        vec![("cursorAuth/accessToken", Value::Text("\"\"".to_owned()))],
        vec![("cursorAuth/accessToken", Value::Integer(7))],
        vec![("cursorAuth/accessToken", Value::Text("x".repeat(70_000)))],
    ];
    for rows in nobody {
        assert!(ide::read(&database(&Home::new(), &rows)).unwrap().is_none(), "{rows:?}");
    }
    let odd = [("cursorAuth/accessToken", Value::Text("a b".to_owned()))];
    let error = ide::read(&database(&Home::new(), &odd)).unwrap_err();
    assert_eq!(error, "`cursorAuth/accessToken` is not a valid token");
    let other = home.write("other.vscdb", "");
    assert!(ide::read(&other).unwrap_err().contains("no such table"));
}

#[test]
fn ide_database_is_read_while_in_use_and_not_changed() {
    let home = Home::new();
    let path = database(&home, &[("cursorAuth/accessToken", Value::Text("a".to_owned()))]);
    let dir = path.parent().unwrap();
    let state = || {
        let mut entries: Vec<(PathBuf, Vec<u8>, SystemTime)> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let changed = fs::metadata(&path).unwrap().modified().unwrap();
                (path.clone(), fs::read(&path).unwrap(), changed)
            })
            .collect();
        entries.sort();
        entries
    };
    let before = state();
    // The IDE is writing and holds the lock.
    let owner = Connection::open(&path).unwrap();
    owner.execute_batch("BEGIN EXCLUSIVE").unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
    let found = ide::read(&path).unwrap().unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(secrets(&found), ["a", "", ""]);
    assert_eq!(state(), before);
    owner.execute_batch("COMMIT").unwrap();
}

#[test]
fn missing_ide_database_is_not_created() {
    let home = Home::new();
    assert!(ide::read(&home.at("state.vscdb")).is_err());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// Replaces the system's program: returns a scripted answer for one service.
fn security(home: &Home, answers: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\ncase \"$5 $6\" in\n{answers}\n*) exit 44;;\nesac\n",
        home.at("calls").display().to_string().replace('\'', r"'\''")
    );
    let path = home.write("security", &script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

#[test]
fn foreign_keychain_is_read_item_by_item() {
    let home = Home::new();
    let program = security(
        &home,
        "'cursor-access-token ') exit 0;;\n\
         'cursor-access-token -w') echo a;;\n\
         'cursor-api-key -w') echo crsr_k;;",
    );
    assert!(keychain::is_there(&program, SHORT));
    assert_eq!(
        fs::read_to_string(home.at("calls")).unwrap(),
        "find-generic-password -a cursor-user -s cursor-access-token\n",
        "no secret is asked for"
    );
    let found = keychain::read(&program, SHORT).unwrap().unwrap();
    assert_eq!(secrets(&found), ["a", "", "crsr_k"]);

    let empty = security(&Home::new(), "");
    assert!(!keychain::is_there(&empty, SHORT));
}

#[test]
fn foreign_keychain_refusal_and_timeout_are_reported() {
    let home = Home::new();
    let refusing = security(&home, "*) exit 128;;");
    let error = keychain::read(&refusing, SHORT).unwrap_err();
    assert!(error.contains("refused by the keychain"), "{error}");
    let waiting = security(&home, "*) exec sleep 600;;");
    let error = keychain::read(&waiting, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error, "no answer in time");
    let missing = keychain::read(&home.at("nothing"), SHORT).unwrap_err();
    assert!(missing.starts_with("cannot be read"), "{missing}");
    assert!(!keychain::is_there(&home.at("nothing"), SHORT));
    assert!(!keychain::is_there(&waiting, Duration::from_millis(50)));
}
