use super::*;

fn shown(profile: &ClientProfile, call: CallKind) -> Vec<String> {
    let tools = (call == CallKind::Bidi).then_some("mcp_tool_call,x");
    let ids = CallHeaders { request: "r-1", original: Some("o-1"), allowed_tools: tools };
    let headers = profile.headers(call, &"tok".to_owned().into(), ids).unwrap();
    let mut lines: Vec<String> =
        headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn headers_of_the_cli_profile() {
    let mut profile = ClientProfile::default();
    assert_eq!(
        shown(&profile, CallKind::Bidi),
        [
            "authorization: Bearer tok",
            "connect-accept-encoding: gzip",
            "connect-protocol-version: 1",
            "content-type: application/connect+proto",
            "te: trailers",
            "user-agent: connect-es/1.6.1",
            "x-cursor-agent-allowed-tools: mcp_tool_call,x",
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
    let unary = shown(&profile, CallKind::Proto);
    assert!(unary.contains(&"content-type: application/proto".to_owned()));
    assert!(unary.contains(&"x-cursor-timezone: Europe/Paris".to_owned()));
    assert!(unary.contains(&"x-ghost-mode: false".to_owned()));
    assert!(!unary.iter().any(|line| line.starts_with("te:") || line.contains("streaming")));
}

#[test]
fn invalid_header_token_is_not_repeated_in_the_error() {
    let ids = CallHeaders { request: "r", ..CallHeaders::default() };
    let secret = "line\nbreak".to_owned().into();
    let error = ClientProfile::default().headers(CallKind::Proto, &secret, ids).unwrap_err();
    assert_eq!(error.to_string(), "the access token has characters that a header cannot carry");
}

#[test]
fn authorization_is_marked_as_sensitive() {
    let ids = CallHeaders { request: "r", ..CallHeaders::default() };
    let headers =
        ClientProfile::default().headers(CallKind::Proto, &"tok".to_owned().into(), ids).unwrap();
    assert!(!format!("{headers:?}").contains("tok"), "{headers:?}");
}
