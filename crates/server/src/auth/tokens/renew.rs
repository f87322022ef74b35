//! How a token is renewed, by where it came from.

use std::sync::Arc;

use ibeam_core::{
    auth::{
        Grant, jwt,
        refresh::{Proof, RefreshError},
        schedule::Lifetime,
    },
    error::{ErrorCode, TurnError},
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{sync::watch, time::Instant};
use tracing::{debug, info, warn};

use super::{
    AccessTokens, DEAD, Holder, NotRead, PAUSE, TokenFlight, TokenOutcome, TokensState, same,
    words::{refused_fixed, unavailable, unreadable, unusable, unusable_file},
};
use crate::{
    auth::{
        AuthFileError, Credential, CredentialFile, CredentialSource, FileLock, FoundCredential,
        LOCK_WAIT, exchange::exchange, login::credential,
    },
    files::FileError,
    net::chain,
};

/// Proofs that are remembered to be dead: the tokens of one credential, and of the next.
const DEAD_CAP: usize = 4;

const GOING: &str = "ibeam is shutting down";

impl AccessTokens {
    /// The renewal under way, or a new one. It runs as a task of its own: a caller that
    /// leaves must not lose tokens that were already handed out.
    pub(super) fn renewal(&self, state: &mut TokensState) -> TokenFlight {
        let (this, stale) = (self.clone(), state.held.as_ref().map(|held| held.access.clone()));
        self.fly(state, "token renewal", async move {
            let outcome = this.renewed(stale.as_ref()).await;
            {
                let mut state = this.inner.state.lock();
                let again = outcome.is_err() || state.unkept.is_some();
                state.paused = again.then(|| Instant::now() + PAUSE);
            }
            if let Err(error) = &outcome {
                warn!("cannot renew the sign-in: {error}");
            }
            outcome
        })
    }

    /// Runs work that results in a token, one at a time.
    pub(super) fn fly(
        &self,
        state: &mut TokensState,
        name: &'static str,
        work: impl Future<Output = TokenOutcome> + Send + 'static,
    ) -> TokenFlight {
        // A flight without its task has no result.
        if let Some(flight) = state.flight.as_ref().filter(|flight| flight.has_changed().is_ok()) {
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

    pub(super) async fn renewed(&self, stale: Option<&SecretString>) -> TokenOutcome {
        match &self.inner.holder {
            Holder::Fixed(place) => Err(refused_fixed(place)),
            Holder::Key(key) => {
                let grant = self.exchange(Proof::ApiKey(key.clone())).await?;
                Ok(self.adopt_grant(*grant, None))
            }
            Holder::Own(file) => self.renewed_own(file, stale).await,
            // The other program renews its own token.
            Holder::Delegated(delegate) => delegate.check().await.map(|()| SecretString::default()),
            Holder::Borrowed(_, reread) => {
                let reread = Arc::clone(reread);
                let read = self.inner.tasks.spawn_blocking(move || reread());
                let found = match read.await {
                    Ok(Ok(found)) => found,
                    Ok(Err(NotRead::Unusable(why))) => return Err(unusable(&why)),
                    Ok(Err(NotRead::NotNow(why))) => return Err(unreadable(&why)),
                    Err(_) => return Err(unavailable(GOING)),
                };
                match (found, &self.inner.own) {
                    // The user signed in with ibeam since. That file is shared, so it is locked and
                    // saved.
                    (
                        Some(FoundCredential { source: CredentialSource::Own(_), .. }),
                        Some(file),
                    ) => self.renewed_own(file, stale).await,
                    (found, _) => {
                        let found = found.map(|found| found.credential);
                        self.settle(found, stale).await.map(|(token, _)| token)
                    }
                }
            }
        }
    }

    /// The process that holds the lock renews; the others then find the new token.
    async fn renewed_own(
        &self,
        file: &CredentialFile,
        stale: Option<&SecretString>,
    ) -> TokenOutcome {
        let lock = match file.lock(LOCK_WAIT).await {
            Ok(lock) => Ok(Arc::new(lock)),
            // If nothing can be written, other processes cannot be locked out or informed. This
            // process renews all the same.
            Err(error @ AuthFileError::File(FileError::Io { .. } | FileError::Full { .. })) => {
                Err(error)
            }
            Err(error) => return Err(unusable_file(&error)),
        };
        let reader = file.clone();
        let read = self.inner.tasks.spawn_blocking(move || reader.load());
        let found = match read.await {
            Ok(found) => found.map_err(|error| unusable_file(&error))?,
            Err(_) => return Err(unavailable(GOING)),
        };
        if let Some((token, unkept)) = found.as_ref().and_then(|found| self.unkept(found)) {
            self.keep(lock, unkept).await;
            return Ok(token);
        }
        let (token, new) = self.settle(found, stale).await?;
        match new {
            Some(new) => self.keep(lock, new).await,
            None => self.inner.state.lock().unkept = None,
        }
        Ok(token)
    }

    /// The token in use, and the credential that waits to be written, if that is all there is to
    /// do: it is valid, and no other process has written meanwhile.
    fn unkept(&self, found: &Credential) -> Option<(SecretString, Credential)> {
        let state = self.inner.state.lock();
        let now = state.skew.server_time((self.inner.wall)());
        let held = state.held.as_ref().filter(|held| !held.refused && !held.life.is_due(now))?;
        let unkept = state.unkept.clone().filter(|_| state.is_spent(found))?;
        Some((held.access.clone(), unkept))
    }

    /// Writes a renewed sign-in. What cannot be written serves this process, and is tried
    /// again later.
    async fn keep(&self, lock: Result<Arc<FileLock>, AuthFileError>, new: Credential) {
        let credential = new.clone();
        let saved = match lock {
            Ok(lock) => {
                let watched = self.inner.watched.clone();
                let save = self.inner.tasks.spawn_blocking(move || {
                    let saved = lock.save(&credential);
                    // No other process writes while the lock is held.
                    saved.map(|_| super::watch::look(&watched))
                });
                match save.await {
                    Ok(saved) => saved.map_err(|error| chain(&error)),
                    Err(_) => Err(GOING.to_owned()),
                }
            }
            Err(error) => Err(chain(&error)),
        };
        let before = {
            let mut state = self.inner.state.lock();
            if let Ok(seen) = &saved {
                // Our own write is not a change.
                state.seen.clone_from(seen);
                state.taken = mark(&new).cloned();
            }
            std::mem::replace(&mut state.unkept, saved.is_err().then_some(new))
        };
        match saved {
            Ok(_) => debug!("saved the renewed sign-in"),
            Err(why) if before.is_some() => debug!("still cannot save the renewed sign-in: {why}"),
            Err(why) => warn!(
                "cannot save the renewed sign-in: {why}. Only this process can use it; other \
                 processes and the next start have the old one"
            ),
        }
    }

    /// The token of a credential if it is any good, else a new one, which comes with
    /// the credential to keep.
    async fn settle(
        &self,
        found: Option<Credential>,
        stale: Option<&SecretString>,
    ) -> Result<(SecretString, Option<Credential>), TurnError> {
        let Some(mut found) = found else {
            let mut state = self.inner.state.lock();
            state.held = None;
            state.unkept = None;
            drop(state);
            return Err(self.nobody());
        };
        if let Some(token) = self.usable(&found, stale) {
            debug!("another process renewed the sign-in");
            return Ok((token, None));
        }
        let mark = mark(&found).cloned();
        {
            let state = self.inner.state.lock();
            let ours = state.held.as_ref().and_then(|held| held.refresh.clone());
            if state.is_spent(&found) && ours.is_some() {
                found.refresh_token = ours;
            }
        }
        let (refresh, key) = (found.refresh_token.clone(), found.api_key.clone());
        let grant = match (refresh, key) {
            (Some(refresh), None) => self.exchange(Proof::RefreshToken(refresh)).await?,
            (None, Some(key)) => self.exchange(Proof::ApiKey(key)).await?,
            (Some(refresh), Some(key)) => match self.exchange(Proof::RefreshToken(refresh)).await {
                // A key outlives the tokens it was exchanged for.
                Err(error) if error.code == ErrorCode::NotAuthenticated => {
                    self.exchange(Proof::ApiKey(key)).await?
                }
                outcome => outcome?,
            },
            (None, None) => return Err(self.signed_out(&RefreshError::SignedOut(None))),
        };
        let new = credential(Grant::clone(&grant), Some(found));
        let token = self.adopt_grant(*grant, new.refresh_token.clone());
        self.inner.state.lock().spent = mark;
        Ok((token, Some(new)))
    }

    /// The token of a credential, if it is not the stale one and does not expire soon.
    fn usable(&self, found: &Credential, stale: Option<&SecretString>) -> Option<SecretString> {
        let access = found.access_token.as_ref()?;
        let mut state = self.inner.state.lock();
        if stale.is_some_and(|stale| same(stale, access)) || state.is_spent(found) {
            return None;
        }
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
            let known = |(dead, _, at): &&(SecretString, TurnError, Instant)| {
                same(dead, &secret) && at.elapsed() < DEAD
            };
            if let Some((_, error, _)) = state.dead.iter().find(known) {
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
                state.dead.retain(|(dead, ..)| !same(dead, &secret));
                state.dead.truncate(DEAD_CAP - 1);
                state.dead.insert(0, (secret, error.clone(), Instant::now()));
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

impl TokensState {
    /// Whether this is what we renewed already.
    fn is_spent(&self, found: &Credential) -> bool {
        let spent = self.spent.as_ref().zip(mark(found));
        spent.is_some_and(|(spent, mark)| same(spent, mark))
    }
}

/// The secret that identifies the state of a source.
pub(super) fn mark(credential: &Credential) -> Option<&SecretString> {
    let Credential { access_token, refresh_token, api_key, .. } = credential;
    access_token.as_ref().or(refresh_token.as_ref()).or(api_key.as_ref())
}
