use super::*;

const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyfDEifQ.c2lnbmF0dXJl_-x";

#[track_caller]
fn check(input: &str, expect: &str) {
    assert_eq!(text(input), expect, "for {input:?}");
}

#[test]
fn secrets_in_free_text_are_masked() {
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
        "see https://docs.example/@name?a=b@c and mail me@example.com",
        "the task-0123456789abcdef0123 and a disk-0123456789abcdef",
        "invalid_api_key_for_this_account, key_value_store_capacity",
        r#"{"access_token":null,"api_key":null}"#,
        "access_token: None, refresh: 3",
        "/secrets/token/config.toml:3: no string",
        "-----BEGIN CERTIFICATE-----\nMHcC\n-----END CERTIFICATE-----",
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
fn sensitive_names_are_recognised() {
    for name in ["accessToken", "refresh_token", "API-Key", "Authorization", "client_secret"] {
        assert!(is_sensitive(&plain(name)), "{name}");
    }
    for name in ["x-request-id", "model", "max_tokens", "content-type", "prompt_tokens"] {
        assert!(!is_sensitive(&plain(name)), "{name}");
    }
}

#[test]
fn tokens_in_urls_and_cookies_are_masked() {
    check(&format!("user_01AB%3A%3A{JWT}"), "user_01AB%3A%3A***");
    check(&format!("user_01AB::{JWT}; path=/"), "user_01AB::***; path=/");
    check(&format!("GET /v1/{JWT}?x=1"), "GET /v1/***?x=1");
    check("GET /v1/crsr_0123456789abcdef0123", "GET /v1/crsr_***");
    check("id%3Acrsr_0123456789abcdef0123", "id%3Acrsr_***");
    check("cookie: a=b; c=d\nhost: x", "cookie: ***\nhost: x");
    check(r#"{"m":"cookie: a=b; c=d","n":1}"#, r#"{"m":"cookie: ***","n":1}"#);
    check(r#""{\"m\":\"cookie: a=b; c\"}""#, r#""{\"m\":\"cookie: ***\"}""#);
    check("http://me:p@ss@proxy:8080/x@y", "http://***@proxy:8080/x@y");
    check("https://key@host", "https://***@host");
    check("/auth/poll?uuid=1&verifier=abc_-9", "/auth/poll?uuid=1&verifier=***");
    check("access_token%3Dabc%26x", "access_token%3D***");
    check("/v1/token=abc", "/v1/token=***");
}

#[test]
fn debug_output_of_secrets_is_masked() {
    check(r#"access_token: Some("a b")"#, r#"access_token: Some("***")"#);
    check("refresh_token: Some(\n    \"abc\",\n)", "refresh_token: Some(\n    \"***\",\n)");
    check(r#""x-api-key": String("abc")"#, r#""x-api-key": String("***")"#);
    check(r#"token: b"abc""#, r#"token: b"***""#);
    check(r#""x-api-key": ["ab", "cd"], "n": 1"#, r#""x-api-key": ["***", "***"], "n": 1"#);
    check("token: [99, 50, 108], n: 1", "token: [***, ***, ***], n: 1");
    check(r#"{"password":"a\"b","n":1}"#, r#"{"password":"***","n":1}"#);
    check(r#"{"access":"abc","refresh":"def"}"#, r#"{"access":"***","refresh":"***"}"#);
    check(r#"{"token":" @!# abc","n":1}"#, r#"{"token":"***","n":1}"#);
    check(r#"token="@@@@@@@@@@abc""#, r#"token="***""#);
    check(r#"{"authorization": "Bearer abc"}"#, r#"{"authorization": "Bearer ***"}"#);
    check("authorization: Digest a=1, b=2", "authorization: ***");
    check("Authorization: Basic  dXNlcjpw", "Authorization: Basic  ***");
    check("bearer: abc", "bearer: ***");
    check(
        "\x1b[3mapi_key\x1b[0m\x1b[2m=\x1b[0mabc\x1b[0m",
        "\x1b[3mapi_key\x1b[0m\x1b[2m=\x1b[0m***\x1b[0m",
    );
    check(
        "-----BEGIN EC PRIVATE KEY-----\nMHcCAQ==\n-----END EC PRIVATE KEY-----\nmore",
        "-----BEGIN EC PRIVATE KEY-----***-----END EC PRIVATE KEY-----\nmore",
    );
    check(r"-----BEGIN PRIVATE KEY-----\nMHcC", "-----BEGIN PRIVATE KEY-----***");
}

#[test]
fn partial_tokens_are_masked() {
    check(&format!("got {}…", &JWT[..JWT.len() / 2]), "got ***…");
    let long = format!("eyJ{}", "c2lt".repeat(10));
    check(&format!("claims {long}"), "claims ***");
}

/// Secrets of every kind, each with the part that must not be seen.
fn secret() -> impl proptest::strategy::Strategy<Value = (String, String)> {
    use proptest::prelude::*;
    prop_oneof![
        "[A-Za-z0-9_-]{20,60}\\.[A-Za-z0-9_-]{20,43}"
            .prop_map(|tail| (format!("eyJhbGciOiJI.eyJ{tail}"), tail)),
        "[0-9a-f]{32,64}".prop_map(|tail| (format!("crsr_{tail}"), tail)),
        "[A-Za-z0-9_-]{43}".prop_map(|tail| (format!("ibk_{tail}"), tail)),
        "[0-9a-f]{64}".prop_map(|tail| (format!(" key_{tail}"), tail)),
        "[A-Za-z0-9+/=!@#$%^*]{16,40}".prop_map(|tail| (format!(" Bearer {tail}"), tail)),
        "[A-Za-z0-9 +/=!@#$%^*;,]{16,40}"
            .prop_map(|tail| (format!(r#" "refreshToken":"{tail}""#), tail)),
        "[A-Za-z0-9+/=!@#$%^*]{16,40}".prop_map(|tail| (format!("\nx-api-key: {tail}"), tail)),
        "[A-Za-z0-9%_-]{16,40}".prop_map(|tail| (format!("?code_verifier={tail}&"), tail)),
        "[A-Za-z0-9:%!$*_-]{16,40}".prop_map(|tail| (format!(" http://{tail}@host/"), tail)),
    ]
}

proptest::proptest! {
    /// No piece of a secret survives, whatever is around it.
    #[test]
    fn a_secret_is_masked_anywhere(
        before in "[^\"'\\\\]{0,40}",
        (whole, secret) in secret(),
        after in "([ \"',;)\\n].{0,40})?",
    ) {
        let sentence = format!("{before}{whole}{after}");
        // What the text says besides may be alike.
        let around = format!("{before} {after} {}", whole.replace(&secret, ""));
        let shown = text(&sentence);
        for at in 0..=secret.len() - 8 {
            let piece = &secret[at..at + 8];
            proptest::prop_assert!(
                !shown.contains(piece) || around.contains(piece),
                "{piece:?} in {shown:?} of {sentence:?}"
            );
        }
    }

    /// Text without a secret or a name of one is not touched.
    #[test]
    fn other_text_is_unchanged(
        words in proptest::collection::vec("[a-zA-Zäöü0-9_./-]{1,12}[ ,;:=?&(){}\\[\\]\"'\\\\]{1,3}", 0..20),
    ) {
        let words = words.concat();
        let plain = plain(&words);
        let named = ["token", "secret", "access", "refresh", "cookie", "bearer", "basic", "passw"];
        proptest::prop_assume!(!named.iter().any(|name| plain.contains(name)));
        proptest::prop_assert!(matches!(text(&words), Cow::Borrowed(_)), "{words:?}");
    }

    #[test]
    fn redacting_twice_changes_nothing(before in ".{0,40}", (whole, _) in secret(), after in ".{0,40}") {
        let once = text(&format!("{before}{whole}{after}")).into_owned();
        proptest::prop_assert_eq!(text(&once), once.as_str());
    }
}

/// Upstream's words may be long, and are looked through on the thread that answers.
#[test]
fn redacting_many_names_takes_linear_time() {
    let row = "access:".repeat(150_000);
    assert_eq!(text(&row), row);
}
