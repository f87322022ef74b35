//! Notices sign-ins and sign-outs by other processes: checks the files for each token that is
//! requested.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use secrecy::SecretString;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{
    AccessTokens, Holder, NotRead, PAUSE, TokenFlight, TokenOutcome, TokensState, renew::mark, same,
};
use crate::{
    auth::{Consents, Credential, CredentialFile},
    stamp::FileStamp,
};

/// How the files were when they were last read, in the order of the paths.
pub(super) type SeenStamps = Vec<Option<FileStamp>>;

/// A renewal that was under way when the files changed may not have seen it, so they are checked
/// again after it. They do not change more often than that.
const LOOKS: usize = 3;

/// The files that decide which account is used. Files of other programs are not watched: those
/// programs write them all the time.
pub(super) fn paths(holder: &Holder, own: Option<&CredentialFile>) -> Vec<PathBuf> {
    match (holder, own) {
        (Holder::Own(file), _) => vec![file.path().to_path_buf()],
        (Holder::Borrowed(..), Some(file)) => {
            let folder = file.path().parent().and_then(Path::parent).unwrap_or(Path::new("."));
            let consents = Consents::none(folder);
            vec![file.path().to_path_buf(), consents.path().to_path_buf()]
        }
        (Holder::Fixed(_) | Holder::Key(_) | Holder::Borrowed(..) | Holder::Delegated(_), _) => {
            Vec::new()
        }
    }
}

pub(super) fn look(paths: &[PathBuf]) -> SeenStamps {
    paths.iter().map(|path| FileStamp::of(path)).collect()
}

impl AccessTokens {
    /// Applies changes of the files since the last check.
    pub(super) async fn notice(&self) {
        for _ in 0..LOOKS {
            let Some(mut flight) = self.rereading() else { return };
            // The result is in the state.
            let _ = flight.wait_for(Option::is_some).await;
        }
    }

    /// The read that a change makes necessary, or another renewal that is running.
    fn rereading(&self) -> Option<TokenFlight> {
        if self.inner.watched.is_empty() {
            return None;
        }
        let now = look(&self.inner.watched);
        let mut state = self.inner.state.lock();
        let blind = state.blind.is_some_and(|until| Instant::now() < until);
        if now == state.seen || (blind && state.held.is_some()) {
            return None;
        }
        let this = self.clone();
        Some(self.fly(&mut state, "credential reading", async move { this.reread().await }))
    }

    async fn reread(&self) -> TokenOutcome {
        // Before they are read: what changes meanwhile is found the next time.
        let mut seen = look(&self.inner.watched);
        let read = match &self.inner.holder {
            Holder::Own(file) => {
                let file = file.clone();
                self.inner.tasks.spawn_blocking(move || file.load().map_err(NotRead::from))
            }
            Holder::Borrowed(_, reread) => {
                let reread = Arc::clone(reread);
                self.inner.tasks.spawn_blocking(move || Ok(reread()?.map(|found| found.credential)))
            }
            Holder::Fixed(_) | Holder::Key(_) | Holder::Delegated(_) => {
                return Err(self.nobody());
            }
        };
        let Ok(found) = read.await else { return Err(self.nobody()) };
        let stale = {
            let local = (self.inner.wall)();
            let mut state = self.inner.state.lock();
            match found {
                Ok(Some(credential)) => state.take_up(&credential, local),
                Ok(None) => state.forget("the sign-in was removed"),
                Err(NotRead::Unusable(why)) => {
                    state.forget(&format!("the sign-in cannot be used any more: {why}"));
                }
                Err(NotRead::NotNow(why)) => {
                    debug!("cannot read the sign-in: {why}");
                    seen.clone_from(&state.seen);
                    state.blind = Some(Instant::now() + PAUSE);
                }
            }
            state.seen = seen;
            let now = state.skew.server_time(local);
            match &state.held {
                Some(held) if !held.refused && !held.life.is_over(now) => {
                    return Ok(held.access.clone());
                }
                held => held.as_ref().map(|held| held.access.clone()),
            }
        };
        // Others may wait for this as for any renewal.
        self.renewed(stale.as_ref()).await
    }
}

impl TokensState {
    fn forget(&mut self, why: &str) {
        if self.held.take().is_some() {
            warn!("{why}");
        }
        (self.taken, self.spent, self.unkept) = (None, None, None);
    }

    /// Uses a credential that stands in the files now, unless it is the one from before:
    /// what was renewed in memory since is newer.
    fn take_up(&mut self, credential: &Credential, local: u64) {
        let mark = mark(credential).cloned();
        let is = |known: Option<&SecretString>| {
            mark.as_ref().zip(known).is_some_and(|(mark, known)| same(mark, known))
        };
        let held = self.held.as_ref().map(|held| &held.access);
        let known = held.is_some() && (is(self.taken.as_ref()) || is(held));
        self.taken = mark;
        if !known {
            self.held = None;
            // What is not written yet belongs to the one before.
            (self.paused, self.spent, self.unkept) = (None, None, None);
            self.dead.clear();
            self.adopt(credential, None, local);
            info!("the sign-in has changed");
        }
    }
}
