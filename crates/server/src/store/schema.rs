//! The tables and their migrations. The header of a file has its owner and the number of steps that
//! were applied.

use rusqlite::{Connection, TransactionBehavior};

/// `ibst`, in the header's field for the program that a file belongs to.
const APPLICATION: i64 = 0x6962_7374;

/// Each step once, in order; the header's `user_version` counts those done. A step that
/// was released never changes.
const STEPS: &[&str] = &[
    CONVERSATIONS,
    RESPONSES,
    CLOCKS,
    NO_HABITS,
    PAUSES,
    OPENINGS,
    RESPONSES_BY_SCOPE,
    HIGHEST_CALL,
    SIZES,
];

const CONVERSATIONS: &str = "
    CREATE TABLE conversations (
        key          INTEGER PRIMARY KEY,
        scope        BLOB NOT NULL,
        id           TEXT NOT NULL,
        session      TEXT,
        name         TEXT,
        setup        BLOB NOT NULL,
        fingerprint  BLOB NOT NULL,
        opening      BLOB NOT NULL,
        full_history INTEGER NOT NULL,
        checkpoint   BLOB,
        calls        TEXT NOT NULL,
        -- Order of saving, whatever the clock does.
        seq          INTEGER NOT NULL,
        -- Seconds since 1970.
        updated      INTEGER NOT NULL,
        UNIQUE (scope, id)
    ) STRICT;
    CREATE INDEX by_fingerprint ON conversations (scope, fingerprint);
    CREATE INDEX by_name ON conversations (scope, name) WHERE name IS NOT NULL;
    CREATE INDEX by_session ON conversations (scope, session) WHERE session IS NOT NULL;
    CREATE UNIQUE INDEX by_seq ON conversations (seq);
    CREATE INDEX by_updated ON conversations (updated);
    CREATE TABLE blobs (
        conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
        id           BLOB NOT NULL,
        data         BLOB NOT NULL,
        PRIMARY KEY (conversation, id)
    ) STRICT, WITHOUT ROWID;
";

const RESPONSES: &str = "
    CREATE TABLE responses (
        key      INTEGER PRIMARY KEY,
        scope    BLOB NOT NULL,
        id       TEXT NOT NULL,
        -- The one it continues.
        previous TEXT,
        status   TEXT NOT NULL,
        -- JSON: the object as its client got it, and two lists of items.
        body     BLOB NOT NULL,
        input    BLOB NOT NULL,
        output   BLOB NOT NULL,
        -- Bytes of the three.
        size     INTEGER NOT NULL,
        -- Seconds since 1970: when it was created or last continued.
        used     INTEGER NOT NULL,
        UNIQUE (scope, id)
    ) STRICT;
    CREATE INDEX responses_by_use ON responses (used, key, size);
";

const RESPONSES_BY_SCOPE: &str = "
    CREATE INDEX responses_by_scope ON responses (scope, used, key, size);
";

const HIGHEST_CALL: &str = "
    -- Of the session; NULL if it is not known.
    ALTER TABLE conversations ADD COLUMN highest_call INTEGER;
";

/// What a row of `conversations` takes with its entries in the indexes, in bytes. An expression over
/// its columns.
macro_rules! row_bytes {
    () => {
        "(512 + coalesce(octet_length(checkpoint), 0) + octet_length(calls)
          + 2 * coalesce(octet_length(name), 0))"
    };
}
pub(super) use row_bytes;

/// What a row of `blobs` takes, in bytes. An expression over `content`, the length of its id and its
/// data: a little over 1 kB still fits into a page with others, and the rest has pages of its own,
/// the last of them mostly empty.
macro_rules! blob_bytes {
    () => {
        "(32 + min(content, 1000) + 4096 * ((content + 3091) / 4092))"
    };
}
pub(super) use blob_bytes;

const SIZES: &str = concat!(
    "
    -- About the bytes of the row with its entries in the indexes, and of its blobs.
    ALTER TABLE conversations ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
    UPDATE conversations SET size = ",
    row_bytes!(),
    " + (SELECT coalesce(sum(",
    blob_bytes!(),
    "), 0) FROM (SELECT octet_length(id) + octet_length(data) AS content FROM blobs
                 WHERE conversation = conversations.key));
    CREATE INDEX conversations_by_scope ON conversations (scope, seq, size);
"
);

const CLOCKS: &str = "
    -- Ages are counted in a time that does not jump; see `ibeam_core::retention`.
    CREATE TABLE clocks (
        -- The table whose ages it counts.
        name TEXT PRIMARY KEY,
        -- Seconds since 1970: the wall clock at the last look, and the time of that look.
        seen INTEGER NOT NULL,
        time INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- What is there has the wall clock. The newest of it is the last time that is known.
    INSERT INTO clocks SELECT 'conversations', max(updated), max(updated) FROM conversations
        HAVING count(*) > 0;
    INSERT INTO clocks SELECT 'responses', max(used), max(used) FROM responses
        HAVING count(*) > 0;
";

/// How a client asked before decides nothing about what it asks next.
const NO_HABITS: &str = "
    ALTER TABLE conversations DROP COLUMN opening;
    ALTER TABLE conversations DROP COLUMN full_history;
";

const PAUSES: &str = "
    -- Seconds: steps of the wall clock that are not believed so far, and the wall clock after
    -- the last one of them.
    ALTER TABLE clocks ADD COLUMN doubted INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE clocks ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
";

const OPENINGS: &str = "
    -- Of the history before the first answer; NULL if it is not known.
    ALTER TABLE conversations ADD COLUMN opening BLOB;
    CREATE INDEX by_opening ON conversations (scope, opening) WHERE opening IS NOT NULL;
";

/// The program that a file belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreOwner {
    /// Nothing is in it yet.
    Nobody,
    Us,
    /// A later version of ibeam.
    Later,
    Another,
}

/// Reads only, in one transaction: another process may be migrating just now, and a half-migrated
/// file would look like another program's.
pub(super) fn owner(connection: &Connection) -> rusqlite::Result<StoreOwner> {
    let moment = connection.unchecked_transaction()?;
    let number = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = version(&moment)?;
    let application = number("PRAGMA application_id")?;
    let empty = number("SELECT count(*) FROM sqlite_schema")? == 0;
    Ok(match application {
        APPLICATION if usize::try_from(version).is_ok_and(|n| n <= STEPS.len()) => StoreOwner::Us,
        APPLICATION => StoreOwner::Later,
        0 if version == 0 && empty => StoreOwner::Nobody,
        _ => StoreOwner::Another,
    })
}

/// Takes the steps that are missing. Another process may be about to do the same.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let steps = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = usize::try_from(version(&steps)?).unwrap_or_default();
    let missing = STEPS.get(done..).unwrap_or_default();
    if !missing.is_empty() {
        for step in missing {
            steps.execute_batch(step)?;
        }
        steps.pragma_update(None, "application_id", APPLICATION)?;
        let done = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
        steps.pragma_update(None, "user_version", done)?;
    }
    steps.commit()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
