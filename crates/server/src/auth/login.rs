//! Signing in with the browser, seen from here: a page to open, and the wait for it.

use std::time::Duration;

use ibeam_core::{
    auth::{
        Grant, jwt,
        pkce::Login,
        poll::{Poll, PollError, PollStep},
        refresh::{Proof, RefreshError},
        schedule::Skew,
    },
    model::Millis,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, sleep_until};

use super::{
    Account, AuthFileError, Credential, CredentialFile, LOCK_WAIT, Saved, exchange::exchange,
    http::AuthHttp,
};
use crate::{clock, random};

/// A login that waits for its user.
#[derive(Debug)]
pub struct PendingLogin {
    http: AuthHttp,
    poll: Poll,
    url: String,
    started: Instant,
}

impl PendingLogin {
    /// Begins a login that may take so long. The time runs from here on.
    #[must_use]
    pub fn begin(http: AuthHttp, limit: Duration) -> Self {
        let login = Login::new(random::bytes(), random::bytes());
        let url = login.url(&http.site());
        let poll = Poll::new(login, Millis(0), limit);
        Self { poll, http, url, started: Instant::now() }
    }

    /// The page where the user signs in.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.poll.time_left(self.now())
    }

    /// When it is of no use to wait any longer.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.time_left()
    }

    /// Waits until the user has signed in. Dropping the future ends the login.
    ///
    /// # Errors
    /// Nobody has.
    pub async fn wait(mut self) -> Result<Credential, PollError> {
        loop {
            match self.poll.step(self.now()) {
                PollStep::Wait(until) => {
                    sleep_until(self.started + Duration::from_millis(until.0)).await;
                }
                PollStep::Ask(request) => {
                    let heard = self.http.ask(request).await;
                    let now = self.now();
                    self.poll.on_outcome(&heard.outcome, now);
                }
                PollStep::Done(how) => return how.map(|grant| credential(*grant, None)),
            }
        }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Signs in with an API key, which is exchanged for a token here and whenever that ends.
///
/// # Errors
/// Cursor does not take the key, or cannot be asked.
pub async fn with_key(http: &AuthHttp, key: SecretString) -> Result<Credential, RefreshError> {
    let mut skew = Skew::default();
    let proof = Proof::ApiKey(key.clone());
    let grant = exchange(proof, http, &mut skew, clock::unix_seconds).await?;
    Ok(credential(*grant, Some(Credential::of_api_key(key))))
}

/// What is kept of a grant. What it does not bring stays as it was.
pub(super) fn credential(grant: Grant, before: Option<Credential>) -> Credential {
    let claims = jwt::claims(grant.access.expose_secret());
    let before = before.unwrap_or_default();
    let known = before.account.unwrap_or_default();
    let same = claims.subject.is_none() || known.sub.is_none() || claims.subject == known.sub;
    let account = Account {
        email: claims.email.or(known.email.filter(|_| same)),
        sub: claims.subject.or(known.sub),
    };
    Credential {
        access_token: Some(grant.access),
        refresh_token: grant.refresh.or(before.refresh_token),
        api_key: before.api_key,
        account: Some(account).filter(|account| *account != Account::default()),
        expires: claims.expires,
    }
}

/// Puts a new sign-in where it is found again.
///
/// # Errors
/// It could not be written; what was there still is.
pub async fn keep(file: &CredentialFile, credential: &Credential) -> Result<Saved, AuthFileError> {
    file.lock(LOCK_WAIT).await?.save(credential)
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
