//! Signing in and staying so, without a socket: what to ask Cursor's sign-in service,
//! when, and what its answers mean.
//!
//! The machines ([`poll::Poll`], [`refresh::Refresh`]) say what to do next; the caller
//! does it and passes the outcome back.

pub mod jwt;
pub mod pkce;
pub mod poll;
pub mod refresh;
pub mod schedule;

use std::{fmt, time::Duration};

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::Value;

use crate::{model::Millis, redact};

/// An exchange with the sign-in service takes no longer than this.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The longest piece of the service's words that is passed on.
const WORDS: usize = 300;

/// One request to the sign-in service.
pub struct AuthRequest {
    /// A GET without one, a POST of JSON with one.
    pub body: Option<SecretString>,
    /// Path and query. The query may hold the proof of a login.
    pub path: SecretString,
    pub bearer: Option<SecretString>,
}

impl fmt::Debug for AuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthRequest").finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
pub enum AuthOutcome {
    Answer {
        status: u16,
        body: Bytes,
        retry_after: Option<Duration>,
    },
    /// No whole answer; the words say why.
    Unreachable(String),
}

/// The body may hold tokens.
impl fmt::Debug for AuthOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { status, .. } => write!(f, "Answer({status})"),
            Self::Unreachable(why) => write!(f, "Unreachable({why})"),
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub enum AuthStep<E> {
    /// Come back then.
    Wait(Millis),
    /// Send this, and pass the outcome to `on_outcome`.
    Ask(AuthRequest),
    Done(Result<Box<Grant>, E>),
}

/// Tokens that were handed out.
#[derive(Clone, Debug)]
pub struct Grant {
    pub access: SecretString,
    /// `None`: the one in use stays good.
    pub refresh: Option<SecretString>,
}

/// The words of a refusal: `{"error": "…"}`, or `{"message": "…"}`, or an object with a
/// message in place of the text.
fn words(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = ["error_description", "message", "error"].iter().find_map(|name| {
        let value = body.get(name)?;
        value.as_str().or_else(|| value.get("message")?.as_str())
    })?;
    let text: String = text.chars().filter(|c| !c.is_control()).take(WORDS).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| redact::text(text).into_owned())
}

/// A text field that is there and not empty.
fn field(body: &Value, name: &str) -> Option<SecretString> {
    let text = body.get(name)?.as_str()?.trim();
    // A header must be able to carry it.
    let usable = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    usable.then(|| SecretString::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_extracted_and_shortened() {
        for (body, want) in [
            (r#"{"error":"Not allowed"}"#, Some("Not allowed")),
            (r#"{"error":{"message":"deep"}}"#, Some("deep")),
            (r#"{"error":"access_denied","error_description":"Why"}"#, Some("Why")),
            ("{\"error\":\"a\\u001b[31mb\"}", Some("a[31mb")),
            (r#"{"error":""}"#, None),
            (r#"{"error":7}"#, None),
            ("nonsense", None),
        ] {
            assert_eq!(words(body.as_bytes()).as_deref(), want, "{body}");
        }
        let long = format!(r#"{{"error":"{}"}}"#, "x ".repeat(500));
        assert!(words(long.as_bytes()).unwrap().len() <= WORDS);
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let request = AuthRequest {
            body: Some(SecretString::from("hidden")),
            path: SecretString::from("/auth/poll?verifier=hidden"),
            bearer: Some(SecretString::from("hidden")),
        };
        let answer = AuthOutcome::Answer {
            status: 200,
            body: Bytes::from_static(b"hidden"),
            retry_after: None,
        };
        assert!(!format!("{request:?} {answer:?}").contains("hidden"));
    }
}
