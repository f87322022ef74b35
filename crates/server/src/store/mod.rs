//! Stored conversations, for after their turns or a restart: the backend's id, the checkpoint, the
//! blobs. One SQLite file, so that a conversation can be continued instead of sent again.
//!
//! *Invariant:* nothing needs the store. A failure of it costs a client a longer request, never an
//! answer.
//!
//! There is one connection. A command takes it to a blocking thread and brings it back;
//! the others wait in line for it, and with them their callers, so nothing piles up.

mod clocks;
pub mod file;
mod responses;
mod schema;
mod tables;
mod vault;

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_core::{
    history::Fingerprint,
    model::{ToolCall, ids::SessionId},
};
use tokio::sync::Mutex;

pub use self::responses::{ChainError, ChainLink, StoredResponse};
use self::vault::{StoreDatabase, StoreGauges};
use crate::{clock, tasks::Tasks};

/// Saving more than this needs much memory for a moment.
const LARGE: usize = 1 << 20;

/// The owner of a stored conversation: a hash of account, client key and profile.
pub type Scope = [u8; 32];

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    pub retention: Duration,
    pub bytes: u64,
    pub responses: ResponseLimits,
}

/// The same for responses.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimits {
    pub retention: Duration,
    pub count: u64,
    pub bytes: u64,
}

/// What is kept of one conversation, apart from its blobs.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredConversation {
    pub scope: Scope,
    /// The id that the backend knows it by.
    pub id: String,
    /// The session of the unanswered calls.
    pub session: Option<SessionId>,
    /// The name that the client gave it.
    pub name: Option<String>,
    /// Hash of the system prompt and the tools.
    pub setup: [u8; 32],
    /// Of the whole history so far.
    pub fingerprint: Fingerprint,
    /// Of what was said before the first answer. An edited history often begins with the same.
    pub opening: Option<Fingerprint>,
    pub checkpoint: Option<Bytes>,
    /// Handed out and not answered yet.
    pub calls: Vec<ToolCall>,
    /// The highest number of a call of the session, if it is known.
    pub highest_call: Option<u32>,
}

/// For `/health`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub conversations: u64,
    pub bytes: u64,
    /// Nothing outlives the program: no file was configured, or it could not be used.
    pub in_memory: bool,
    pub failed_saves: u64,
    /// The last save failed.
    pub failing: bool,
}

/// Why the store failed. The request continues without it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the store failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The program is going down, or the work panicked.
    #[error("a store operation was interrupted")]
    Stopped,
}

impl StoreError {
    /// Another connection had it, for longer than one waits.
    fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
        matches!(self, Self::Database(error) if matches!(error.sqlite_error_code(),
            Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed)))
    }

    /// The file itself is damaged: trying again will not help.
    fn is_corrupt(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(self, Self::Database(error)
            if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)))
    }
}

/// The handle. Clones share one connection.
#[derive(Clone, Debug)]
pub struct Store {
    vault: Arc<Mutex<StoreDatabase>>,
    gauges: Arc<StoreGauges>,
    tasks: Tasks,
}

impl Store {
    /// Opens the file at `path`, or keeps everything in memory. A file that cannot be
    /// used is reported, and memory is used instead.
    ///
    /// # Errors
    /// Not even memory is available.
    pub fn open(
        path: Option<&Path>,
        limits: StoreLimits,
        tasks: &Tasks,
    ) -> Result<Self, StoreError> {
        Self::open_at(path, limits, tasks, clock::unix_seconds())
    }

    /// The same at a moment that is given, in seconds since 1970.
    fn open_at(
        path: Option<&Path>,
        limits: StoreLimits,
        tasks: &Tasks,
        now_unix: u64,
    ) -> Result<Self, StoreError> {
        let vault = StoreDatabase::open(path, limits, now_unix)?;
        let gauges = Arc::clone(vault.gauges());
        Ok(Self { vault: Arc::new(Mutex::new(vault)), gauges, tasks: tasks.clone() })
    }

    /// Keeps `conversation`, in place of what was kept under its scope and id, and adds blobs to
    /// those it has. All of it or nothing. Once started it is finished, even if the caller leaves.
    ///
    /// # Errors
    /// What is kept is as it was before.
    pub async fn save(
        &self,
        conversation: StoredConversation,
        new_blobs: Vec<(Bytes, Bytes)>,
        now_unix: u64,
    ) -> Result<(), StoreError> {
        let bytes: usize = new_blobs.iter().map(|(_, data)| data.len()).sum();
        let save = move |vault: &mut StoreDatabase| vault.save(&conversation, &new_blobs, now_unix);
        self.run_sized(bytes, save).await
    }

    /// Conversations in which exactly this was said, the newest first, at most 8.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn by_fingerprint(
        &self,
        scope: Scope,
        fingerprint: Fingerprint,
    ) -> Result<Vec<StoredConversation>, StoreError> {
        self.run(move |vault| Ok(tables::by_fingerprint(vault.connection(), scope, fingerprint)?))
            .await
    }

    /// Whether a conversation began with exactly this.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_opening(
        &self,
        scope: Scope,
        opening: Fingerprint,
    ) -> Result<bool, StoreError> {
        self.run(move |vault| Ok(tables::has_opening(vault.connection(), scope, opening)?)).await
    }

    /// Conversations of that name, at most 8: those with the `preferred` setup first, and
    /// of these the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn by_name(
        &self,
        scope: Scope,
        name: &str,
        preferred: Option<[u8; 32]>,
    ) -> Result<Vec<StoredConversation>, StoreError> {
        let name = name.to_owned();
        self.run(move |vault| Ok(tables::by_name(vault.connection(), scope, &name, preferred)?))
            .await
    }

    /// The conversation with calls of that session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn by_session(
        &self,
        scope: Scope,
        session: SessionId,
    ) -> Result<Option<StoredConversation>, StoreError> {
        self.run(move |vault| Ok(tables::by_session(vault.connection(), scope, session)?)).await
    }

    /// All blobs of a conversation, id and data.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn blobs(&self, scope: Scope, id: &str) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let id = id.to_owned();
        self.run(move |vault| Ok(tables::blobs(vault.connection(), scope, &id)?)).await
    }

    /// Deletes a conversation and its blobs.
    ///
    /// # Errors
    /// It is still there.
    pub async fn forget(&self, scope: Scope, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.run(move |vault| vault.forget(scope, &id)).await
    }

    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.gauges.read()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StoreDatabase) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_sized(0, work).await
    }

    /// `bytes`: how many are written. SQLite copies them.
    async fn run_sized<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut StoreDatabase) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut vault = Arc::clone(&self.vault).lock_owned().await;
        let work = move || {
            let outcome = work(&mut vault);
            if outcome.as_ref().is_err_and(StoreError::is_corrupt) {
                vault.start_afresh();
            }
            outcome
        };
        let done = match bytes > LARGE {
            true => self.tasks.spawn_large(work),
            false => self.tasks.spawn_blocking(work),
        };
        done.await.unwrap_or(Err(StoreError::Stopped))
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
