//! Signing in with the browser: the page with its two buttons, and the poll that waits for one
//! of them.

use std::collections::HashMap;

use base64::Engine as _;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    Sim,
    auth::USER,
    responses::{self, SimResponse},
};

/// Logins that may wait at the same time.
const LOGINS_CAP: usize = 1024;

/// The error of a team policy that forbids the sign-in.
const POLICY: &str = "Your team does not allow this sign-in";

/// Logins that have begun and not ended, by their uuid.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<HashMap<String, SimLogin>>);

#[derive(Debug, Default)]
struct SimLogin {
    polls: u32,
    decision: Option<Decision>,
}

/// The button that was pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// With the challenge that the page was opened with.
    Allowed(String),
    Denied,
}

impl Logins {
    /// Changes the login with this uuid. `None` if too many others wait.
    fn with<T>(&self, uuid: &str, change: impl FnOnce(&mut SimLogin) -> T) -> Option<T> {
        let mut logins = self.0.lock();
        if !logins.contains_key(uuid) && logins.len() >= LOGINS_CAP {
            return None;
        }
        Some(change(logins.entry(uuid.to_owned()).or_default()))
    }

    fn end(&self, uuid: &str) {
        self.0.lock().remove(uuid);
    }
}

pub(crate) fn poll(sim: &Sim, query: &str) -> SimResponse {
    let config = &sim.config().sign_in;
    let (uuid, verifier) = (param(query, "uuid"), param(query, "verifier"));
    let refused = || responses::json(StatusCode::FORBIDDEN, &json!({ "error": POLICY }));
    let pending = || responses::json(StatusCode::NOT_FOUND, &json!({ "error": "Not found" }));
    if config.poll_refused {
        return refused();
    }
    if uuid.is_empty() || verifier.is_empty() {
        return pending();
    }
    let logins = &sim.service.logins;
    let decision = logins.with(&uuid, |login| {
        login.polls = login.polls.saturating_add(1);
        let by_itself = config.poll_pending.is_some_and(|times| login.polls > times);
        let allowed = by_itself.then(|| Decision::Allowed(challenge_of(&verifier)));
        login.decision.clone().or(allowed)
    });
    let challenge = match decision.flatten() {
        None => return pending(),
        Some(Decision::Denied) => {
            logins.end(&uuid);
            return refused();
        }
        Some(Decision::Allowed(challenge)) => challenge,
    };
    if challenge != challenge_of(&verifier) {
        sim.counters().violation("login verifier does not fit the challenge".to_owned());
        return pending();
    }
    logins.end(&uuid);
    let token = sim.service.auth.mint();
    responses::json(
        StatusCode::OK,
        &json!({
            "accessToken": token, "refreshToken": token, "authId": USER,
            "challenge": challenge, "uuid": uuid,
        }),
    )
}

/// The page that a browser opens. Fetching it decides nothing: many programs fetch links on
/// their own.
pub(crate) fn page(query: &str) -> SimResponse {
    let (uuid, challenge) = (param(query, "uuid"), param(query, "challenge"));
    if !is_plain(&uuid) || !is_plain(&challenge) {
        return html(StatusCode::BAD_REQUEST, "<p>The link has no challenge or uuid.</p>");
    }
    let form = format!(
        r#"<p>A program on this machine wants to sign in.</p>
<form method="post">
<input type="hidden" name="uuid" value="{uuid}">
<input type="hidden" name="challenge" value="{challenge}">
<button name="decision" value="allow">Sign in</button>
<button name="decision" value="deny">Refuse, as a team's policy would</button>
</form>"#
    );
    html(StatusCode::OK, &form)
}

/// A button of the page was pressed.
pub(crate) fn decide(sim: &Sim, body: &[u8]) -> SimResponse {
    let body = String::from_utf8_lossy(body);
    let (uuid, challenge) = (param(&body, "uuid"), param(&body, "challenge"));
    let decision = match param(&body, "decision").as_str() {
        "allow" => Decision::Allowed(challenge.clone()),
        "deny" => Decision::Denied,
        _ => return html(StatusCode::BAD_REQUEST, "<p>No button was pressed.</p>"),
    };
    if !is_plain(&uuid) || !is_plain(&challenge) {
        return html(StatusCode::BAD_REQUEST, "<p>The form has no challenge or uuid.</p>");
    }
    let text = match decision {
        Decision::Allowed(_) => "<p>Signed in to the simulator. You can close this window.</p>",
        Decision::Denied => "<p>Refused. You can close this window.</p>",
    };
    match sim.service.logins.with(&uuid, |login| login.decision = Some(decision)) {
        Some(()) => html(StatusCode::OK, text),
        None => html(StatusCode::SERVICE_UNAVAILABLE, "<p>Too many sign-ins are pending.</p>"),
    }
}

fn html(status: StatusCode, body: &str) -> SimResponse {
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>ibeam simulator</title>\n{body}\n"
    );
    responses::whole(status, HeaderValue::from_static("text/html; charset=utf-8"), page)
}

/// Whether a text has only the characters of challenges and uuids. Nothing else gets into the
/// page.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

fn challenge_of(verifier: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// A parameter of a query string or a form, percent-decoded.
fn param(query: &str, name: &str) -> String {
    let raw = query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then_some(value)
    });
    let mut out = Vec::new();
    let mut bytes = raw.unwrap_or_default().bytes();
    while let Some(byte) = bytes.next() {
        let decoded = if byte == b'%' {
            let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
            let (high, low) = (digit(bytes.next()), digit(bytes.next()));
            high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
        } else {
            Some(if byte == b'+' { b' ' } else { byte })
        };
        out.extend(decoded);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
