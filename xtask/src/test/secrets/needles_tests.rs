use super::*;

const SECRET: &str = "c2ltdWxhdGVkLXNpZ25hdHVyZQ";

#[track_caller]
fn check(text: &str, forms: &[&str]) {
    let found: Vec<_> = SecretNeedles::of([SECRET]).find(text.as_bytes()).into_keys().collect();
    assert_eq!(found, forms, "{text:?}");
}

#[test]
fn a_secret_is_found_in_every_form() {
    let (first, last) = SECRET.split_at(SECRET.len() / 2);
    let backwards: String = SECRET.chars().rev().collect();
    for text in [SECRET, &format!("token={SECRET}&x=1"), &format!("{first}…"), &format!("…{last}")]
    {
        check(text, &["plain"]);
    }
    check(&backwards, &["backwards"]);
    for before in ["", "a", "ab", "abc"] {
        let text = format!("{before}{SECRET} and more");
        check(&general_purpose::STANDARD.encode(&text), &["base64"]);
        check(&general_purpose::URL_SAFE_NO_PAD.encode(&text), &["base64"]);
    }
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    check(&hex, &["hex"]);
    check(&hex.to_uppercase(), &["hex"]);
    let percent: String = SECRET.bytes().map(|byte| format!("%{byte:02X}")).collect();
    check(&percent, &["percent"]);
    check(&format!("{:?}", SECRET.as_bytes()), &["a list of bytes"]);
    let wide: Vec<u8> = SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(SecretNeedles::of([SECRET]).find(&wide).contains_key("UTF-16"));
}

#[test]
fn short_text_is_not_a_secret() {
    check(&format!("{}…{}", &SECRET[..PIECE - 1], &SECRET[SECRET.len() - PIECE + 1..]), &[]);
    check("", &[]);
    check("the simulated signature, and words such as c2lt", &[]);
}

#[test]
fn unknown_secrets_are_known_by_their_shape() {
    let shape = ["by its shape"];
    check("got crsr_0123456789abcdef", &shape);
    check("got ibk_0123456789abcdef", &shape);
    check("GET /auth/poll?uuid=1&verifier=abcdefghijklmnopqrst", &shape);
    check("-----BEGIN EC PRIVATE KEY-----\n", &shape);
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyfDEifQ.c2lnbmF0dXJl", &shape);
    for harmless in
        ["crsr_***", "ibk_short", "verifier=***", "a PRIVATE KEY", "eyJhbGciOiJIUzI1NiJ9"]
    {
        check(harmless, &[]);
    }
}

#[test]
fn place_of_a_secret_is_reported() {
    let text = format!("0123456789{SECRET}");
    assert_eq!(SecretNeedles::of([SECRET]).find(text.as_bytes()).get("plain"), Some(&10));
}
