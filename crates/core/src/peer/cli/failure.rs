//! What it means when the child fails, by what it says outside of its answer: on standard
//! error, in lines that are not events, and in a `result` that is an error.

use super::plain::{one_line, plain};
use crate::{
    error::ErrorCode,
    peer::child::Exit,
    peer::{PeerFailure, Remedy},
    redact,
};

/// How many characters of the child's words are passed on.
const SHOWN: usize = 300;
/// How many bytes of a complaint are looked at.
const LOOKED_AT: usize = 64 * 1024;
/// How many names of a list of models are.
const MODELS: usize = 8;

/// What a failure is about. The order of [`TABLE`] is the order in which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Region,
    Model,
    Quota,
    Outdated,
    Context,
    Trust,
    Plan,
    Login,
    Rate,
    Network,
}

/// Words in lower case. The unambiguous ones come first: a message about a plan that is
/// used up also mentions an upgrade, and one about signing in may mention the network.
const TABLE: &[(About, &[&str])] = &[
    (
        About::Region,
        &[
            "country or region",
            "region is not supported",
            "available in your country",
            "available in your region",
            "unsupported region",
        ],
    ),
    (
        About::Model,
        &[
            "cannot use this model",
            "model not found",
            "invalid model",
            "unknown model",
            "model is not available",
            "model not available",
        ],
    ),
    (
        About::Quota,
        &[
            "usage limit",
            "spend limit",
            "spending limit",
            "out of requests",
            "quota",
            "unpaid invoice",
            "payment method",
        ],
    ),
    (
        About::Outdated,
        &[
            "update required",
            "please update cursor",
            "please update to",
            "newer version of cursor",
            "version is no longer supported",
            "cursor-agent update",
        ],
    ),
    (
        About::Context,
        &["prompt is too long", "context length", "context window", "conversation is too long"],
    ),
    (
        About::Trust,
        &[
            "workspace trust",
            "do you trust",
            "pass --trust",
            "untrusted workspace",
            "untrusted directory",
            "workspace is not trusted",
            "directory is not trusted",
        ],
    ),
    (
        About::Plan,
        &[
            "upgrade to pro",
            "upgrade your plan",
            "upgrade plans",
            "requires a pro",
            "requires a paid",
            "free plans can only",
            "named models unavailable",
            "not included in your plan",
            "not available on your plan",
        ],
    ),
    (
        About::Login,
        &[
            "not logged in",
            "not authenticated",
            "unauthorized",
            "unauthenticated",
            "authentication",
            "authenticate",
            "auth error",
            "auth failed",
            "auth required",
            "auth token",
            "agent login",
            "please log in",
            "please login",
            "login required",
            "to log in",
            "to sign in",
            "please sign in",
            "logindeepcontrol",
            "invalid api key",
            "api key is invalid",
        ],
    ),
    (About::Rate, &["rate limit", "too many requests", "resource_exhausted"]),
    (
        About::Network,
        &[
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "eai_again",
            "fetch failed",
            "socket hang up",
            "connection refused",
            "connection reset",
            "unable to connect",
            "certificate",
            "unavailable",
            "network",
        ],
    ),
];

/// The single words of which the table is made.
pub(crate) fn words_of_table() -> impl Iterator<Item = &'static str> {
    let phrases = TABLE.iter().flat_map(|(_, phrases)| phrases.iter());
    let phrases = phrases.chain(&CONVERSATION).chain(&LOST);
    phrases.flat_map(|phrase| phrase.split(|c: char| !c.is_ascii_alphanumeric()))
}

/// Names for a resumed session, and words for its absence.
const CONVERSATION: [&str; 3] = ["session", "chat", "conversation"];
const LOST: [&str; 9] = [
    "not found",
    "expired",
    "invalid",
    "does not exist",
    "no such",
    "could not resume",
    "cannot resume",
    "failed to resume",
    "unable to resume",
];

