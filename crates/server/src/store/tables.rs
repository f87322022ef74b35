//! The statements.

use bytes::Bytes;
use ibeam_core::{
    history::Fingerprint,
    model::{ToolCall, ids::SessionId},
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params, types::Type};

use super::{
    Scope, StoredConversation,
    schema::{blob_bytes, row_bytes},
};

/// Matches that a caller looks through.
const MATCHES: usize = 8;

/// Writes both tables. True: the conversation is a new one. To be called in a
/// transaction.
pub(super) fn save(
    connection: &Connection,
    conversation: &StoredConversation,
    blobs: &[(Bytes, Bytes)],
    now: i64,
) -> rusqlite::Result<bool> {
    let StoredConversation {
        scope,
        id,
        session,
        name,
        setup,
        fingerprint,
        opening,
        checkpoint,
        calls,
        highest_call,
    } = conversation;
    let known = key(connection, *scope, id)?;
    let blob_bytes = blob_bytes_after(connection, known, blobs)?;
    let insert = concat!(
        "INSERT INTO conversations (scope, id, session, name, setup, fingerprint, opening,
                                    checkpoint, calls, highest_call, updated, size, seq)
         SELECT ?1, ?2, ?3, name, ?5, ?6, ?7, checkpoint, calls, ?10, ?11, ?12 + ",
        row_bytes!(),
        ", (SELECT coalesce(max(seq), 0) + 1 FROM conversations)
         FROM (SELECT ?4 AS name, ?8 AS checkpoint, ?9 AS calls) WHERE true
         ON CONFLICT (scope, id) DO UPDATE SET
             session = excluded.session, name = excluded.name, setup = excluded.setup,
             fingerprint = excluded.fingerprint, opening = excluded.opening,
             checkpoint = excluded.checkpoint,
             calls = excluded.calls, highest_call = excluded.highest_call,
             updated = excluded.updated, size = excluded.size, seq = excluded.seq
         RETURNING key",
    );
    let key: i64 = connection.query_row(
        insert,
        params![
            scope,
            id,
            session.map(|session| session.to_string()),
            name,
            setup,
            fingerprint.0,
            opening.map(|opening| opening.0),
            checkpoint.as_deref(),
            calls_to_text(calls)?,
            highest_call,
            now,
            blob_bytes,
        ],
        |row| row.get(0),
    )?;
    // Most ids are hashes of the data, so what is there is mostly the same.
    let mut put = connection.prepare(
        "INSERT INTO blobs (conversation, id, data) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET data = excluded.data WHERE data <> excluded.data",
    )?;
    for (id, data) in blobs {
        put.execute(params![key, &**id, &**data])?;
    }
    Ok(known.is_none())
}

/// What the blobs of a conversation take once it has these, too.
fn blob_bytes_after(
    connection: &Connection,
    known: Option<i64>,
    blobs: &[(Bytes, Bytes)],
) -> rusqlite::Result<i64> {
    let before = concat!("SELECT size - ", row_bytes!(), " FROM conversations WHERE key = ?1");
    let before = |key: i64| connection.query_row(before, [key], |row| row.get(0));
    let mut bytes: i64 = known.map(before).transpose()?.unwrap_or(0);
    let mut added =
        connection.prepare(concat!("SELECT ", blob_bytes!(), " FROM (SELECT ?1 AS content)"))?;
    let mut replaced = connection.prepare(concat!(
        "SELECT ",
        blob_bytes!(),
        " FROM (SELECT octet_length(id) + octet_length(data) AS content FROM blobs
                WHERE conversation = ?1 AND id = ?2)"
    ))?;
    for (id, data) in blobs {
        let content = i64::try_from(id.len() + data.len()).unwrap_or(i64::MAX >> 1);
        let new: i64 = added.query_row([content], |row| row.get(0))?;
        let old: Option<i64> =
            replaced.query_row(params![known, &**id], |row| row.get(0)).optional()?;
        bytes += new - old.unwrap_or(0);
    }
    Ok(bytes)
}

pub(super) fn by_fingerprint(
    connection: &Connection,
    scope: Scope,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Vec<StoredConversation>> {
    find(connection, "fingerprint = ?2", params![scope, fingerprint.0])
}

/// Whether any conversation began with exactly this.
pub(super) fn has_opening(
    connection: &Connection,
    scope: Scope,
    opening: Fingerprint,
) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM conversations WHERE scope = ?1 AND opening = ?2)";
    connection.query_row(sql, params![scope, opening.0], |row| row.get(0))
}

pub(super) fn by_name(
    connection: &Connection,
    scope: Scope,
    name: &str,
    preferred: Option<[u8; 32]>,
) -> rusqlite::Result<Vec<StoredConversation>> {
    let order = "setup IS ?3 DESC, seq DESC";
    find_ordered(connection, "name = ?2", order, params![scope, name, preferred])
}

