//! How a token is renewed, by where it came from.

use std::sync::Arc;

use ibeam_core::{
    auth::{
        Grant, jwt,
        refresh::{Proof, RefreshError},
        schedule::Lifetime,
    },
    error::TurnError,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{sync::watch, time::Instant};
use tracing::{debug, info, warn};

use super::{
    DEAD, Flight, Holder, Outcome, PAUSE, State, Tokens, same,
    words::{refused_fixed, unavailable, unusable},
};
use crate::auth::{Credential, CredentialFile, LOCK_WAIT, exchange::exchange, login::credential};

impl Tokens {
    /// The renewal under way, or a new one. It runs as a task of its own: a caller that
    /// leaves must not lose tokens that were already handed out.
    pub(super) fn renewal(&self, state: &mut State) -> Flight {
        let (this, stale) = (self.clone(), state.held.as_ref().map(|held| held.access.clone()));
        self.fly(state, "token renewal", async move {
            let outcome = this.renewed(stale.as_ref()).await;
            this.inner.state.lock().paused = outcome.is_err().then(|| Instant::now() + PAUSE);
            if let Err(error) = &outcome {
                warn!("the sign-in was not renewed: {error}");
            }
            outcome
        })
    }

    /// Does something that ends in a token, one thing at a time.
    pub(super) fn fly(
        &self,
        state: &mut State,
        name: &'static str,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) -> Flight {
        if let Some(flight) = &state.flight {
            return flight.clone();
        }
        let (sender, flight) = watch::channel(None);
        state.flight = Some(flight.clone());
        let this = self.clone();
        self.inner.tasks.spawn(name, async move {
            let outcome = work.await;
            this.inner.state.lock().flight = None;
            sender.send_replace(Some(outcome));
        });
        flight
    }

    pub(super) async fn renewed(&self, stale: Option<&SecretString>) -> Outcome {
        match &self.inner.holder {
            Holder::Fixed(place) => Err(refused_fixed(place)),
            Holder::Key(key) => {
                let grant = self.exchange(Proof::ApiKey(key.clone())).await?;
                Ok(self.adopt_grant(*grant, None))
            }
            Holder::Own(file) => self.renewed_own(file, stale).await,
            Holder::Borrowed(_, reread) => {
                let reread = Arc::clone(reread);
                let read = self.inner.tasks.spawn_blocking(move || reread());
                let found = match read.await {
                    Ok(Ok(found)) => found,
                    Ok(Err(why)) => return Err(unusable(&why)),
                    Err(_) => None,
                };
                // What we renewed in memory goes before what is there.
                let ours = self.inner.state.lock().held.as_ref().and_then(|h| h.refresh.clone());
                self.settle(found, stale, ours).await.map(|(token, _)| token)
            }
        }
    }

    /// Whoever holds the lock renews; who comes after finds what is new.
    async fn renewed_own(&self, file: &CredentialFile, stale: Option<&SecretString>) -> Outcome {
        let lock = Arc::new(file.lock(LOCK_WAIT).await.map_err(|error| unusable(&error))?);
        let reader = Arc::clone(&lock);
        let read = self.inner.tasks.spawn_blocking(move || reader.load());
        let found = match read.await {
            Ok(found) => found.map_err(|error| unusable(&error))?,
            Err(_) => None,
        };
        let (token, new) = self.settle(found, stale, None).await?;
        if let Some(new) = new {
            let saved = self.inner.tasks.spawn_blocking(move || lock.save(&new)).await;
            if let Ok(Err(error)) = saved {
                warn!("the renewed sign-in could not be kept: {error}");
            }
        }
        Ok(token)
    }

    /// The token of a credential if it is any good, else a new one, which comes with
    /// the credential to keep.
    async fn settle(
        &self,
        found: Option<Credential>,
        stale: Option<&SecretString>,
        newer: Option<SecretString>,
    ) -> Result<(SecretString, Option<Credential>), TurnError> {
        let Some(found) = found else {
            self.inner.state.lock().held = None;
            return Err(self.nobody());
        };
        if let Some(token) = self.usable(&found, stale) {
            debug!("another process renewed the sign-in");
            return Ok((token, None));
        }
        let proof = match (newer.or_else(|| found.refresh_token.clone()), &found.api_key) {
            (Some(token), _) => Proof::RefreshToken(token),
            (None, Some(key)) => Proof::ApiKey(key.clone()),
            (None, None) => return Err(self.signed_out(&RefreshError::SignedOut(None))),
        };
        let grant = self.exchange(proof).await?;
        let new = credential(Grant::clone(&grant), Some(found));
        let token = self.adopt_grant(*grant, new.refresh_token.clone());
        Ok((token, Some(new)))
    }

    /// A token that is not the one to be rid of, and has a while to live.
    fn usable(&self, found: &Credential, stale: Option<&SecretString>) -> Option<SecretString> {
        let access = found.access_token.as_ref()?;
        if stale.is_some_and(|stale| same(stale, access)) {
            return None;
        }
        let mut state = self.inner.state.lock();
        let local = (self.inner.wall)();
        let claims = jwt::claims(access.expose_secret());
        state.skew.note_issued(claims.issued, local);
        let now = state.skew.server_time(local);
        if Lifetime::of(&claims, now, false, 0.0).is_due(now) {
            return None;
        }
        state.adopt(found, None, local);
        Some(access.clone())
    }

    async fn exchange(&self, proof: Proof) -> Result<Box<Grant>, TurnError> {
        let (Proof::RefreshToken(secret) | Proof::ApiKey(secret)) = &proof;
        let secret = secret.clone();
        let mut skew = {
            let state = self.inner.state.lock();
            if let Some((dead, error, at)) = &state.dead
                && same(dead, &secret)
                && at.elapsed() < DEAD
            {
                return Err(error.clone());
            }
            state.skew
        };
        let Some(http) = &self.inner.http else { return Err(self.nobody()) };
        let outcome = exchange(proof, http, &mut skew, || (self.inner.wall)()).await;
        let mut state = self.inner.state.lock();
        state.skew = skew;
        match outcome {
            Ok(grant) => {
                info!("renewed the sign-in");
                Ok(grant)
            }
            Err(RefreshError::Unavailable(why)) => Err(unavailable(&why)),
            Err(error @ RefreshError::SignedOut(_)) => {
                let error = self.signed_out(&error);
                state.dead = Some((secret, error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    fn adopt_grant(&self, grant: Grant, refresh: Option<SecretString>) -> SecretString {
        let access = grant.access.clone();
        let credential = Credential {
            access_token: Some(grant.access),
            refresh_token: refresh.or(grant.refresh),
            ..Credential::default()
        };
        self.inner.state.lock().adopt(&credential, Some(Instant::now()), (self.inner.wall)());
        access
    }
}
