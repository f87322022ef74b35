//! The database connection with its file, its limits and its statistics.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    ResponseLimits, Scope, StoreError, StoreLimits, StoreStats, StoredConversation,
    clocks::RetentionClocks,
    file::{self, FileId, OpenedStore},
    responses, tables,
};

/// The most that is kept without a file, which is in the program's own memory.
const MEMORY_BYTES: u64 = 64 << 20;

/// Seconds between two searches for expired rows.
const TIDY_EVERY: u64 = 60;

/// Conversations that one save may have to delete: its caller is waiting.
const DELETED_AT_ONCE: usize = 64;

/// How many empty pages are returned to the file system at once; the rest is reused.
pub(super) const PAGES_AT_ONCE: u32 = 1024;

#[derive(Debug)]
pub(super) struct StoreDatabase {
    connection: Connection,
    /// None: in memory.
    path: Option<PathBuf>,
    /// The file that the connection has open.
    id: Option<FileId>,
    limits: StoreLimits,
    /// Unix time of the last search for expired rows.
    tidied: u64,
    /// When the clocks were last read.
    looked: Instant,
    /// The last save failed, and that was logged.
    gauges: Arc<StoreGauges>,
}

impl StoreDatabase {
    pub(super) fn open(
        path: Option<&Path>,
        limits: StoreLimits,
        now: u64,
    ) -> Result<Self, StoreError> {
        let put_aside = path.and_then(file::put_aside);
        let opened = path.and_then(|path| {
            file::open(path).inspect_err(|why| memory_only(path, why)).ok().map(|it| (it, path))
        });
        let (OpenedStore { connection, id }, path) = match opened {
            Some((opened, path)) => (opened, Some(path.to_path_buf())),
            None => (OpenedStore { connection: memory()?, id: None }, None),
        };
        let gauges = Arc::default();
        let looked = Instant::now();
        let mut vault = Self { connection, path, id, limits, tidied: 0, looked, gauges };
        // As long as it takes: no request is waiting yet.
        if let Err(error) = vault.tidy(now, usize::MAX).and_then(|()| vault.recount()) {
            vault.go_on_after(&error);
        }
        // What was put aside a moment ago is left for the next start.
        if let (Some(path), Ok(clocks)) = (&vault.path, vault.clocks(now))
            && put_aside == file::put_aside(path)
        {
            file::sweep(path, clocks.conversations.oldest(limits.retention));
        }
        Ok(vault)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Immediate: two writers then wait for each other, where otherwise one would fail.
    pub(super) fn transaction(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// The present time, by which ages are counted.
    pub(super) fn clocks(&self, wall: u64) -> rusqlite::Result<RetentionClocks> {
        RetentionClocks::read(&self.connection, wall, self.looked.elapsed(), &self.limits)
    }

    /// Begins a transaction that writes those times down.
    pub(super) fn stamped(
        &mut self,
        wall: u64,
    ) -> rusqlite::Result<(Transaction<'_>, RetentionClocks)> {
        let (ran, limits) = (self.looked.elapsed(), self.limits);
        self.looked = Instant::now();
        let all = self.transaction()?;
        let clocks = RetentionClocks::read(&all, wall, ran, &limits)?;
        clocks.write(&all)?;
        Ok((all, clocks))
    }

    pub(super) fn response_limits(&self) -> ResponseLimits {
        let limits = self.limits.responses;
        match self.path {
            Some(_) => limits,
            None => ResponseLimits { bytes: limits.bytes.min(MEMORY_BYTES), ..limits },
        }
    }

    pub(super) fn gauges(&self) -> &Arc<StoreGauges> {
        &self.gauges
    }

    pub(super) fn save(
        &mut self,
        conversation: &StoredConversation,
        blobs: &[(Bytes, Bytes)],
        now: u64,
    ) -> Result<(), StoreError> {
        let outcome = self.try_save(conversation, blobs, now);
        let failed_before = self.gauges.failing.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Ok(()) if failed_before => info!("conversations are saved again"),
            Ok(()) => {}
            Err(error) => {
                self.gauges.failed_saves.fetch_add(1, Ordering::Relaxed);
                if !failed_before {
                    warn!(%error, "cannot save a conversation; requests are answered without the \
                                   store");
                }
            }
        }
        // A failure in here is one of cleaning up, and no reason to fail the save.
        if let Err(error) = self.tidy(now, DELETED_AT_ONCE) {
            tracing::debug!(%error, "cannot clean up the store");
        }
        outcome
    }

    fn try_save(
        &mut self,
        conversation: &StoredConversation,
        blobs: &[(Bytes, Bytes)],
        now: u64,
    ) -> Result<(), StoreError> {
        let (both, clocks) = self.stamped(now)?;
        let new = tables::save(&both, conversation, blobs, seconds(clocks.conversations.time))?;
        both.commit()?;
        self.gauges.conversations.fetch_add(u64::from(new), Ordering::Relaxed);
        self.weigh()
    }

    pub(super) fn forget(&mut self, scope: Scope, id: &str) -> Result<(), StoreError> {
        tables::forget(&self.connection, scope, id)?;
        self.recount()
    }

    /// The file is damaged: a new one takes its place, or has already.
    pub(super) fn start_afresh(&mut self) {
        let Some(path) = self.path.take() else { return };
        let Ok(memory) = memory() else { return };
        let connection = std::mem::replace(&mut self.connection, memory);
        match file::replace(&path, OpenedStore { connection, id: self.id.take() }) {
            Ok(OpenedStore { connection, id }) => {
                (self.connection, self.id, self.path) = (connection, id, Some(path));
            }
            Err(why) => memory_only(&path, &why),
        }
        if let Err(error) = self.recount() {
            tracing::debug!(%error, "cannot measure the store");
        }
    }

    /// Another process may have replaced the file because it was damaged. Writes to the old one
    /// would be lost.
    fn follow(&mut self) {
        let Some(path) = &self.path else { return };
        let there = FileId::at(path);
        if self.id.is_some() && there.is_some() && there != self.id {
            info!(path = %path.display(), "the store was replaced; opening the new one");
            self.start_afresh();
        }
    }

    fn go_on_after(&mut self, error: &StoreError) {
        if error.is_corrupt() {
            self.start_afresh();
        } else {
            warn!(%error, "cannot clean up the store");
        }
    }

    /// Deletes what is too old or too much, at most `most` for the latter.
    fn tidy(&mut self, now: u64, most: usize) -> Result<(), StoreError> {
        let mut deleted = 0;
        // Do not wait because the clock was set back.
        if !(self.tidied..self.tidied.saturating_add(TIDY_EVERY)).contains(&now) {
            self.tidied = now;
            self.follow();
            let limits = self.limits;
            let (all, clocks) = self.stamped(now)?;
            let oldest = clocks.conversations.oldest(limits.retention);
            deleted += tables::forget_before(&all, seconds(oldest))?;
            let oldest = clocks.responses.oldest(limits.responses.retention);
            deleted += responses::forget_before(&all, seconds(oldest))?;
            all.commit()?;
        }
        let most_bytes = self.most_bytes();
        // Counting responses takes longer than asking for all there is.
        if tables::used_bytes(&self.connection)? > most_bytes
            && talked_bytes(&self.connection)? > most_bytes
        {
            deleted += self.shrink(most)?;
        }
        if deleted > 0 {
            tables::give_back(&self.connection, PAGES_AT_ONCE)?;
            self.recount()?;
        }
        Ok(())
    }

    /// Deletes until there is some room, so that the next save need not: the oldest of the scope
    /// that takes up most room, so that a client that stores much loses its own.
    fn shrink(&mut self, most: usize) -> Result<usize, StoreError> {
        let goal = self.most_bytes() / 10 * 9;
        let all = self.transaction()?;
        let mut sizes = tables::scope_sizes(&all)?;
        let mut deleted = 0;
        while deleted < most && talked_bytes(&all)? > goal {
            let largest = sizes.iter_mut().max_by_key(|(_, size)| *size);
            let Some((scope, size)) = largest else { break };
            let Some(bytes) = tables::forget_oldest(&all, *scope)? else { break };
            *size -= bytes;
            deleted += 1;
        }
        all.commit()?;
        Ok(deleted)
    }

    fn most_bytes(&self) -> u64 {
        match self.path {
            Some(_) => self.limits.bytes,
            None => self.limits.bytes.min(MEMORY_BYTES),
        }
    }

    fn recount(&self) -> Result<(), StoreError> {
        self.weigh()?;
        let conversations = tables::count(&self.connection)?;
        self.gauges.conversations.store(conversations, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn weigh(&self) -> Result<(), StoreError> {
        self.gauges.in_memory.store(self.path.is_none(), Ordering::Relaxed);
        let bytes = match &self.path {
            Some(path) => file::bytes(path),
            None => tables::used_bytes(&self.connection)?,
        };
        self.gauges.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Statistics that need no query.
#[derive(Debug, Default)]
pub(super) struct StoreGauges {
    conversations: AtomicU64,
    bytes: AtomicU64,
    in_memory: AtomicBool,
    failed_saves: AtomicU64,
    failing: AtomicBool,
}

impl StoreGauges {
    pub(super) fn read(&self) -> StoreStats {
        StoreStats {
            conversations: self.conversations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            in_memory: self.in_memory.load(Ordering::Relaxed),
            failed_saves: self.failed_saves.load(Ordering::Relaxed),
            failing: self.failing.load(Ordering::Relaxed),
        }
    }
}

fn memory() -> Result<Connection, StoreError> {
    let mut connection = Connection::open_in_memory()?;
    file::set_up(&mut connection)?;
    Ok(connection)
}

fn memory_only(path: &Path, why: &file::UnusableFile) {
    warn!(
        path = %path.display(), %why,
        "the store file cannot be used; conversations are kept in memory until ibeam exits"
    );
}

/// The size of conversations: responses have their own limit.
fn talked_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let (_, bytes) = responses::weight(connection)?;
    Ok(tables::used_bytes(connection)?.saturating_sub(bytes))
}

pub(super) fn seconds(unix: u64) -> i64 {
    i64::try_from(unix).unwrap_or(i64::MAX)
}
