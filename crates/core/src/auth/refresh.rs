//! New tokens for old ones. The service knows three forms of the same request; they
//! are asked one after the other until one of them gives tokens or all have refused.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::{AuthOutcome, AuthRequest, AuthStep, Grant, field, words};
use crate::{model::Millis, retry::Backoff};

/// The public id of Cursor's own app, which the OAuth form carries.
const CLIENT_ID: &str = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB";

/// Nothing is asked after this. With the last answer's own time it is less than others wait
/// for the lock on the credential, and no turn waits for ever.
pub const LIMIT: Duration = Duration::from_secs(35);

/// Between rounds through the forms.
const ROUNDS: Backoff =
    Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(20), retries: 3 };

/// What is handed in.
#[derive(Clone, Debug)]
pub enum Proof {
    RefreshToken(SecretString),
    /// Good for the exchange only.
    ApiKey(SecretString),
}

/// How it may be asked for, in the order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefreshForm {
    /// `/auth/exchange_user_api_key`, which takes refresh tokens, too.
    Exchange,
    /// `/auth/refresh`.
    Refresh,
    /// `/oauth/token`. Returns no new refresh token.
    OAuth,
}

pub type RefreshStep = AuthStep<RefreshError>;

/// Why there are no new tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// The proof is dead: only signing in again helps. The service's words, if any.
    #[error("Cursor no longer accepts this sign-in{}", with_words(.0))]
    SignedOut(Option<String>),
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
}

fn with_words(words: &Option<String>) -> String {
    words.as_ref().map_or_else(String::new, |words| format!(": {words}"))
}

/// One refresh, to its end.
#[derive(Debug)]
pub struct Refresh {
    proof: Proof,
    /// Forms that were not refused, and those still to be tried in this round.
    forms: Vec<RefreshForm>,
    left: std::vec::IntoIter<RefreshForm>,
    asking: Option<RefreshForm>,
    round: u32,
    jitter: f64,
    began: Option<Millis>,
    until: Option<Millis>,
    /// A form has refused the proof.
    refused: bool,
    refusal: Option<String>,
    fault: String,
    ended: Option<Result<Box<Grant>, RefreshError>>,
}

/// What an answer says.
enum RefreshVerdict {
    Granted(Grant),
    /// Dead, whatever the other forms would say.
    SignedOut,
    /// Not by this form, says the service.
    Refused,
    /// The service does not have this form (any more).
    Gone(String),
    /// This form has a fault; another may not.
    Fault(String),
    /// The service cannot be reached now.
    Later(String, Option<Duration>),
}

impl Refresh {
    /// `jitter` is a random number in `0..1`: many programs may wait for the same
    /// service.
    #[must_use]
    pub fn new(proof: Proof, jitter: f64) -> Self {
        let forms = match proof {
            Proof::RefreshToken(_) => {
                vec![RefreshForm::Exchange, RefreshForm::Refresh, RefreshForm::OAuth]
            }
            Proof::ApiKey(_) => vec![RefreshForm::Exchange],
        };
        Self {
            left: forms.clone().into_iter(),
            proof,
            forms,
            asking: None,
            round: 0,
            jitter,
            began: None,
            until: None,
            refused: false,
            refusal: None,
            fault: String::new(),
            ended: None,
        }
    }

    pub fn step(&mut self, now: Millis) -> RefreshStep {
        if let Some(ended) = &self.ended {
            return RefreshStep::Done(ended.clone());
        }
        let began = *self.began.get_or_insert(now);
        if now >= began + LIMIT {
            self.give_up();
            return self.step(now);
        }
        match self.until {
            Some(until) if now < until => return RefreshStep::Wait(until),
            Some(_) => {
                self.until = None;
                self.left = self.forms.clone().into_iter();
            }
            None => {}
        }
        let form = self.asking.or_else(|| self.left.next());
        match form {
            Some(form) => {
                self.asking = Some(form);
                RefreshStep::Ask(self.request(form))
            }
            None => {
                self.end_round(None, now);
                self.step(now)
            }
        }
    }

    /// The answer to what [`RefreshStep::Ask`] asked.
    pub fn on_outcome(&mut self, outcome: &AuthOutcome, now: Millis) {
        let Some(form) = self.asking.take() else { return };
        match judge(form, outcome) {
            RefreshVerdict::Granted(grant) => self.ended = Some(Ok(Box::new(grant))),
            RefreshVerdict::SignedOut => self.sign_out(),
            RefreshVerdict::Refused => {
                if let AuthOutcome::Answer { body, .. } = outcome {
                    self.refusal = words(body).or_else(|| self.refusal.take());
                }
                self.refused = true;
                self.strike(form);
            }
            RefreshVerdict::Gone(fault) => {
                self.fault = fault;
                self.strike(form);
            }
            RefreshVerdict::Fault(fault) => self.fault = fault,
            RefreshVerdict::Later(fault, wait) => {
                self.fault = fault;
                self.end_round(wait, now);
            }
        }
    }

