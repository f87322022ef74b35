//! What an access token says about itself. Nothing is verified: the token is ours, and
//! only its issuer can judge it. Whatever cannot be read is taken for not said.

use base64::{Engine as _, alphabet, engine};
use serde_json::Value;

/// Padded or not, as tokens come.
const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::URL_SAFE,
    engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(engine::DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A real one is about 1 kB.
const LARGEST: usize = 64 * 1024;

/// The claims that matter here. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pub expires: Option<u64>,
    /// `iat`, or Cursor's own `time`.
    pub issued: Option<u64>,
    /// Names the account: `auth0|user_…`.
    pub subject: Option<String>,
    /// `session` for tokens of the CLI and the IDE, `web` for those of the website.
    pub kind: Option<String>,
    pub issuer: Option<String>,
    pub audience: Option<String>,
    pub scope: Option<String>,
    pub email: Option<String>,
}

impl Claims {
    /// The account without the name of the service that vouches for it.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.subject.as_deref()?.rsplit('|').next().filter(|id| !id.is_empty())
    }
}

/// Reads the claims of a token. One that is not a JWT has none.
#[must_use]
pub fn claims(token: &str) -> Claims {
    let Some(body) = body(token) else { return Claims::default() };
    let text = |name: &str| {
        let text = body.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let audience = body.get("aud").and_then(|aud| aud.as_str().or_else(|| aud.get(0)?.as_str()));
    Claims {
        expires: seconds(body.get("exp")),
        issued: seconds(body.get("iat")).or_else(|| seconds(body.get("time"))),
        subject: text("sub"),
        kind: text("type"),
        issuer: text("iss"),
        audience: audience.map(str::to_owned),
        scope: text("scope"),
        email: text("email"),
    }
}

fn body(token: &str) -> Option<Value> {
    let token = token.trim();
    if token.len() > LARGEST {
        return None;
    }
    let mut parts = token.split('.');
    let (_head, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let json = BASE64.decode(claims).ok()?;
    serde_json::from_slice(&json).ok().filter(Value::is_object)
}

/// A moment, as number or as digits in text. Milliseconds are recognised by their size.
fn seconds(value: Option<&Value>) -> Option<u64> {
    const TOO_LARGE: u64 = 100_000_000_000;
    let value = value?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    let fraction = |n: f64| (0.0..1e15).contains(&n).then_some(n as u64);
    let number = value
        .as_u64()
        .or_else(|| value.as_f64().and_then(fraction))
        .or_else(|| value.as_str()?.trim().parse().ok())?;
    let number = if number >= TOO_LARGE { number / 1000 } else { number };
    (number > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        let encode = |text: &str| engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", encode(r#"{"alg":"HS256"}"#), encode(claims), encode("sig"))
    }

    #[test]
    fn claims_of_a_real_token() {
        let claims = claims(&token(
            r#"{"sub":"auth0|user_01","time":"1735689600","randomness":"x","exp":1740873600,
               "iss":"https://authentication.cursor.sh","aud":"https://cursor.com",
               "scope":"openid profile email offline_access","type":"session"}"#,
        ));
        assert_eq!(claims.expires, Some(1_740_873_600));
        assert_eq!(claims.issued, Some(1_735_689_600));
        assert_eq!(claims.subject.as_deref(), Some("auth0|user_01"));
        assert_eq!(claims.user_id(), Some("user_01"));
        assert_eq!(claims.kind.as_deref(), Some("session"));
        assert_eq!(claims.issuer.as_deref(), Some("https://authentication.cursor.sh"));
        assert_eq!(claims.audience.as_deref(), Some("https://cursor.com"));
        assert!(claims.scope.unwrap().contains("offline_access"));
    }

    #[test]
    fn odd_shapes_are_tolerated() {
        for (text, expires, issued) in [
            (r#"{"exp":1740873600.5,"iat":1}"#, Some(1_740_873_600), Some(1)),
            (r#"{"exp":"1740873600"}"#, Some(1_740_873_600), None),
            (r#"{"exp":1740873600000}"#, Some(1_740_873_600), None),
            (r#"{"exp":-5,"iat":"soon"}"#, None, None),
            (r#"{"exp":null,"iat":9,"time":"7"}"#, None, Some(9)),
            (r#"{"exp":0}"#, None, None),
            (r#"{"exp":1e300}"#, None, None),
            ("[1]", None, None),
            ("not json", None, None),
        ] {
            let claims = claims(&token(text));
            assert_eq!((claims.expires, claims.issued), (expires, issued), "{text}");
        }
        assert_eq!(claims(&token(r#"{"aud":["a","b"]}"#)).audience.as_deref(), Some("a"));
        assert_eq!(claims(&token(r#"{"sub":"plain"}"#)).user_id(), Some("plain"));
        let padded = format!("h.{}.s", engine::general_purpose::URL_SAFE.encode(r#"{"exp":12}"#));
        assert_eq!(claims(&padded).expires, Some(12));
    }

    #[test]
    fn invalid_token_has_no_claims() {
        for text in ["", ".", "..", "a.b", "crsr_0123", "a.!!.c", &"x".repeat(LARGEST + 1)] {
            assert_eq!(claims(text), Claims::default(), "{text:.20}");
        }
    }
}