pub(super) fn by_session(
    connection: &Connection,
    scope: Scope,
    session: SessionId,
) -> rusqlite::Result<Option<StoredConversation>> {
    let found = find(connection, "session = ?2", params![scope, session.to_string()])?;
    Ok(found.into_iter().next())
}

pub(super) fn blobs(
    connection: &Connection,
    scope: Scope,
    id: &str,
) -> rusqlite::Result<Vec<(Bytes, Bytes)>> {
    let Some(key) = key(connection, scope, id)? else { return Ok(Vec::new()) };
    let mut query = connection.prepare("SELECT id, data FROM blobs WHERE conversation = ?1")?;
    query.query_map([key], |row| Ok((bytes(row.get("id")?), bytes(row.get("data")?))))?.collect()
}

pub(super) fn forget(connection: &Connection, scope: Scope, id: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM conversations WHERE scope = ?1 AND id = ?2";
    connection.execute(sql, params![scope, id]).map(drop)
}

/// Deletes what was last saved before a time. Says how many.
pub(super) fn forget_before(connection: &Connection, time: i64) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM conversations WHERE updated < ?1", [time])
}

/// Bytes of the conversations of each scope.
pub(super) fn scope_sizes(connection: &Connection) -> rusqlite::Result<Vec<(Scope, i64)>> {
    let mut query =
        connection.prepare("SELECT scope, sum(size) FROM conversations GROUP BY scope")?;
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Deletes the conversation of a scope that was saved longest ago. Returns its bytes; `None`: none
/// is left.
pub(super) fn forget_oldest(
    connection: &Connection,
    scope: Scope,
) -> rusqlite::Result<Option<i64>> {
    let sql = "DELETE FROM conversations WHERE seq =
               (SELECT min(seq) FROM conversations WHERE scope = ?1) RETURNING size";
    connection.query_row(sql, [scope], |row| row.get(0)).optional()
}

pub(super) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let count = "SELECT count(*) FROM conversations";
    connection.query_row(count, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Bytes of the pages that hold something.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (page_count - freelist_count) * page_size
               FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Returns at most `pages` empty pages to the file system.
pub(super) fn give_back(connection: &Connection, pages: u32) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut steps = vacuum.query([])?;
    // One page a step.
    while steps.next()?.is_some() {}
    Ok(())
}

fn key(connection: &Connection, scope: Scope, id: &str) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT key FROM conversations WHERE scope = ?1 AND id = ?2";
    connection.query_row(sql, params![scope, id], |row| row.get(0)).optional()
}

fn find(
    connection: &Connection,
    condition: &'static str,
    params: impl Params,
) -> rusqlite::Result<Vec<StoredConversation>> {
    find_ordered(connection, condition, "seq DESC", params)
}

fn find_ordered(
    connection: &Connection,
    condition: &'static str,
    order: &'static str,
    params: impl Params,
) -> rusqlite::Result<Vec<StoredConversation>> {
    let mut query = connection.prepare(&format!(
        "SELECT * FROM conversations WHERE scope = ?1 AND {condition}
         ORDER BY {order} LIMIT {MATCHES}"
    ))?;
    query.query_map(params, conversation)?.collect()
}

fn conversation(row: &Row<'_>) -> rusqlite::Result<StoredConversation> {
    Ok(StoredConversation {
        scope: row.get("scope")?,
        id: row.get("id")?,
        session: row.get::<_, Option<String>>("session")?.and_then(|text| SessionId::parse(&text)),
        name: row.get("name")?,
        setup: row.get("setup")?,
        fingerprint: Fingerprint(row.get("fingerprint")?),
        opening: row.get::<_, Option<[u8; 32]>>("opening")?.map(Fingerprint),
        checkpoint: row.get::<_, Option<Vec<u8>>>("checkpoint")?.map(bytes),
        calls: calls_from_text(&row.get::<_, String>("calls")?)?,
        highest_call: row.get("highest_call")?,
    })
}

fn bytes(data: Vec<u8>) -> Bytes {
    Bytes::from(data)
}

fn calls_to_text(calls: &[ToolCall]) -> rusqlite::Result<String> {
    let rows: Vec<[&str; 3]> =
        calls.iter().map(|call| [&*call.id, &*call.name, &*call.arguments]).collect();
    serde_json::to_string(&rows)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn calls_from_text(text: &str) -> rusqlite::Result<Vec<ToolCall>> {
    let rows: Vec<[String; 3]> = serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
    })?;
    Ok(rows.into_iter().map(|[id, name, arguments]| ToolCall { id, name, arguments }).collect())
}
