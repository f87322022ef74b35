use super::*;

const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyfDEifQ.c2lnbmF0dXJl_-x";

#[track_caller]
fn check(input: &str, expect: &str) {
    assert_eq!(text(input), expect, "for {input:?}");
}

#[test]
fn secrets_in_free_text() {
    check(&format!("got {JWT}, expired"), "got ***, expired");
    check(&format!("Authorization: Bearer {JWT}"), "Authorization: Bearer ***");
    check("authorization: bearer abc123", "authorization: bearer ***");
    check("header Bearer abcdef was refused", "header Bearer *** was refused");
    check("key crsr_0123456789abcdef0123 is bad", "key crsr_*** is bad");
    check("key ibk_0123456789abcdef0123 is bad", "key ibk_*** is bad");
    check("key sk-proj-0123456789abcdef is bad", "key sk-*** is bad");
    check(r#"{"accessToken":"a b!c","x":1}"#, r#"{"accessToken":"***","x":1}"#);
    check(r#"{"refresh_token" : "abc"}"#, r#"{"refresh_token" : "***"}"#);
    check(r#"{"apiKey":'abc',"n":2}"#, r#"{"apiKey":'***',"n":2}"#);
    check(r#""{\"accessToken\":\"a b\",\"x\":1}""#, r#""{\"accessToken\":\"***\",\"x\":1}""#);
    check("?access_token=abc&next=1", "?access_token=***&next=1");
    check("CURSOR_ACCESS_TOKEN=p@ss!word next", "CURSOR_ACCESS_TOKEN=*** next");
    check("cookie: a=b", "cookie: ***");
    check("x-cursor-checksum: zAbc/def", "x-cursor-checksum: ***");
    check("token=abc", "token=***");
    check("one sk-aaaaaaaaaaaaaaaaaaaa two Bearer b3", "one sk-*** two Bearer ***");
}

#[test]
fn harmless_text_is_left_alone() {
    for harmless in [
        "",
        "set `CURSOR_ACCESS_TOKEN` or run with `--sim`",
        "input_tokens: 15, output_tokens: 3",
        "the bearer of bad news",
        "model gpt-5.4 at http://127.0.0.1:18741/v1",
        "sk-short",
        "key_id stays, monkey_business_is_not_a_key too",
        "eyJ is how they begin",
        "umlaute: äöü, 漢字",
    ] {
        if harmless == "the bearer of bad news" {
            // Words after `bearer ` are taken for credentials: the safe mistake.
            check(harmless, "the bearer *** bad news");
            continue;
        }
        check(harmless, harmless);
    }
}

#[test]
fn sensitive_names() {
    for name in ["accessToken", "refresh_token", "API-Key", "Authorization", "client_secret"] {
        assert!(is_sensitive(name), "{name}");
    }
    for name in ["x-request-id", "model", "max_tokens", "content-type", "prompt_tokens"] {
        assert!(!is_sensitive(name), "{name}");
    }
}

proptest::proptest! {
    /// A token never survives, whatever is around it.
    #[test]
    fn a_token_is_always_masked(before in ".{0,40}", after in ".{0,40}") {
        let sentence = format!("{before} {JWT} {after}");
        proptest::prop_assert!(!text(&sentence).contains(JWT));
        let json = format!("{before}{{\"accessToken\":\"{JWT}\"}}{after}");
        proptest::prop_assert!(!text(&json).contains("c2lnbmF0dXJl"));
    }
}
