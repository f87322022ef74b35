//! The answer to unknown paths: what is served instead.

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, Uri, header};
use ibeam_core::error::{ErrorCode, TurnError};

use super::{Ctx, GatewayService, error, openapi, short};

/// Endpoints of the APIs whose dialects we speak, and why they are not here.
const ABSENT: [(&str, &str); 16] = [
    ("embeddings", "Cursor does not offer embeddings"),
    ("images", "Cursor does not generate images"),
    ("videos", "Cursor does not generate videos"),
    ("audio", "Cursor does not offer speech or audio"),
    ("realtime", "Cursor does not offer speech or audio"),
    ("moderations", "Cursor does not offer moderation"),
    ("fine_tuning", "Cursor does not offer fine-tuning"),
    ("files", "this gateway does not store files; include the content in the request"),
    ("uploads", "this gateway does not store files; include the content in the request"),
    ("vector_stores", "this gateway does not store files; include the content in the request"),
    ("batches", "this gateway does not run batches; send the requests one by one"),
    ("messages/batches", "this gateway does not run batches; send the requests one by one"),
    ("assistants", "assistants are not supported; use chat completions or responses"),
    ("threads", "assistants are not supported; use chat completions or responses"),
    ("conversations", "conversation objects are not supported; send the messages, or a session id"),
    ("complete", "this API is obsolete; use messages"),
];

pub(super) async fn not_found<S: GatewayService>(
    State(shared): Ctx<S>,
    method: Method,
    uri: Uri,
) -> Response {
    // Asks about the server as a whole.
    if method == Method::OPTIONS && uri.path() == "*" {
        let allow = [(header::ALLOW, "GET, HEAD, POST, OPTIONS")];
        return (StatusCode::NO_CONTENT, allow).into_response();
    }
    let path = short(uri.path());
    let parts = parts(path);
    let served = openapi::endpoints(shared.service.settings().websocket).join(", ");
    let text = match (meant(&parts), absent(&parts)) {
        (Some(meant), _) => format!("there is no {method} {path}; did you mean {meant}?"),
        (None, Some(why)) => {
            format!("there is no {method} {path}: {why}. This gateway serves {served}")
        }
        (None, None) => format!("there is no {method} {path}; this gateway serves {served}"),
    };
    error::response(&TurnError::new(ErrorCode::RouteNotFound, text))
}

/// The words of a path, without the `/v1` that a client may add to a base URL that has it
/// already, and without slashes too many.
fn parts(path: &str) -> String {
    let words = path.split('/').filter(|word| !word.is_empty());
    words.skip_while(|word| *word == "v1").collect::<Vec<_>>().join("/")
}

/// The route behind a path that is nearly right.
fn meant(parts: &str) -> Option<String> {
    if parts == "healthz" {
        return Some("/health".to_owned());
    }
    // The root has no parts, and is never meant.
    let paths = [format!("/v1/{parts}"), format!("/{parts}")];
    paths.into_iter().find(|path| !parts.is_empty() && openapi::has_path(path))
}

fn absent(parts: &str) -> Option<&'static str> {
    let under = |name: &str| {
        parts.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    ABSENT.iter().find(|(name, _)| under(name)).map(|(_, why)| *why)
}
