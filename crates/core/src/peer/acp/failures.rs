//! What it means when something fails. Cursor's words are read by the same table as those
//! of its CLI; the codes of the protocol only help where there are none.

use crate::{
    codec::jsonrpc::RpcError,
    error::ErrorCode,
    peer::child::Exit,
    peer::cli::{failure, plain::one_line},
    peer::{PeerFailure, Remedy},
    redact,
};

/// "Authentication required" in the protocol. Others say it for any failure of a server.
const AUTH_REQUIRED: i64 = -32000;
/// Seen if no account is signed in.
const NOT_SIGNED_IN: i64 = -32001;
/// The protocol's code for a conversation that is not there.
const NOT_FOUND: i64 = -32002;

/// How many characters of the agent's words are passed on.
const SHOWN: usize = 300;

/// The agent answered a request with an error.
pub(super) fn rpc(error: &RpcError) -> PeerFailure {
    classified(&error.words, false).unwrap_or_else(|| {
        let text = format!("cursor-agent said: {}.", shown(error));
        PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::None)
    })
}

/// Whether the agent requires a sign-in first.
pub(super) fn demands_sign_in(error: &RpcError) -> bool {
    let says = |failure: PeerFailure| failure.error.code == ErrorCode::NotAuthenticated;
    match error.code {
        NOT_SIGNED_IN => true,
        AUTH_REQUIRED if error.words.is_empty() => true,
        _ => classified(&error.words, false).is_some_and(says),
    }
}

pub(super) fn not_signed_in(error: &RpcError) -> PeerFailure {
    sign_in(&shown(error))
}

fn sign_in(said: &str) -> PeerFailure {
    let text = format!("cursor-agent is not signed in: {said}. Run `ibeam login --backend acp`.");
    PeerFailure::new(ErrorCode::NotAuthenticated, text, Remedy::None)
}

/// Whether the session that was to be resumed does not exist any more.
pub(super) fn is_lost(error: &RpcError) -> bool {
    error.code == NOT_FOUND
        || classified(&error.words, true)
            .is_some_and(|failure| failure.remedy == Remedy::FreshConversation)
}

/// A conversation could not be opened again. Whatever the reason is: unless the account or
/// the network is at fault, a new one helps.
pub(super) fn lost(error: &RpcError) -> PeerFailure {
    if !is_lost(error)
        && let Some(failure) = classified(&error.words, true)
    {
        return failure;
    }
    let said = shown(error);
    let text = format!("cursor-agent cannot resume this conversation: {said}.");
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::FreshConversation)
}

pub(super) fn cannot_load() -> PeerFailure {
    let text = "This version of cursor-agent cannot resume a conversation over ACP.";
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::FreshConversation)
}

/// The child is gone before its answer was complete. `passing` is what helps when it does not
/// say why.
pub(super) fn gone(exit: &Exit, resumed: bool, passing: Remedy) -> PeerFailure {
    classified(&exit.stderr, resumed).unwrap_or_else(|| {
        let how = match exit.code {
            Some(code) => format!("cursor-agent exited with code {code}"),
            None => "cursor-agent was killed by a signal".to_owned(),
        };
        let said = match failure::words(&exit.stderr).first() {
            Some(line) => format!(": {}", brief(line)),
            None => String::new(),
        };
        let text = format!("{how} before its answer was complete{said}.");
        PeerFailure::new(ErrorCode::UpstreamClosed, text, passing)
    })
}

pub(super) fn no_images() -> PeerFailure {
    let text = "This version of cursor-agent does not accept images over ACP. Update it, or use \
                the backend `agent`.";
    PeerFailure::new(ErrorCode::UnsupportedParameter, text, Remedy::None)
}

pub(super) fn other_protocol(version: u64) -> PeerFailure {
    let text = format!(
        "cursor-agent uses version {version} of ACP, and ibeam uses version {}. Update the older \
         of the two, or use the backend `cli`.",
        super::requests::PROTOCOL
    );
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::None)
}

pub(super) fn no_session() -> PeerFailure {
    let text = "cursor-agent opened a session without an id.";
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::Retry)
}

/// A conversation that was lost on the way ends like this.
pub(super) fn empty() -> PeerFailure {
    let text = "cursor-agent returned an empty answer. Try again.";
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::FreshConversation)
}

pub(super) fn refused() -> PeerFailure {
    let text = "The model refused to answer this.";
    PeerFailure::new(ErrorCode::PolicyDenied, text, Remedy::None)
}

pub(super) fn too_many_requests() -> PeerFailure {
    let text = "cursor-agent stopped: the turn reached its limit of model requests.";
    PeerFailure::new(ErrorCode::UpstreamError, text, Remedy::None)
}

pub(super) fn cancelled() -> PeerFailure {
    PeerFailure::new(ErrorCode::Cancelled, "The request was cancelled.", Remedy::None)
}

/// By the words, if they are known.
fn classified(words: &str, resumed: bool) -> Option<PeerFailure> {
    let lines = failure::words(words);
    let failure = failure::classify(&lines, resumed)?;
    if failure.error.code == ErrorCode::NotAuthenticated {
        // It names the command of this backend.
        return Some(sign_in(&brief(&lines.join(" "))));
    }
    Some(failure)
}

fn shown(error: &RpcError) -> String {
    match brief(&error.words) {
        said if said.is_empty() => format!("error {}", error.code),
        said => said,
    }
}

/// Without secrets, in one line, to be followed by the rest of a sentence.
fn brief(words: &str) -> String {
    one_line(&redact::text(words), SHOWN).trim_end_matches('.').to_owned()
}

#[cfg(test)]
#[path = "failures_tests.rs"]
mod tests;
