use super::*;

#[test]
fn consent_holds_until_it_is_revoked() {
    let home = Home::new();
    let mut consents = Consents::load(&home.config()).unwrap();
    assert_eq!(consents.list().count(), 0);
    assert!(!consents.path().exists(), "asking writes nothing");

    consents.grant(ConsentKind::Ide, 100).unwrap();
    consents.grant(ConsentKind::Cli, 200).unwrap();
    consents.grant(ConsentKind::Ide, 300).unwrap();
    let again = || Consents::load(&home.config()).unwrap();
    assert_eq!(
        again().list().collect::<Vec<_>>(),
        [(ConsentKind::Cli, 200), (ConsentKind::Ide, 100)]
    );
    assert!(again().has(ConsentKind::Ide) && !again().has(ConsentKind::OpenCode));

    assert!(consents.revoke(ConsentKind::Ide).unwrap());
    assert!(!consents.revoke(ConsentKind::Ide).unwrap());
    assert_eq!(again().list().collect::<Vec<_>>(), [(ConsentKind::Cli, 200)]);
    assert!(!consents.has(ConsentKind::Ide));
}

#[test]
fn processes_do_not_overwrite_each_others_consents() {
    let home = Home::new();
    let mut one = Consents::load(&home.config()).unwrap();
    let mut two = Consents::load(&home.config()).unwrap();
    one.grant(ConsentKind::Cli, 1).unwrap();
    two.grant(ConsentKind::Ide, 2).unwrap();
    let both = Consents::load(&home.config()).unwrap();
    assert!(both.has(ConsentKind::Cli) && both.has(ConsentKind::Ide));
}

#[test]
fn unknown_consents_of_a_later_version_are_kept() {
    let home = Home::new();
    let mut consents = home.consents(&[ConsentKind::Cli]);
    let text = fs::read_to_string(consents.path()).unwrap();
    fs::write(consents.path(), text.replace('{', r#"{"newer": {"since": 5},"#)).unwrap();
    consents.grant(ConsentKind::Legacy, 7).unwrap();
    let text = fs::read_to_string(consents.path()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expect = serde_json::json!({"newer": {"since": 5}, "cli": 1_700_000_000, "legacy": 7});
    assert_eq!(value, expect);
}

#[test]
fn damaged_consent_file_grants_nothing() {
    let home = Home::new();
    let mut consents = home.consents(&[ConsentKind::Cli]);
    fs::write(consents.path(), "{").unwrap();
    let error = Consents::load(&home.config()).unwrap_err();
    assert!(matches!(error, FileError::Invalid { .. }), "{error:?}");
    assert!(consents.grant(ConsentKind::Ide, 1).is_err() && !consents.has(ConsentKind::Ide));
    assert_eq!(fs::read_to_string(consents.path()).unwrap(), "{", "it is left for the user");
}

#[test]
fn consent_file_that_others_can_write_grants_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let consents = home.consents(&[ConsentKind::Cli]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(consents.path()), 0o600);
    assert_eq!(mode(&home.config()), 0o700);
    fs::set_permissions(consents.path(), fs::Permissions::from_mode(0o620)).unwrap();
    let error = Consents::load(&home.config()).unwrap_err();
    assert!(matches!(error, FileError::Exposed { what: "change", .. }), "{error:?}");
}

#[test]
fn consent_kinds_have_names() {
    for kind in ConsentKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "vscode".parse::<ConsentKind>().unwrap_err();
    assert_eq!(error, "`vscode` is not one of `cli`, `keychain`, `ide`, `legacy`, `opencode`");
}

#[tokio::test]
async fn damaged_consent_file_matters_only_when_it_is_needed() {
    let home = Home::new();
    let consents = home.consents(&[ConsentKind::Cli]);
    fs::write(consents.path(), "{").unwrap();
    let look = |pairs: &[(&str, &str)]| {
        LocalUser::with(env(pairs), home.path(), Profile::default()).discover()
    };
    // There is nothing that it could allow.
    assert!(look(&[]).unwrap().found.is_none());
    home.write(".config/cursor/auth.json", r#"{"accessToken":"theirs"}"#);
    let error = look(&[]).unwrap_err();
    assert!(error.to_string().contains("delete it to reset the consents"), "{error}");
    // What goes before in the order does not need it.
    let key = look(&[("CURSOR_API_KEY", "k")]).unwrap().found.unwrap();
    assert_eq!(key.source, CredentialSource::ApiKeyEnv);
    home.save("default", &credential("own")).await;
    let own = look(&[]).unwrap().found.unwrap();
    assert_eq!(own.source, CredentialSource::Own(Profile::default()));
}
