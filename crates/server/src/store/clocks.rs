//! The times in which ages are counted, one for each kind of what is kept.

use std::time::Duration;

use ibeam_core::retention::RetentionClock;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{StoreLimits, vault::seconds};

/// All of them, at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clocks {
    pub(super) conversations: RetentionClock,
    pub(super) responses: RetentionClock,
}

impl Clocks {
    /// Reads them, `ran` after the last look of this process.
    pub(super) fn read(
        connection: &Connection,
        wall: u64,
        ran: Duration,
        limits: &StoreLimits,
    ) -> rusqlite::Result<Self> {
        let clock = |name: &str, retention| -> rusqlite::Result<RetentionClock> {
            let sql = "SELECT seen, time FROM clocks WHERE name = ?1";
            let known = connection.query_row(sql, [name], |row| {
                let (seen, time): (i64, i64) = (row.get(0)?, row.get(1)?);
                Ok(RetentionClock { seen: unsigned(seen), time: unsigned(time) })
            });
            let known = known.optional()?;
            Ok(match known {
                Some(clock) => clock.at(wall, ran, retention),
                None => RetentionClock::starting_at(wall),
            })
        };
        Ok(Self {
            conversations: clock("conversations", limits.retention)?,
            responses: clock("responses", limits.responses.retention)?,
        })
    }

    /// Writes them down for the next look, also that of another process.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (name, clock) in [("conversations", self.conversations), ("responses", self.responses)]
        {
            connection.execute(
                "INSERT INTO clocks (name, seen, time) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET seen = excluded.seen, time = excluded.time",
                params![name, seconds(clock.seen), seconds(clock.time)],
            )?;
        }
        Ok(())
    }
}

fn unsigned(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default()
}
