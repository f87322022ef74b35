//! Stored responses, which clients can continue and fetch again.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tracing::warn;

use super::{
    ResponseLimits, Scope, Store, StoreError,
    clocks::RetentionClocks,
    tables,
    vault::{PAGES_AT_ONCE, StoreDatabase, seconds},
};

/// The longest chain of responses. Far more than a client makes
/// before what was said no longer fits a model.
const LINKS: usize = 2048;

/// Responses that one save may have to delete: its caller is waiting.
const DELETED_AT_ONCE: usize = 64;

/// One response as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    pub id: String,
    /// The one it continues.
    pub previous: Option<String>,
    pub status: String,
    /// The object as its client got it.
    pub body: String,
    /// The items of its request, a list as JSON.
    pub input: String,
    /// The items of its output, likewise.
    pub output: String,
}

impl StoredResponse {
    /// Bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.body.len() + self.input.len() + self.output.len()
    }

    /// # Errors
    /// It failed, so it cannot be continued.
    pub fn check(&self) -> Result<(), ChainError> {
        match self.status.as_str() {
            "completed" | "incomplete" => Ok(()),
            status => {
                Err(ChainError::Unfinished { id: self.id.clone(), status: status.to_owned() })
            }
        }
    }

    #[must_use]
    pub fn link(&self) -> ChainLink {
        ChainLink { input: self.input.clone(), output: self.output.clone() }
    }
}

/// One step of a conversation that is linked by ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLink {
    pub input: String,
    pub output: String,
}

/// Why the earlier conversation cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// The response does not exist, or not any more.
    Missing(String),
    /// It failed, so it cannot be continued.
    Unfinished { id: String, status: String },
    /// It is too large.
    TooLong,
    /// It has too many items.
    TooManyItems,
}

impl Store {
    /// Keeps a response. All of it or nothing; one that is larger than the limit of all is not
    /// stored.
    ///
    /// # Errors
    /// What is kept is as it was before.
    pub async fn save_response(
        &self,
        scope: Scope,
        response: StoredResponse,
        now_unix: u64,
    ) -> Result<(), StoreError> {
        self.run(move |vault| vault.save_response(scope, &response, now_unix)).await
    }

    /// The response of that id, unless its time is over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn response(
        &self,
        scope: Scope,
        id: &str,
        now_unix: u64,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let id = id.to_owned();
        self.run(move |vault| {
            let oldest = vault.oldest_response(vault.clocks(now_unix)?);
            Ok(find(vault.connection(), WHOLE, (scope, &id), oldest)?)
        })
        .await
    }

    /// The history up to the response of that id, oldest first, at most `most_bytes`. Its age
    /// starts again.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn chain(
        &self,
        scope: Scope,
        id: &str,
        most_bytes: usize,
        now_unix: u64,
    ) -> Result<Result<Vec<ChainLink>, ChainError>, StoreError> {
        let id = id.to_owned();
        self.run(move |vault| {
            let retention = vault.response_limits().retention;
            let (walk, clocks) = vault.stamped(now_unix)?;
            let oldest = seconds(clocks.responses.oldest(retention));
            let now = seconds(clocks.responses.time);
            let chain = chain(&walk, (scope, id), (oldest, now), most_bytes)?;
            walk.commit()?;
            Ok(chain)
        })
        .await
    }

    /// Deletes a response. False: it does not exist.
    ///
    /// # Errors
    /// It is still there.
    pub async fn forget_response(&self, scope: Scope, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.run(move |vault| {
            let sql = "DELETE FROM responses WHERE scope = ?1 AND id = ?2";
            Ok(vault.connection().execute(sql, params![scope, id])? > 0)
        })
        .await
    }
}

impl StoreDatabase {
    fn save_response(
        &mut self,
        scope: Scope,
        response: &StoredResponse,
        now: u64,
    ) -> Result<(), StoreError> {
        let limits = self.response_limits();
        let bytes = response.size();
        if bytes as u64 > limits.bytes {
            warn!(bytes, "a response was too large to be kept");
            return Ok(());
        }
        let (all, clocks) = self.stamped(now)?;
        put(&all, scope, response, seconds(clocks.responses.time))?;
        let oldest = seconds(clocks.responses.oldest(limits.retention));
        let deleted = forget_before(&all, oldest)? + shrink(&all, limits)?;
        all.commit()?;
        if deleted > 0 {
            tables::give_back(self.connection(), PAGES_AT_ONCE)?;
        }
        self.weigh()
    }

    /// What was used before this is not found any more.
    fn oldest_response(&self, clocks: RetentionClocks) -> i64 {
        seconds(clocks.responses.oldest(self.response_limits().retention))
    }
}