    /// This form is not tried again. Without another one, the answers so far decide.
    fn strike(&mut self, form: RefreshForm) {
        self.forms.retain(|other| *other != form);
        if !self.forms.is_empty() {
            return;
        }
        if self.refused { self.sign_out() } else { self.give_up() }
    }

    fn sign_out(&mut self) {
        self.ended = Some(Err(RefreshError::SignedOut(self.refusal.take())));
    }

    fn give_up(&mut self) {
        let fault = std::mem::take(&mut self.fault);
        self.ended = Some(Err(RefreshError::Unavailable(fault)));
    }

    /// No form of this round gave tokens, and one of them still may.
    fn end_round(&mut self, wait: Option<Duration>, now: Millis) {
        match ROUNDS.delay(self.round, self.jitter, wait) {
            Some(wait) if now + wait < self.began.unwrap_or(now) + LIMIT => {
                self.round += 1;
                self.until = Some(now + wait);
            }
            _ => self.give_up(),
        }
    }

    fn request(&self, form: RefreshForm) -> AuthRequest {
        let (Proof::RefreshToken(proof) | Proof::ApiKey(proof)) = &self.proof;
        let bearer = |path: &str| AuthRequest {
            body: Some(SecretString::from("{}")),
            path: SecretString::from(path),
            bearer: Some(proof.clone()),
        };
        match form {
            RefreshForm::Exchange => bearer("/auth/exchange_user_api_key"),
            RefreshForm::Refresh => bearer("/auth/refresh"),
            RefreshForm::OAuth => {
                let body = json!({
                    "grant_type": "refresh_token",
                    "client_id": CLIENT_ID,
                    "refresh_token": proof.expose_secret(),
                });
                AuthRequest {
                    body: Some(SecretString::from(body.to_string())),
                    path: SecretString::from("/oauth/token"),
                    bearer: None,
                }
            }
        }
    }
}

fn judge(form: RefreshForm, outcome: &AuthOutcome) -> RefreshVerdict {
    let (status, body, retry_after) = match outcome {
        AuthOutcome::Unreachable(why) => return RefreshVerdict::Later(why.clone(), None),
        AuthOutcome::Answer { status, body, retry_after } => (*status, body, *retry_after),
    };
    let said = || {
        let words = words(body).map_or_else(String::new, |words| format!(" ({words})"));
        format!("Cursor's sign-in service answered with HTTP status {status}{words}")
    };
    match status {
        200..=299 => granted(form, body),
        400 | 401 | 403 | 422 => match serde_json::from_slice::<Value>(body) {
            Ok(body) if should_log_out(&body) => RefreshVerdict::SignedOut,
            // A page of text: a proxy in between does not judge the sign-in.
            Err(_) if status == 403 && !body.is_empty() => RefreshVerdict::Fault(said()),
            _ => RefreshVerdict::Refused,
        },
        404 | 405 | 410 | 501 => RefreshVerdict::Gone(said()),
        429 => RefreshVerdict::Later(said(), retry_after),
        _ => RefreshVerdict::Fault(said()),
    }
}

fn granted(form: RefreshForm, body: &[u8]) -> RefreshVerdict {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return RefreshVerdict::Fault(
            "Cursor's sign-in service sent an answer that is not \
                               JSON"
                .to_owned(),
        );
    };
    if should_log_out(&body) {
        return RefreshVerdict::SignedOut;
    }
    // Each form has its own spelling; either is taken from any of them.
    let either = |one, two| field(&body, one).or_else(|| field(&body, two));
    match either("accessToken", "access_token") {
        Some(access) => RefreshVerdict::Granted(Grant {
            access,
            refresh: either("refreshToken", "refresh_token"),
        }),
        None if form == RefreshForm::OAuth && body.get("access_token").is_some() => {
            RefreshVerdict::SignedOut
        }
        None => RefreshVerdict::Fault(
            "Cursor's sign-in service sent an answer without a \
                                token"
                .to_owned(),
        ),
    }
}

fn should_log_out(body: &Value) -> bool {
    body.get("shouldLogout").and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
#[path = "refresh_tests.rs"]
mod tests;
