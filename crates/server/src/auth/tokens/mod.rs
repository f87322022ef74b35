//! The access token that requests carry, kept fresh: renewed ahead of its end beside the
//! requests, once for all of them, and once for all processes that share a file.

mod renew;
mod watch;
mod words;

use std::{fmt, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use ibeam_core::{
    auth::{
        jwt,
        schedule::{Lifetime, Skew},
    },
    error::TurnError,
    model::ids,
};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    sync::watch::Receiver,
    time::{Duration, Instant},
};

pub use self::words::login_command;
use self::words::{refused_fixed, unavailable};
use super::{
    AuthFileError, Credential, CredentialFile, CredentialSource, DiscoverError, FoundCredential,
    http::AuthHttp,
};
use crate::{clock, net::chain, random, tasks::Tasks};

/// After a renewal ahead of time has failed, the next one waits: the token is still good.
const PAUSE: Duration = Duration::from_secs(60);
/// A refused refresh token or key is not tried again for this long.
const DEAD: Duration = Duration::from_secs(300);
/// A token that is refused this soon after it was issued is not refused for its age.
const BRAND_NEW: Duration = Duration::from_secs(30);

/// Returns the time in seconds since 1970.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Reads the credential again from its source.
pub type Reread = Arc<dyn Fn() -> Result<Option<FoundCredential>, NotRead> + Send + Sync>;

/// Why a source could not be read.
#[derive(Debug)]
pub enum NotRead {
    Unusable(String),
    /// It may be over the next time.
    NotNow(String),
}

impl From<AuthFileError> for NotRead {
    fn from(error: AuthFileError) -> Self {
        let why = chain(&error);
        if error.is_temporary() { Self::NotNow(why) } else { Self::Unusable(why) }
    }
}

impl From<DiscoverError> for NotRead {
    fn from(error: DiscoverError) -> Self {
        match error {
            DiscoverError::File(error) => error.into(),
            DiscoverError::Variable(_) => Self::Unusable(error.to_string()),
        }
    }
}

type TokenOutcome = Result<SecretString, TurnError>;
type TokenFlight = Receiver<Option<TokenOutcome>>;

/// Hands out the token to use. Clones share it.
#[derive(Clone)]
pub struct AccessTokens {
    inner: Arc<TokensInner>,
}

struct TokensInner {
    holder: Holder,
    /// ibeam's own file, also if the credential is borrowed: it takes precedence.
    own: Option<CredentialFile>,
    watched: Vec<PathBuf>,
    http: Option<AuthHttp>,
    wall: WallClock,
    tasks: Tasks,
    state: Mutex<TokensState>,
}

/// Where the token comes from decides how it is renewed.
enum Holder {
    /// Given as it is. The words name where.
    Fixed(String),
    /// Exchanged for tokens, which are kept in memory.
    Key(SecretString),
    /// ibeam's own file, which other processes may use, too.
    Own(CredentialFile),
    /// Another program's: read again, and otherwise renewed in memory only.
    Borrowed(CredentialSource, Reread),
    /// Another program has it, and uses it itself. We get no token.
    Delegated(Box<dyn Delegate>),
}

/// A program that signs its own requests.
pub trait Delegate: Send + Sync + 'static {
    /// Checks whether it can sign requests now.
    fn check(&self) -> BoxFuture<'_, Result<(), TurnError>>;
    /// A request was refused: the last check does not count any more.
    fn doubt(&self);
    /// The account that it signs for, as far as known.
    fn account(&self) -> String;
    /// Whether it can sign requests, as far as known.
    fn signed_in(&self) -> bool;
}

struct TokensState {
    held: Option<HeldToken>,
    skew: Skew,
    /// The renewal that is under way.
    flight: Option<TokenFlight>,
    /// No renewal ahead of time before this.
    paused: Option<Instant>,
    /// What was refused, why, and when.
    dead: Vec<(SecretString, TurnError, Instant)>,
    /// The credential at the source when we renewed it. While it is still there, ours is newer.
    spent: Option<SecretString>,
    /// A renewed sign-in that could not be written, and has to be.
    unkept: Option<Credential>,
    /// The watched files as they were when they were last read, and the token in them.
    seen: watch::SeenStamps,
    taken: Option<SecretString>,
    /// They could not be read, and are not read again before this.
    blind: Option<Instant>,
}

struct HeldToken {
    access: SecretString,
    refresh: Option<SecretString>,
    account: String,
    life: Lifetime,
    /// When it was handed out to us, if it was.
    granted: Option<Instant>,
    /// Upstream refused it.
    refused: bool,
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokens").field("source", &self.source()).finish_non_exhaustive()
    }
}

