//! The times in which ages are counted, one for each kind of what is kept.

use std::time::Duration;

use ibeam_core::retention::RetentionClock;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{StoreLimits, vault::seconds};

/// All of them, at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetentionClocks {
    pub(super) conversations: RetentionClock,
    pub(super) responses: RetentionClock,
}

impl RetentionClocks {
    /// Reads them, `ran` after the last look of this process.
    pub(super) fn read(
        connection: &Connection,
        wall: u64,
        ran: Duration,
        limits: &StoreLimits,
    ) -> rusqlite::Result<Self> {
        let clock = |name: &str, retention| -> rusqlite::Result<RetentionClock> {
            let sql = "SELECT seen, time, doubted, since FROM clocks WHERE name = ?1";
            let known = connection.query_row(sql, [name], |row| {
                Ok(RetentionClock {
                    seen: unsigned(row.get(0)?),
                    time: unsigned(row.get(1)?),
                    doubted: row.get(2)?,
                    since: unsigned(row.get(3)?),
                })
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
                "INSERT OR REPLACE INTO clocks (name, seen, time, doubted, since)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    name,
                    seconds(clock.seen),
                    seconds(clock.time),
                    clock.doubted,
                    seconds(clock.since)
                ],
            )?;
        }
        Ok(())
    }
}

fn unsigned(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default()
}
