//! Sign-in, refresh, account pages, and the check of bearer tokens.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, UNIX_EPOCH},
};

use base64::Engine as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::aiserver::ErrorKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{
    Sim, login,
    responses::{self, SimResponse},
};
use crate::{config::SimConfig, record::add};

/// The signature of every token: `simulated-signature`.
pub(crate) const SIGNATURE: &str = "c2ltdWxhdGVkLXNpZ25hdHVyZQ";

/// The public client id of Cursor's own app, which form (c) of the refresh carries.
const CLIENT_ID: &str = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB";
pub(crate) const USER: &str = "auth0|user_sim";
/// Handed-out tokens that stay valid; older ones expire.
const MINTED_CAP: usize = 4096;

#[derive(Debug)]
pub(crate) struct Auth {
    any: bool,
    api_keys: HashSet<String>,
    /// The simulator's clock: its first value, and when it started.
    epoch: u64,
    born: Instant,
    expiry: u64,
    lifetime: Option<Duration>,
    state: Mutex<TokenState>,
}

#[derive(Debug)]
struct TokenState {
    /// Tokens and their `exp`, where they have one.
    accepted: HashMap<String, Option<u64>>,
    revoked: HashSet<String>,
    minted: VecDeque<String>,
    serial: u64,
}

/// Whether a bearer token is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenStatus {
    Good,
    Expired,
    Nothing,
}

impl Auth {
    pub(crate) fn new(config: &SimConfig) -> Self {
        let sign_in = &config.sign_in;
        let state = TokenState {
            accepted: sign_in.tokens.iter().map(|t| (t.clone(), expiry_of(t))).collect(),
            revoked: HashSet::new(),
            minted: VecDeque::new(),
            serial: 0,
        };
        Self {
            any: sign_in.any_token,
            api_keys: sign_in.api_keys.iter().cloned().collect(),
            epoch: config.epoch,
            born: Instant::now(),
            expiry: sign_in.token_expiry,
            lifetime: sign_in.token_lifetime,
            state: Mutex::new(state),
        }
    }

    /// Seconds since 1970, by the simulator's clock.
    pub(crate) fn now(&self) -> u64 {
        self.epoch.saturating_add(self.born.elapsed().as_secs())
    }

    /// The same in milliseconds.
    pub(crate) fn now_millis(&self) -> u64 {
        let passed = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.epoch.saturating_mul(1000).saturating_add(passed)
    }

    pub(crate) fn revoke(&self, token: &str) {
        let mut state = self.state.lock();
        state.accepted.remove(token);
        state.revoked.insert(token.to_owned());
    }

    fn worth(&self, token: &str) -> TokenStatus {
        let state = self.state.lock();
        if token.is_empty() || state.revoked.contains(token) {
            return TokenStatus::Nothing;
        }
        match state.accepted.get(token) {
            Some(Some(expiry)) if *expiry <= self.now() => TokenStatus::Expired,
            Some(_) => TokenStatus::Good,
            None if self.any => TokenStatus::Good,
            None => TokenStatus::Nothing,
        }
    }

    /// Checks that the request has a valid token.
    ///
    /// # Errors
    /// The 401 of the real service.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), ConnectError> {
        match bearer(headers) {
            Some(token) => match self.worth(token) {
                TokenStatus::Good => Ok(()),
                TokenStatus::Expired => Err(responses::cursor_error(
                    Code::Unauthenticated,
                    ErrorKind::ErrorAuthTokenExpired,
                    "Token expired",
                    "The token has expired",
                )),
                TokenStatus::Nothing => Err(responses::cursor_error(
                    Code::Unauthenticated,
                    ErrorKind::ErrorUnauthorized,
                    "Unauthorized",
                    "The token is not valid any more",
                )),
            },
            None => Err(responses::cursor_error(
                Code::Unauthenticated,
                ErrorKind::ErrorNotLoggedIn,
                "Not logged in",
                "Sign in to continue",
            )),
        }
    }

    pub(crate) fn mint(&self) -> String {
        let expiry = self
            .lifetime
            .map_or(self.expiry, |lifetime| self.now().saturating_add(lifetime.as_secs()));
        let mut state = self.state.lock();
        state.serial += 1;
        let token = jwt(expiry, state.serial);
        state.accepted.insert(token.clone(), Some(expiry));
        state.minted.push_back(token.clone());
        if state.minted.len() > MINTED_CAP
            && let Some(old) = state.minted.pop_front()
        {
            state.accepted.remove(&old);
        }
        token
    }
}

