use super::*;

fn shown(profile: &Profile, call: Call) -> Vec<String> {
    let ids = Ids { request: "r-1", original: Some("o-1") };
    let headers = profile.headers(call, &"tok".to_owned().into(), ids).unwrap();
    let mut lines: Vec<String> =
        headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn the_cli_profile() {
    let mut profile = Profile::default();
    assert_eq!(
        shown(&profile, Call::Bidi),
        [
            "authorization: Bearer tok",
            "connect-accept-encoding: gzip",
            "connect-protocol-version: 1",
            "content-type: application/connect+proto",
            "te: trailers",
            "user-agent: connect-es/1.6.1",
            "x-cursor-client-type: cli",
            "x-cursor-client-version: cli-2026.08.11-e8db854",
            "x-cursor-streaming: true",
            "x-ghost-mode: true",
            "x-original-request-id: o-1",
            "x-request-id: r-1",
        ]
    );
    profile.timezone = Some("Europe/Paris".to_owned());
    profile.ghost_mode = false;
    let unary = shown(&profile, Call::Proto);
    assert!(unary.contains(&"content-type: application/proto".to_owned()));
    assert!(unary.contains(&"x-cursor-timezone: Europe/Paris".to_owned()));
    assert!(unary.contains(&"x-ghost-mode: false".to_owned()));
    assert!(!unary.iter().any(|line| line.starts_with("te:") || line.contains("streaming")));
}

#[test]
fn a_token_that_is_no_header_is_not_repeated() {
    let ids = Ids { request: "r", original: None };
    let secret = "line\nbreak".to_owned().into();
    let error = Profile::default().headers(Call::Proto, &secret, ids).unwrap_err();
    assert_eq!(error.to_string(), "the access token has characters that a header cannot carry");
}

#[test]
fn the_authorization_is_marked_as_sensitive() {
    let ids = Ids { request: "r", original: None };
    let headers = Profile::default().headers(Call::Proto, &"tok".to_owned().into(), ids).unwrap();
    assert!(!format!("{headers:?}").contains("tok"), "{headers:?}");
}

#[test]
fn the_newest_installed_build_counts() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(installed_cli_version(home.path()), None);
    let versions = home.path().join(VERSIONS);
    for name in ["2026.07.16-899851b", "2026.10.22-27dcf5f", "9999", "tmp-2026", "2026.1.1-abcdef0"]
    {
        std::fs::create_dir_all(versions.join(name)).unwrap();
    }
    std::fs::write(versions.join("2027.01.01-aaaaaaa"), "a file").unwrap();
    let found = installed_cli_version(home.path());
    assert_eq!(found.as_deref(), Some("cli-2026.10.22-27dcf5f"));
}

#[test]
fn builds_are_told_from_other_names() {
    for name in ["2026.08.11-e8db854", "2026.09.02-fa0c06e-lab"] {
        assert!(is_build(name), "{name}");
    }
    for name in
        ["2026.08.11", "2026.8.11-e8db854", "2026.08.11-xyz", "latest", "2026.08.11-e8db854/.."]
    {
        assert!(!is_build(name), "{name}");
    }
}
