//! The headers of the Agent API in its CLI profile, the one it requires.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::DEFAULT_CLIENT_VERSION;

const USER_AGENT: &str = "connect-es/1.6.1";

/// What identifies this client.
#[derive(Clone, Debug)]
pub struct ClientProfile {
    /// With the prefix `cli-`. A version that is too old is refused.
    pub client_version: String,
    /// Privacy mode.
    pub ghost_mode: bool,
    /// An IANA name such as `Europe/Paris`.
    pub timezone: Option<String>,
    /// 64 hexadecimal digits. None: it is left out.
    pub blob_key: Option<String>,
}

/// Which kind of call the headers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `Run`, over HTTP/2.
    Bidi,
    /// `RunSSE`, over HTTP/1.1.
    ServerStream,
    /// Protobuf both ways.
    Proto,
    Json,
}

/// What differs from call to call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallHeaders<'a> {
    pub(super) request: &'a str,
    pub(super) original: Option<&'a str>,
    /// For the calls of a run: the tools that its model may use. Empty: none.
    pub(super) allowed_tools: Option<&'a str>,
}

/// A value that no header may have. It is not shown, because it may be the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} has characters that a header cannot carry")]
pub(super) struct BadValue(&'static str);

impl Default for ClientProfile {
    fn default() -> Self {
        Self {
            client_version: DEFAULT_CLIENT_VERSION.to_owned(),
            ghost_mode: true,
            timezone: None,
            blob_key: None,
        }
    }
}

impl ClientProfile {
    pub(super) fn headers(
        &self,
        call: CallKind,
        token: &SecretString,
        ids: CallHeaders<'_>,
    ) -> Result<HeaderMap, BadValue> {
        let text = |value: &str, what| HeaderValue::from_str(value).map_err(|_| BadValue(what));
        let mut out = HeaderMap::with_capacity(16);
        let mut bearer = text(&format!("Bearer {}", token.expose_secret()), "access token")?;
        bearer.set_sensitive(true);
        out.insert(header::AUTHORIZATION, bearer);
        out.insert(header::CONTENT_TYPE, HeaderValue::from_static(call.content_type()));
        out.insert(name("connect-protocol-version"), HeaderValue::from_static("1"));
        out.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        out.insert(name("x-cursor-client-type"), HeaderValue::from_static("cli"));
        let version = text(&self.client_version, "client version")?;
        out.insert(name("x-cursor-client-version"), version);
        let ghost = if self.ghost_mode { "true" } else { "false" };
        out.insert(name("x-ghost-mode"), HeaderValue::from_static(ghost));
        out.insert(name("x-request-id"), text(ids.request, "request id")?);
        if let Some(original) = ids.original {
            out.insert(name("x-original-request-id"), text(original, "request id")?);
        }
        if let Some(tools) = ids.allowed_tools {
            out.insert(name("x-cursor-agent-allowed-tools"), text(tools, "list of tools")?);
        }
        if let Some(zone) = &self.timezone {
            out.insert(name("x-cursor-timezone"), text(zone, "timezone")?);
        }
        if let Some(key) = self.blob_key.as_ref().filter(|_| ids.allowed_tools.is_some()) {
            let mut key = text(key, "key for blobs")?;
            key.set_sensitive(true);
            out.insert(name("x-blob-encryption-key"), key);
        }
        match call {
            CallKind::Bidi | CallKind::ServerStream => {
                // Without it the answer may come in blobs only.
                out.insert(name("x-cursor-streaming"), HeaderValue::from_static("true"));
                out.insert(name("connect-accept-encoding"), HeaderValue::from_static("gzip"));
            }
            CallKind::Proto | CallKind::Json => {
                out.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            }
        }
        if call == CallKind::Bidi {
            out.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        Ok(out)
    }
}

impl CallKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Bidi | Self::ServerStream => "application/connect+proto",
            Self::Proto => "application/proto",
            Self::Json => "application/json",
        }
    }
}

fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