fn put(
    connection: &Connection,
    scope: Scope,
    response: &StoredResponse,
    now: i64,
) -> rusqlite::Result<()> {
    let StoredResponse { id, previous, status, body, input, output } = response;
    let size = i64::try_from(response.size()).unwrap_or(i64::MAX);
    connection
        .execute(
            "INSERT INTO responses (scope, id, previous, status, body, input, output, size, used)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (scope, id) DO UPDATE SET
                 previous = excluded.previous, status = excluded.status, body = excluded.body,
                 input = excluded.input, output = excluded.output, size = excluded.size,
                 used = excluded.used",
            params![
                scope,
                id,
                previous,
                status,
                body.as_bytes(),
                input.as_bytes(),
                output.as_bytes(),
                size,
                now
            ],
        )
        .map(drop)
}

const WHOLE: &str = "SELECT * FROM responses WHERE scope = ?1 AND id = ?2 AND used >= ?3";

/// Its items only. The body repeats them, and all tools as well.
const SAID: &str = "SELECT id, previous, status, x'' AS body, input, output FROM responses
                    WHERE scope = ?1 AND id = ?2 AND used >= ?3";

fn find(
    connection: &Connection,
    sql: &str,
    (scope, id): (Scope, &str),
    oldest: i64,
) -> rusqlite::Result<Option<StoredResponse>> {
    connection
        .query_row(sql, params![scope, id, oldest], |row| {
            Ok(StoredResponse {
                id: row.get("id")?,
                previous: row.get("previous")?,
                status: row.get("status")?,
                body: text(row, "body")?,
                input: text(row, "input")?,
                output: text(row, "output")?,
            })
        })
        .optional()
}

fn chain(
    connection: &Connection,
    (scope, id): (Scope, String),
    (oldest, now): (i64, i64),
    most_bytes: usize,
) -> rusqlite::Result<Result<Vec<ChainLink>, ChainError>> {
    let mut links = Vec::new();
    let mut left = most_bytes;
    let mut next = Some(id);
    while let Some(id) = next {
        let Some(found) = find(connection, SAID, (scope, &id), oldest)? else {
            return Ok(Err(ChainError::Missing(id)));
        };
        if let Err(unfinished) = found.check() {
            return Ok(Err(unfinished));
        }
        let size = found.input.len() + found.output.len();
        match left.checked_sub(size) {
            Some(rest) if links.len() < LINKS => left = rest,
            _ => return Ok(Err(ChainError::TooLong)),
        }
        // A continued conversation keeps its beginning.
        let sql = "UPDATE responses SET used = ?3 WHERE scope = ?1 AND id = ?2 AND used < ?3";
        connection.execute(sql, params![scope, id, now])?;
        links.push(ChainLink { input: found.input, output: found.output });
        next = found.previous;
    }
    links.reverse();
    Ok(Ok(links))
}

/// Deletes what was last used before a time. Says how many.
pub(super) fn forget_before(connection: &Connection, time: i64) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM responses WHERE used < ?1", [time])
}

/// The scope that takes up most room.
const MOST_BYTES: &str =
    "SELECT scope FROM responses GROUP BY scope ORDER BY sum(size) DESC LIMIT 1";
const MOST_RESPONSES: &str =
    "SELECT scope FROM responses GROUP BY scope ORDER BY count(*) DESC LIMIT 1";

/// Deletes those that were used longest ago, of the scope that takes up most room, until there is
/// room: a client that stores much loses its own. Says how many.
fn shrink(connection: &Connection, limits: ResponseLimits) -> rusqlite::Result<usize> {
    let (mut count, mut bytes) = weight(connection)?;
    let mut deleted = 0;
    while deleted < DELETED_AT_ONCE && (count > limits.count || bytes > limits.bytes) {
        let most = if bytes > limits.bytes { MOST_BYTES } else { MOST_RESPONSES };
        let scope: Scope = connection.query_row(most, [], |row| row.get(0))?;
        let size: i64 = connection.query_row(
            "DELETE FROM responses WHERE key =
             (SELECT key FROM responses WHERE scope = ?1 ORDER BY used, key LIMIT 1)
             RETURNING size",
            [scope],
            |row| row.get(0),
        )?;
        count = count.saturating_sub(1);
        bytes = bytes.saturating_sub(size.unsigned_abs());
        deleted += 1;
    }
    Ok(deleted)
}

/// How many there are, and how many bytes.
pub(super) fn weight(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let sql = "SELECT count(*), coalesce(sum(size), 0) FROM responses";
    connection.query_row(sql, [], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()))
    })
}

fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    let bytes: Vec<u8> = row.get(column)?;
    String::from_utf8(bytes).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
    })
}

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
