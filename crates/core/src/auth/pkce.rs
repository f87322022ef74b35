//! The proof that the program that asks for the tokens is the one that began the login.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::model::ids::uuid_from_random;

/// One login: its secret, and what the browser gets of it.
pub struct Login {
    verifier: SecretString,
    challenge: String,
    uuid: String,
}

/// The URL is public; the verifier is not.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("uuid", &self.uuid).finish_non_exhaustive()
    }
}

impl Login {
    /// From random bytes, which must never be used twice.
    #[must_use]
    pub fn new(secret: [u8; 32], id: [u8; 16]) -> Self {
        let verifier = URL_SAFE_NO_PAD.encode(secret);
        let challenge = challenge(&verifier);
        Self { verifier: SecretString::from(verifier), challenge, uuid: uuid_from_random(id) }
    }

    /// The page where the user signs in. `site` is an origin such as
    /// `https://cursor.com`.
    #[must_use]
    pub fn url(&self, site: &str) -> String {
        let Self { challenge, uuid, .. } = self;
        let site = site.trim_end_matches('/');
        format!(
            "{site}/loginDeepControl?challenge={challenge}&uuid={uuid}&mode=login&redirectTarget=cli"
        )
    }

    /// Where to ask whether the user has.
    pub(super) fn poll_path(&self) -> SecretString {
        let verifier = self.verifier.expose_secret();
        SecretString::from(format!("/auth/poll?uuid={}&verifier={verifier}", self.uuid))
    }
}

/// The hash is over the verifier's text, not over the bytes behind it.
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_matches_the_known_vector() {
        assert_eq!(challenge(&"A".repeat(43)), "DwBzhbb51LfusnSGBa_hqYSgo7-j8BTQnip4TOnlzRo");
        let login = Login::new([0; 32], [0; 16]);
        assert_eq!(login.verifier.expose_secret(), "A".repeat(43));
        assert_eq!(
            login.url("https://cursor.com"),
            "https://cursor.com/loginDeepControl?challenge=\
             DwBzhbb51LfusnSGBa_hqYSgo7-j8BTQnip4TOnlzRo&uuid=00000000-0000-4000-8000-000000000000\
             &mode=login&redirectTarget=cli"
        );
    }

    #[test]
    fn only_the_poll_carries_the_verifier() {
        let login = Login::new([0xff; 32], [1; 16]);
        let verifier = login.verifier.expose_secret();
        assert_eq!(verifier.len(), 43);
        assert!(verifier.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert!(!login.url("http://127.0.0.1:1/").contains(verifier));
        assert!(login.url("http://127.0.0.1:1/").starts_with("http://127.0.0.1:1/loginDeep"));
        assert!(!format!("{login:?}").contains(verifier));
        assert!(login.poll_path().expose_secret().ends_with(verifier));
    }
}
