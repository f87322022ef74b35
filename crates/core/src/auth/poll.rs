//! Waiting until the user has signed in with the browser.

use std::time::Duration;

use serde_json::Value;

use super::{AuthOutcome, AuthRequest, AuthStep, Grant, field, pkce::Login, words};
use crate::model::Millis;

/// The first wait; each further one is a fifth longer.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 150;
/// Consecutive errors after which polling stops.
const FAULTS: u32 = 3;

pub type PollStep = AuthStep<PollError>;

/// Why the sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    /// The account's rules forbid it.
    #[error("Cursor does not allow this sign-in: {0}")]
    Refused(String),
    #[error("the sign-in was not completed in time")]
    TimedOut,
    #[error("unexpected answer from Cursor's sign-in service: {0}")]
    GaveUp(String),
    #[error("the sign-in was stopped")]
    Cancelled,
}

/// One login's waiting.
#[derive(Debug)]
pub struct Poll {
    login: Login,
    asked: u32,
    faults: u32,
    next: Millis,
    deadline: Millis,
    /// A request is on its way.
    asking: bool,
    ended: Option<Result<Box<Grant>, PollError>>,
}

impl Poll {
    /// It ends after `limit`, or when the last attempt has failed.
    #[must_use]
    pub fn new(login: Login, now: Millis, limit: Duration) -> Self {
        let whole: Duration = (0..ATTEMPTS).map(pause).sum();
        Self {
            login,
            asked: 0,
            faults: 0,
            next: now + pause(0),
            deadline: now + whole.min(limit),
            asking: false,
            ended: None,
        }
    }

    pub fn step(&mut self, now: Millis) -> PollStep {
        if let Some(ended) = &self.ended {
            return PollStep::Done(ended.clone());
        }
        if self.asking {
            return PollStep::Wait(self.deadline);
        }
        let over = self.next > self.deadline && now > self.deadline;
        if self.asked >= ATTEMPTS || over {
            return self.end(Err(PollError::TimedOut));
        }
        if now < self.next {
            // The service may ask for a wait that is longer than the time that is left.
            let too_late = self.deadline + Duration::from_millis(1);
            return PollStep::Wait(self.next.min(too_late));
        }
        self.asking = true;
        self.asked += 1;
        PollStep::Ask(AuthRequest { body: None, path: self.login.poll_path(), bearer: None })
    }

    /// The answer to what [`PollStep::Ask`] asked.
    pub fn on_outcome(&mut self, outcome: &AuthOutcome, now: Millis) {
        if self.ended.is_some() {
            return;
        }
        self.asking = false;
        // The last question is asked when the time is up, not before.
        let left = Some(self.time_left(now)).filter(|left| !left.is_zero());
        let mut wait = pause(self.asked).min(left.unwrap_or(LONGEST));
        let fault = match outcome {
            AuthOutcome::Answer { status: 404, .. } => None,
            AuthOutcome::Answer { status: 200, body, .. } => match grant(body) {
                Some(grant) => {
                    self.ended = Some(Ok(Box::new(grant)));
                    return;
                }
                None => Some("an answer without tokens".to_owned()),
            },
            AuthOutcome::Answer { status: 403, body, .. } => {
                let why = words(body).unwrap_or_else(|| "no reason was given".to_owned());
                self.ended = Some(Err(PollError::Refused(why)));
                return;
            }
            AuthOutcome::Answer { status, body, retry_after } => {
                wait = wait.max(retry_after.unwrap_or_default());
                let words = words(body).map_or_else(String::new, |words| format!(" ({words})"));
                Some(format!("HTTP status {status}{words}"))
            }
            AuthOutcome::Unreachable(why) => Some(why.clone()),
        };
        self.faults = if fault.is_some() { self.faults + 1 } else { 0 };
        match fault {
            Some(fault) if self.faults >= FAULTS => {
                self.ended = Some(Err(PollError::GaveUp(fault)));
            }
            _ => self.next = now + wait,
        }
    }

    /// The user has changed their mind.
    pub fn cancel(&mut self) {
        self.ended.get_or_insert(Err(PollError::Cancelled));
    }

    /// How long the user has left.
    #[must_use]
    pub fn time_left(&self, now: Millis) -> Duration {
        self.deadline.since(now)
    }

    fn end(&mut self, how: Result<Box<Grant>, PollError>) -> PollStep {
        self.ended = Some(how.clone());
        PollStep::Done(how)
    }
}

/// The wait before attempt `n`, the first being 0.
fn pause(n: u32) -> Duration {
    // Beyond this power the cap holds anyway.
    let factor = 1.2_f64.powi(i32::try_from(n.min(20)).unwrap_or(20));
    FIRST.mul_f64(factor).min(LONGEST)
}

fn grant(body: &[u8]) -> Option<Grant> {
    let body: Value = serde_json::from_slice(body).ok()?;
    Some(Grant { access: field(&body, "accessToken")?, refresh: field(&body, "refreshToken") })
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
