//! The sign-in of the CLI. The CLI keeps it; ibeam only asks for it.

use std::{sync::Arc, time::Duration};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    peer::cli::listing::SignInStatus,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::kit::Kit;
use crate::{auth::tokens::Delegate, driver::BoxFuture};

/// How long an answer is valid.
const GOOD: Duration = Duration::from_secs(30);
const BAD: Duration = Duration::from_secs(5);

/// The account, if the CLI does not report it.
const NAMELESS: &str = "cli";

/// Asks the CLI for its sign-in, once for all callers. Clones share it.
#[derive(Clone, Debug)]
pub struct SignInGate(Arc<GateInner>);

#[derive(Debug)]
struct GateInner {
    kit: Arc<Kit>,
    known: Mutex<Option<KnownAccount>>,
    /// Held during a request, so that others wait for its answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct KnownAccount {
    account: Result<String, TurnError>,
    until: Instant,
}

impl SignInGate {
    pub(super) fn new(kit: &Arc<Kit>) -> Self {
        let kit = Arc::clone(kit);
        Self(Arc::new(GateInner { kit, known: Mutex::new(None), asking: Default::default() }))
    }

    /// The account that is signed in.
    ///
    /// # Errors
    /// The CLI is not signed in, or does not report it.
    pub async fn account(&self) -> Result<String, TurnError> {
        if let Some(known) = self.fresh() {
            return known;
        }
        let _asking = self.0.asking.lock().await;
        // Another caller may have asked meanwhile.
        if let Some(known) = self.fresh() {
            return known;
        }
        let account = self.ask().await;
        let until = Instant::now() + if account.is_ok() { GOOD } else { BAD };
        *self.0.known.lock() = Some(KnownAccount { account: account.clone(), until });
        account
    }

    /// Asks in the background, unless there is an answer or a request for one.
    pub(super) fn look(&self) {
        if self.fresh().is_none() && self.0.asking.try_lock().is_ok() {
            let this = self.clone();
            self.0.kit.tasks.spawn("cursor-agent status", async move {
                // The next caller sees the result.
                let _ = this.account().await;
            });
        }
    }

    fn fresh(&self) -> Option<Result<String, TurnError>> {
        let known = self.0.known.lock();
        known.as_ref().filter(|known| Instant::now() < known.until).map(|k| k.account.clone())
    }

    async fn ask(&self) -> Result<String, TurnError> {
        let kit = &self.0.kit;
        let said = kit.ask(&["status"], kit.settings.auth_timeout).await.map_err(|mut error| {
            if error.code == ErrorCode::Timeout {
                let message = error.message.to_mut();
                message.push_str(" If it needs longer, raise `cursor_agent.auth_timeout`.");
            }
            error
        })?;
        match SignInStatus::read(&format!("{}\n{}", said.stdout, said.stderr)) {
            SignInStatus::SignedIn { account } => {
                Ok(account.unwrap_or_else(|| NAMELESS.to_owned()))
            }
            SignInStatus::SignedOut => Err(nobody()),
            SignInStatus::Unclear => {
                let text = "`cursor-agent status` does not say who is signed in. Run it by hand \
                            to see why.";
                Err(TurnError::new(ErrorCode::Unavailable, text).cause(said.stderr))
            }
        }
    }
}

fn nobody() -> TurnError {
    let text = "Cursor's CLI is not signed in. Run `ibeam login --backend cli`, or \
                `cursor-agent login`.";
    TurnError::new(ErrorCode::NotAuthenticated, text)
}

impl Delegate for SignInGate {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnError>> {
        Box::pin(async { self.account().await.map(|_| ()) })
    }

    fn doubt(&self) {
        if let Some(known) = self.0.known.lock().as_mut() {
            known.until = Instant::now();
        }
    }

    fn account(&self) -> String {
        let known = self.0.known.lock();
        let account = known.as_ref().and_then(|known| known.account.as_ref().ok());
        account.cloned().unwrap_or_default()
    }

    fn signed_in(&self) -> bool {
        self.look();
        // Until the first answer, assume that it is signed in.
        self.0.known.lock().as_ref().is_none_or(|known| known.account.is_ok())
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "status_tests.rs"]
mod tests;