/// Answers the paths of this module; `None` for all others. Answers carry the time of the
/// simulator's clock.
pub(crate) fn answer(
    sim: &Sim,
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<SimResponse> {
    let mut reply = page(sim, method, path, query, headers, body)?;
    let now = UNIX_EPOCH.checked_add(Duration::from_secs(sim.service.auth.now()));
    let date = now.map(httpdate::fmt_http_date);
    if let Some(date) = date.and_then(|date| HeaderValue::from_str(&date).ok()) {
        reply.headers_mut().insert(header::DATE, date);
    }
    Some(reply)
}

fn page(
    sim: &Sim,
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<SimResponse> {
    Some(match (method.as_str(), path) {
        ("GET", "/auth/poll") => login::poll(sim, query),
        ("GET", "/loginDeepControl") => login::page(query),
        ("POST", "/loginDeepControl") => login::decide(sim, body),
        ("POST", "/auth/refresh") => refresh(sim, headers, false),
        ("POST", "/auth/exchange_user_api_key") => refresh(sim, headers, true),
        ("POST", "/oauth/token") => oauth_token(sim, body),
        ("GET", "/auth/usage") => guarded(sim, headers, || {
            json!({
                "gpt-4": {
                    "numRequests": 3, "numRequestsTotal": 3, "numTokens": 1200,
                    "maxRequestUsage": 500, "maxTokenUsage": null,
                },
                "startOfMonth": "2026-01-01T00:00:00.000Z",
            })
        }),
        ("GET", "/auth/full_stripe_profile") => guarded(sim, headers, || {
            json!({
                "membershipType": "pro", "subscriptionStatus": "active",
                "daysRemainingOnTrial": null, "isTeamMember": false,
            })
        }),
        _ => return None,
    })
}

fn guarded(sim: &Sim, headers: &HeaderMap, body: impl FnOnce() -> Value) -> SimResponse {
    match sim.service.auth.check(headers) {
        Ok(()) => responses::json(StatusCode::OK, &body()),
        Err(error) => responses::error(&error),
    }
}

/// Forms (a) and (b): the refresh token as bearer; an API key for the exchange only.
fn refresh(sim: &Sim, headers: &HeaderMap, exchange: bool) -> SimResponse {
    let auth = &sim.service.auth;
    let accepts =
        |token: &str| auth.accepts_refresh(token) || (exchange && auth.api_keys.contains(token));
    match bearer(headers) {
        Some(token) if !sim.config().sign_in.refuse_refresh && accepts(token) => {
            add(&sim.counters().refreshes);
            let fresh = auth.mint();
            responses::json(StatusCode::OK, &json!({ "accessToken": fresh, "refreshToken": fresh }))
        }
        _ => responses::error(&ConnectError::new(Code::Unauthenticated, "Invalid refresh token")),
    }
}

/// Form (c): a JSON body, and no new refresh token in the answer.
fn oauth_token(sim: &Sim, body: &[u8]) -> SimResponse {
    let auth = &sim.service.auth;
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("grant_type") != "refresh_token" || text("client_id") != CLIENT_ID {
        return responses::json(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_request" }));
    }
    if sim.config().sign_in.refuse_refresh || !auth.accepts_refresh(text("refresh_token")) {
        let dead = json!({ "access_token": "", "id_token": "", "shouldLogout": true });
        return responses::json(StatusCode::OK, &dead);
    }
    add(&sim.counters().refreshes);
    let fresh = auth.mint();
    let answer = json!({ "access_token": fresh, "id_token": fresh, "shouldLogout": false });
    responses::json(StatusCode::OK, &answer)
}

impl Auth {
    /// A revoked or expired access token can still be refreshed: access ends first.
    fn accepts_refresh(&self, token: &str) -> bool {
        self.worth(token) != TokenStatus::Nothing || self.state.lock().revoked.contains(token)
    }
}

/// A number for the account of a request, from the token's subject or, without one, from the
/// token itself.
pub(crate) fn account(headers: &HeaderMap) -> u64 {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.unwrap_or_default();
    let claims = token
        .split('.')
        .nth(1)
        .and_then(|claims| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Value>(&claims).ok());
    let subject = claims.as_ref().and_then(|claims| claims.get("sub")?.as_str());
    let hash = Sha256::digest(subject.unwrap_or(token));
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The `exp` claim of a token that has one.
fn expiry_of(token: &str) -> Option<u64> {
    let claims = token.split('.').nth(1)?;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?.get("exp")?.as_u64()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::trim)
}

fn jwt(expiry: u64, serial: u64) -> String {
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let claims = json!({
        "sub": USER, "time": "1735689600", "randomness": serial.to_string(), "exp": expiry,
        "iss": "https://authentication.cursor.sh", "aud": "https://cursor.com",
        "scope": "openid profile email offline_access", "type": "session",
    });
    let head = encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    format!("{head}.{}.{SIGNATURE}", encode(&claims.to_string()))
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
