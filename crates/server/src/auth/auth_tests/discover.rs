//! Every place a credential may be in, and which of them wins.

use rusqlite::Connection;

use super::*;
use crate::auth::{discover::discover_in, paths::System};

const CLI: &str = ".config/cursor/auth.json";
const DOT_CURSOR: &str = ".cursor/auth.json";
const IDE: &str = ".config/Cursor/User/globalStorage/state.vscdb";
const LEGACY: &str = ".cursor/credentials/cursor.json";
const OPEN_CODE: &str = ".local/share/opencode/auth.json";

/// Looks as on Linux, whatever system this is.
fn search(home: &Home, pairs: &[(&str, &str)], profile: &str, kinds: &[ConsentKind]) -> Discovery {
    attempt(home, pairs, profile, &home.consents(kinds)).unwrap()
}

fn attempt(
    home: &Home,
    pairs: &[(&str, &str)],
    profile: &str,
    consents: &Consents,
) -> Result<Discovery, DiscoverError> {
    let env = env(pairs);
    let places = CredentialPaths::on(System::Linux, &env, home.path());
    discover_in(&places, &env, &profile.parse().unwrap(), consents)
}

fn ide(home: &Home, rows: &[(&str, &str)]) -> PathBuf {
    let path = home.write(IDE, "");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        .unwrap();
    for (key, value) in rows {
        db.execute("INSERT INTO ItemTable VALUES (?1, ?2)", (key, value)).unwrap();
    }
    path
}