// === making one ===

impl AccessTokens {
    /// A token that is used as it is, and never renewed. `place` names where it came
    /// from.
    #[must_use]
    pub fn fixed(token: SecretString, place: impl Into<String>, tasks: &Tasks) -> Self {
        let credential = Credential::of_access_token(token);
        let holder = Holder::Fixed(place.into());
        Self::with(holder, None, |_| Some(credential), None, wall(), tasks)
    }

    /// Whatever is in ibeam's own file, now or later.
    #[must_use]
    pub fn own(file: CredentialFile, http: AuthHttp, tasks: &Tasks) -> Self {
        Self::own_at(file, http, wall(), tasks)
    }

    /// A credential that was found, renewed by the rules of its source. `reread` looks
    /// for it once more; `file` is ibeam's own.
    #[must_use]
    pub fn found(
        found: FoundCredential,
        file: &CredentialFile,
        reread: Reread,
        http: AuthHttp,
        tasks: &Tasks,
    ) -> Self {
        let FoundCredential { credential, source } = found;
        let holder = match (&source, &credential.api_key) {
            (CredentialSource::Env(name), _) => Holder::Fixed((*name).to_owned()),
            (CredentialSource::ApiKeyEnv, Some(key)) => Holder::Key(key.clone()),
            (CredentialSource::Own(_), _) => Holder::Own(file.clone()),
            _ => Holder::Borrowed(source, reread),
        };
        Self::with(holder, Some(file), |_| Some(credential), Some(http), wall(), tasks)
    }

    /// `credential` returns the present credential. `own` is ibeam's file, also if the credential
    /// is borrowed.
    fn with(
        holder: Holder,
        own: Option<&CredentialFile>,
        credential: impl FnOnce(&Holder) -> Option<Credential>,
        http: Option<AuthHttp>,
        wall: WallClock,
        tasks: &Tasks,
    ) -> Self {
        let watched = watch::paths(&holder, own);
        // Taken before anything is read, so that a change meanwhile is noticed the next time.
        let mut state = TokensState {
            held: None,
            skew: Skew::default(),
            flight: None,
            paused: None,
            dead: Vec::new(),
            spent: None,
            unkept: None,
            seen: watch::look(&watched),
            taken: None,
            blind: None,
        };
        if let Some(credential) = credential(&holder) {
            state.adopt(&credential, None, wall());
            state.taken = renew::mark(&credential).cloned();
        }
        let state = Mutex::new(state);
        let (own, tasks) = (own.cloned(), tasks.clone());
        Self { inner: Arc::new(TokensInner { holder, own, watched, http, wall, tasks, state }) }
    }

    /// Leaves all of it to another program.
    #[must_use]
    pub fn delegated(delegate: impl Delegate, tasks: &Tasks) -> Self {
        Self::with(Holder::Delegated(Box::new(delegate)), None, |_| None, None, wall(), tasks)
    }

    /// A credential that is there and cannot be used; `reread` says why.
    #[must_use]
    pub fn unusable(source: CredentialSource, reread: Reread, tasks: &Tasks) -> Self {
        Self::with(Holder::Borrowed(source, reread), None, |_| None, None, wall(), tasks)
    }

    /// As [`Self::own`], with another clock, for tests that move it.
    #[must_use]
    pub fn own_at(file: CredentialFile, http: AuthHttp, wall: WallClock, tasks: &Tasks) -> Self {
        let load = |holder: &Holder| match holder {
            Holder::Own(file) => file.load().ok().flatten(),
            Holder::Fixed(_) | Holder::Key(_) | Holder::Borrowed(..) | Holder::Delegated(_) => None,
        };
        Self::with(Holder::Own(file), None, load, Some(http), wall, tasks)
    }
}

fn wall() -> WallClock {
    Arc::new(clock::unix_seconds)
}

// === using it ===

impl AccessTokens {
    /// The token to use now. Waits only if the present one has expired, or if the sign-in has
    /// changed.
    ///
    /// # Errors
    /// Not signed in, or the token has expired and cannot be renewed now.
    pub async fn current(&self) -> TokenOutcome {
        if let Holder::Delegated(delegate) = &self.inner.holder {
            return delegate.check().await.map(|()| SecretString::default());
        }
        self.notice().await;
        let flight = {
            let mut state = self.inner.state.lock();
            let now = state.skew.server_time((self.inner.wall)());
            match &state.held {
                Some(held) if matches!(self.inner.holder, Holder::Fixed(_)) => {
                    return Ok(held.access.clone());
                }
                Some(held) if !held.refused && !held.life.is_over(now) => {
                    let token = held.access.clone();
                    let paused = state.paused.is_some_and(|until| Instant::now() < until);
                    let wanted = held.life.is_due(now) || state.unkept.is_some();
                    if wanted && !paused {
                        self.renewal(&mut state);
                    }
                    return Ok(token);
                }
                _ => self.renewal(&mut state),
            }
        };
        landed(flight).await
    }