/// The child is gone and its answer is not whole. `noise` is what it wrote among its
/// events, `resumed` whether the run was to resume a session.
pub(super) fn of_exit(exit: &Exit, noise: &str, resumed: bool) -> PeerFailure {
    let (errors, others) = (words(&exit.stderr), words(noise));
    let known = classify(&errors, resumed).or_else(|| classify(&others, resumed));
    if let Some(failure) = known {
        return failure;
    }
    let said = errors.first().or(others.first()).map(|line| shown(line));
    let said = said.map_or_else(|| ".".to_owned(), |said| format!(": {said}."));
    match exit.code {
        Some(0) => PeerFailure::new(
            ErrorCode::UpstreamClosed,
            format!("cursor-agent exited before its answer was complete{said}"),
            Remedy::Retry,
        ),
        None => PeerFailure::new(
            ErrorCode::UpstreamClosed,
            format!("cursor-agent was killed by a signal before its answer was complete{said}"),
            Remedy::Retry,
        ),
        Some(code) => PeerFailure::new(
            ErrorCode::UpstreamError,
            format!("cursor-agent failed with exit code {code}{said}"),
            Remedy::None,
        ),
    }
}

/// The child itself says that the run failed.
pub(super) fn of_complaint(complaint: &str, resumed: bool) -> PeerFailure {
    let lines =
        words(complaint.get(..complaint.floor_char_boundary(LOOKED_AT)).unwrap_or_default());
    classify(&lines, resumed).unwrap_or_else(|| {
        let nothing = || "an error without a message".to_owned();
        let said = lines.first().map_or_else(nothing, |line| shown(line));
        PeerFailure::new(
            ErrorCode::UpstreamError,
            format!("cursor-agent said: {said}."),
            Remedy::None,
        )
    })
}

/// The run went well and there is nothing in it. A conversation that was lost on the way
/// ends like this.
pub(super) fn of_nothing() -> PeerFailure {
    PeerFailure::new(
        ErrorCode::UpstreamError,
        "cursor-agent returned an empty answer. Try again.",
        Remedy::FreshConversation,
    )
}

pub(super) fn of_cancel() -> PeerFailure {
    PeerFailure::new(ErrorCode::Cancelled, "The request was cancelled.", Remedy::None)
}

/// The lines that say something: without colours, warnings of the runtime, stack
/// traces and events. Some builds write their events to standard error as well, and the
/// model's words in them are not errors.
pub(crate) fn words(text: &str) -> Vec<String> {
    plain(text).lines().map(str::trim).filter(|line| is_message(line)).map(bare).collect()
}

fn is_message(line: &str) -> bool {
    let is_event = line.starts_with('{') || line.contains("\"session_id\":");
    let is_runtime = line.starts_with("(node:") || line.starts_with("(Use `");
    let is_trace = line.starts_with("at ") || line.starts_with("node:internal");
    let says = line.chars().any(char::is_alphanumeric);
    says && !is_event && !is_runtime && !is_trace
}

/// Without the name of the error's class, which is one letter in a minified build.
fn bare(line: &str) -> String {
    let rest = match line.split_once(": ") {
        Some((class, rest)) if class.len() <= 2 && class.is_ascii() => rest,
        _ => line,
    };
    rest.trim().to_owned()
}

