//! What we hand out as `encrypted_content`: text that a client keeps for us and sends back.
//!
//! It is encoded, not encrypted. A client with a token was given the same text in clear
//! (the summary of the reasoning, the answer to its own compaction), so there is nothing to
//! hide from it, and a text that a client forges is one that it could as well have written
//! into a message. The form only keeps our tokens apart from those of other servers, which
//! clients carry over when they change servers in the middle of a conversation.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// What the text of a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Reasoning,
    Summary,
}

impl TokenKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Reasoning => "ibeam-r1.",
            Self::Summary => "ibeam-c1.",
        }
    }

    pub(super) fn seal(self, text: &str) -> String {
        let mut token = self.prefix().to_owned();
        URL_SAFE_NO_PAD.encode_string(text, &mut token);
        token
    }

    /// The text, if the token is one of ours and of this kind.
    pub(super) fn open(self, token: &str) -> Option<String> {
        let text = URL_SAFE_NO_PAD.decode(token.strip_prefix(self.prefix())?).ok()?;
        String::from_utf8(text).ok()
    }
}