    /// Another token in place of one that upstream refused: the newer one, if there already is one.
    ///
    /// # Errors
    /// As [`Self::current`]; and a fixed token cannot be renewed at all.
    pub async fn renew(&self, used: &SecretString) -> TokenOutcome {
        if let Holder::Fixed(place) = &self.inner.holder {
            return Err(refused_fixed(place));
        }
        if let Holder::Delegated(delegate) = &self.inner.holder {
            delegate.doubt();
        }
        {
            let mut state = self.inner.state.lock();
            if let Some(held) = &mut state.held
                && same(&held.access, used)
            {
                if held.granted.is_some_and(|at| at.elapsed() < BRAND_NEW) {
                    return Err(self.refused_new());
                }
                held.refused = true;
            }
        }
        self.current().await
    }

    /// Names the account, the same for all of its tokens. Not secret; a hash if the token does not
    /// name its account.
    #[must_use]
    pub fn account(&self) -> String {
        let state = self.inner.state.lock();
        match (&state.held, &self.inner.holder) {
            (Some(held), _) => held.account.clone(),
            (None, Holder::Key(key)) => hashed(key),
            (None, Holder::Delegated(delegate)) => delegate.account(),
            (None, _) => String::new(),
        }
    }

    /// Whether another program signs its own requests.
    #[must_use]
    pub fn are_delegated(&self) -> bool {
        matches!(self.inner.holder, Holder::Delegated(_))
    }

    /// Whether there is anything to sign requests with, as far as is known.
    #[must_use]
    pub fn signed_in(&self) -> bool {
        if let Holder::Delegated(delegate) = &self.inner.holder {
            return delegate.signed_in();
        }
        if let Holder::Own(file) = &self.inner.holder
            && file.path().try_exists().is_ok_and(|there| !there)
        {
            return false;
        }
        let state = self.inner.state.lock();
        if state.dead.is_empty() {
            return state.held.is_some() || matches!(self.inner.holder, Holder::Key(_));
        }
        // The last token may outlive the sign-in it came from.
        let now = state.skew.server_time((self.inner.wall)());
        state.held.as_ref().is_some_and(|held| !held.refused && !held.life.is_over(now))
    }

    /// When the token in use ends, by its own word, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        let state = self.inner.state.lock();
        let held = state.held.as_ref()?;
        jwt::claims(held.access.expose_secret()).expires
    }

    /// Where it comes from, for people.
    #[must_use]
    pub fn source(&self) -> String {
        match &self.inner.holder {
            Holder::Fixed(place) => place.clone(),
            Holder::Key(_) => CredentialSource::ApiKeyEnv.to_string(),
            Holder::Own(file) => CredentialSource::Own(file.profile().clone()).to_string(),
            Holder::Borrowed(source, _) => source.to_string(),
            Holder::Delegated(_) => "cursor-agent".to_owned(),
        }
    }
}

fn same(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}

fn hashed(secret: &SecretString) -> String {
    ids::uuid_from_content([b"account".as_slice(), secret.expose_secret().as_bytes()])
}

impl TokensState {
    fn adopt(&mut self, credential: &Credential, granted: Option<Instant>, local: u64) {
        let Some(access) = credential.access_token.clone() else { return };
        let claims = jwt::claims(access.expose_secret());
        self.skew.note_issued(claims.issued, local);
        let now = self.skew.server_time(local);
        let life = Lifetime::of(&claims, now, granted.is_some(), random::fraction());
        let account = claims.subject.unwrap_or_else(|| hashed(&access));
        let refresh = credential.refresh_token.clone();
        self.dead.clear();
        self.held = Some(HeldToken { access, refresh, account, life, granted, refused: false });
    }
}

async fn landed(mut flight: TokenFlight) -> TokenOutcome {
    let landed = flight.wait_for(Option::is_some).await;
    match landed.as_deref() {
        Ok(Some(outcome)) => outcome.clone(),
        // The task is gone: the program is ending.
        Ok(None) | Err(_) => Err(unavailable("ibeam is shutting down")),
    }
}

#[cfg(test)]
mod tests;