/// What these lines are about, if they are about something that is known.
pub(crate) fn classify(lines: &[String], resumed: bool) -> Option<PeerFailure> {
    let lower: Vec<String> = lines.iter().map(|line| line.to_lowercase()).collect();
    let lost = |line: &String| {
        let has = |phrases: &[&str]| phrases.iter().any(|phrase| line.contains(phrase));
        // A session of the account is another one, and signing in helps.
        has(&CONVERSATION) && has(&LOST) && !has(&["log in", "login", "sign in"])
    };
    if resumed && let Some(at) = lower.iter().position(lost) {
        let said = lines.get(at).map(|line| shown(line)).unwrap_or_default();
        let message = format!("cursor-agent cannot resume this conversation: {said}.");
        return Some(PeerFailure::new(
            ErrorCode::UpstreamError,
            message,
            Remedy::FreshConversation,
        ));
    }
    let described = |about: About, at: usize| {
        let said = about.excerpt(lines.get(at..)?);
        let message = format!("cursor-agent said: {said}.{}", about.hint());
        let mut failure = PeerFailure::new(about.code(), message, about.remedy());
        // That something is unavailable may be what Cursor answered.
        let answered = lower.get(at).is_some_and(|line| line.contains("unavailable"));
        failure.error.unreachable = about == About::Network && !answered;
        Some(failure)
    };
    let by_phrase = TABLE.iter().find_map(|(about, phrases)| {
        let says = |line: &String| phrases.iter().any(|phrase| line.contains(phrase));
        described(*about, lower.iter().position(says)?)
    });
    // Last of all: the host of the sign-in has the word in its name, and may be out of reach.
    by_phrase
        .or_else(|| described(About::Login, lower.iter().position(|line| speaks_of_sign_in(line))?))
}

/// Whether a line in lower case has `auth` as a word of its own. An author or an authority is
/// something else.
fn speaks_of_sign_in(line: &str) -> bool {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| matches!(word, "auth" | "oauth" | "reauth"))
}

impl About {
    fn code(self) -> ErrorCode {
        match self {
            Self::Model => ErrorCode::ModelNotFound,
            Self::Quota => ErrorCode::InsufficientQuota,
            Self::Region => ErrorCode::RegionUnsupported,
            Self::Outdated => ErrorCode::ClientOutdated,
            Self::Context => ErrorCode::ContextTooLong,
            Self::Trust => ErrorCode::PolicyDenied,
            Self::Plan => ErrorCode::PlanRequired,
            Self::Login => ErrorCode::NotAuthenticated,
            Self::Rate => ErrorCode::RateLimited,
            Self::Network => ErrorCode::Unavailable,
        }
    }

    fn remedy(self) -> Remedy {
        if self == Self::Network { Remedy::Retry } else { Remedy::None }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Model => " `ibeam models` lists the models of your plan.",
            Self::Quota => " Waiting does not help; see your plan at cursor.com.",
            Self::Region => " Another model may be available in your region.",
            Self::Outdated => " Run `cursor-agent update`.",
            Self::Context => " The prompt is too long for this model.",
            Self::Trust => {
                " It does not trust its working folder: run `cursor-agent` there once, or choose \
                 another folder with `cursor_agent.workspace`."
            }
            Self::Plan => " Your plan at cursor.com does not include this.",
            Self::Login => " Run `cursor-agent login` or `ibeam login --backend cli`.",
            Self::Rate => " Try again later.",
            Self::Network => " Check the network and a proxy (HTTPS_PROXY), and try again.",
        }
    }

    /// The words that matter, of the lines that begin with the one that was found.
    fn excerpt(self, lines: &[String]) -> String {
        let first = lines.first().map(String::as_str).unwrap_or_default();
        match self {
            // When it is reset and what else may be used is often said further down.
            Self::Quota | Self::Region | Self::Plan => shown(&lines.join(" ")),
            Self::Model => shown(&with_short_list(first)),
            _ => shown(first),
        }
    }
}

/// The list of models in it is that of the whole plan: a few names will do.
fn with_short_list(line: &str) -> String {
    const HEAD: &str = "available models:";
    let Some(at) = line.to_ascii_lowercase().find(HEAD) else { return line.to_owned() };
    let (before, list) = line.split_at(at + HEAD.len());
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let few: Vec<&str> = names.iter().take(MODELS).copied().collect();
    let rest = names.len() - few.len();
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{before} {}{rest}", few.join(", "))
}

/// Without secrets, in one short line, to be followed by the rest of a sentence.
fn shown(text: &str) -> String {
    one_line(&redact::text(text), SHOWN).trim_end_matches('.').to_owned()
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