/// Every program is signed in.
async fn furnish(home: &Home) {
    home.save("default", &Credential::of_access_token("own")).await;
    home.write(CLI, r#"{"accessToken":"cli"}"#);
    home.write(DOT_CURSOR, r#"{"accessToken":"dot-cursor"}"#);
    ide(home, &[("cursorAuth/accessToken", "ide")]);
    home.write(LEGACY, r#"{"type":"oauth","access":"legacy"}"#);
    home.write(OPEN_CODE, r#"{"cursor":{"type":"oauth","access":"opencode"}}"#);
}

#[tokio::test]
async fn credentials_are_searched_in_the_documented_order() {
    let home = Home::new();
    furnish(&home).await;
    let mut vars = vec![
        ("IBEAM_ACCESS_TOKEN", "v1"),
        ("CURSOR_ACCESS_TOKEN", "v2"),
        ("CURSOR_AUTH_TOKEN", "v3"),
        ("CURSOR_API_KEY", "v4"),
    ];
    let mut order = Vec::new();
    loop {
        let Some(found) = search(&home, &vars, "default", &ConsentKind::ALL).found else { break };
        let token = found.credential.access_token.or(found.credential.api_key).unwrap();
        order.push(token.expose_secret().to_owned());
        // What was found is taken away, and the next in line comes up.
        match found.source {
            CredentialSource::Env(name) => vars.retain(|(var, _)| *var != name),
            CredentialSource::ApiKeyEnv => vars.retain(|(var, _)| *var != "CURSOR_API_KEY"),
            CredentialSource::Own(profile) => {
                let lock = home.file(profile.as_str()).lock(SHORT).await.unwrap();
                lock.remove().unwrap();
            }
            CredentialSource::CliFile(path)
            | CredentialSource::Ide(path)
            | CredentialSource::Legacy(path)
            | CredentialSource::OpenCode(path) => fs::remove_file(path).unwrap(),
            CredentialSource::Keychain(_) => unreachable!(),
        }
    }
    let expect = ["v1", "v2", "v3", "v4", "own", "cli", "dot-cursor", "ide", "legacy", "opencode"];
    assert_eq!(order, expect);
}

#[tokio::test]
async fn foreign_files_without_consent_are_reported_but_not_read() {
    let home = Home::new();
    furnish(&home).await;
    home.file("default").lock(SHORT).await.unwrap().remove().unwrap();
    // Would be reported as unusable if it were read.
    home.write(CLI, "no JSON");
    let discovery = search(&home, &[], "default", &[]);
    assert!(discovery.found.is_none());
    let reported: Vec<_> = discovery
        .refused
        .iter()
        .map(|refused| (refused.place.clone(), refused.command().unwrap()))
        .collect();
    let expect = [
        (CLI, "ibeam login --use cli"),
        (DOT_CURSOR, "ibeam login --use cli"),
        (IDE, "ibeam login --use ide"),
        (LEGACY, "ibeam login --use legacy"),
        (OPEN_CODE, "ibeam login --use opencode"),
    ];
    let expect =
        expect.map(|(place, command)| (home.at(place).display().to_string(), command.to_owned()));
    assert_eq!(reported, expect);
    assert!(discovery.refused.iter().all(|refused| refused.why == RefusedReason::NoConsent));
    let text = discovery.refused[2].to_string();
    let path = home.at(IDE);
    let expect = format!(
        "the Cursor IDE may be signed in ({}); `ibeam login --use ide` lets ibeam use that sign-in",
        path.display()
    );
    assert_eq!(text, expect);
}

#[tokio::test]
async fn consent_covers_one_kind_until_it_is_revoked() {
    let home = Home::new();
    furnish(&home).await;
    home.file("default").lock(SHORT).await.unwrap().remove().unwrap();
    let rows = [
        (ConsentKind::OpenCode, "opencode", 4),
        (ConsentKind::Legacy, "legacy", 3),
        (ConsentKind::Ide, "ide", 2),
        (ConsentKind::Cli, "cli", 0),
    ];
    for (kind, token, refused) in rows {
        let discovery = search(&home, &[], "default", &[kind]);
        let found = discovery.found.unwrap().credential.access_token.unwrap();
        assert_eq!(found.expose_secret(), token);
        // Those that come later were not looked for.
        assert_eq!(discovery.refused.len(), refused, "{kind}");
        let mut consents = Consents::load(&home.config()).unwrap();
        consents.revoke(kind).unwrap();
        assert!(attempt(&home, &[], "default", &consents).unwrap().found.is_none());
    }
}

#[tokio::test]
async fn named_profile_never_falls_back_to_another_account() {
    let home = Home::new();
    furnish(&home).await;
    let discovery = search(&home, &[], "work", &ConsentKind::ALL);
    assert!(discovery.found.is_none() && discovery.refused.is_empty());
    home.save("work", &Credential::of_access_token("at-work")).await;
    for (profile, token) in [("work", "at-work"), ("default", "own")] {
        let found = search(&home, &[], profile, &ConsentKind::ALL).found.unwrap();
        assert_eq!(found.source, CredentialSource::Own(profile.parse().unwrap()));
        assert_eq!(found.credential.access_token.unwrap().expose_secret(), token);
    }
}

#[tokio::test]
async fn unusable_given_credential_is_an_error() {
    let home = Home::new();
    furnish(&home).await;
    for name in ["CURSOR_ACCESS_TOKEN", "CURSOR_AUTH_TOKEN", "CURSOR_API_KEY"] {
        let error =
            attempt(&home, &[(name, "se cret")], "default", &home.consents(&ConsentKind::ALL));
        let text = error.unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "{name} has a space or another character that is invalid in a \
                                  token"
            )
        );
    }
    let copied = search(&home, &[("CURSOR_ACCESS_TOKEN", " Bearer abc\n")], "default", &[]);
    assert_eq!(secrets(&copied.found.unwrap().credential), ["abc", "", ""]);
    let empty = search(&home, &[("CURSOR_ACCESS_TOKEN", " ")], "default", &[]);
    assert_eq!(empty.found.unwrap().source, CredentialSource::Own(Profile::default()));

    fs::write(home.file("default").path(), "{").unwrap();
    let error = attempt(&home, &[], "default", &home.consents(&ConsentKind::ALL)).unwrap_err();
    assert!(matches!(error, DiscoverError::File(AuthFileError::Malformed { .. })), "{error:?}");
    // The environment comes before it.
    assert!(search(&home, &[("CURSOR_API_KEY", "k")], "default", &[]).found.is_some());
}

#[test]
fn signed_out_foreign_file_is_skipped() {
    let home = Home::new();
    home.write(CLI, "{}");
    ide(&home, &[("cursorAuth/cachedEmail", "me@example.com")]);
    home.write(LEGACY, r#"{"type":"oauth","access":"","refresh":"|"}"#);
    home.write(OPEN_CODE, r#"{"anthropic":{"type":"api","key":"sk-1"}}"#);
    let discovery = search(&home, &[], "default", &ConsentKind::ALL);
    assert!(discovery.found.is_none());
    assert_eq!(discovery.refused, []);
}

#[test]
fn invalid_foreign_file_is_reported_and_the_search_continues() {
    let home = Home::new();
    home.write(CLI, "MARKED");
    home.write(DOT_CURSOR, "[\"MARKED\"]");
    home.write(IDE, "MARKED: no database, though it is long enough to be taken for one");
    home.write(LEGACY, r#"{"type":"oauth","access":["MARKED"]}"#);
    home.write(".cursor/credentials/b.json", r#"{"type":"MARKED","access":"MARKED"}"#);
    home.write(".cursor/credentials/a.json", r#"{"access":"MARKED token"}"#);
    home.write(".cursor/credentials/notes.txt", "MARKED");
    home.write(OPEN_CODE, r#"{"cursor":{"type":"oauth","refresh":"good|key"}}"#);
    let discovery = search(&home, &[], "default", &ConsentKind::ALL);
    assert_eq!(secrets(&discovery.found.as_ref().unwrap().credential), ["", "good", "key"]);
    let why = |refused: &RefusedCredential| match &refused.why {
        RefusedReason::Unusable(what) => what.clone(),
        RefusedReason::NoConsent => panic!("{refused:?}"),
    };
    let whys: Vec<_> = discovery.refused.iter().map(why).collect();
    let expect = [
        "not valid JSON at line 1",
        "not a JSON object",
        "cannot be read: file is not a database",
        "`access` is not a string",
        "`access` is not a valid token",
        "a `type` that ibeam does not know",
    ];
    assert_eq!(whys, expect);
    let text = discovery.refused[0].to_string();
    assert!(text.ends_with("auth.json of the Cursor CLI: not valid JSON at line 1"), "{text}");
    assert!(discovery.refused.iter().all(|refused| refused.command().is_none()));
    assert!(!format!("{discovery:?}").contains("MARKED"));
}
