//! `ibeam keys`: keys for the clients of this gateway. They have nothing to do with the
//! account at Cursor.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::{Global, Refusal, Upstream, models::align, print, say};
use crate::{
    clock,
    config::RawConfig,
    keys::{KeyFile, KeyFileError, Listed},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam keys add laptop                 print a new key, this once
  ibeam keys add ci --limit 4           one that runs at most four turns at once
  ibeam keys list
  ibeam keys revoke ci                  a gateway that runs notices within a second

Answers that are being written when their key is revoked are finished.")]
pub(super) struct KeysCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key and print it; only its hash is kept
    Add {
        /// What to call it, in lists and logs
        name: String,
        /// How many turns it may run at once
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a key back
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Serialize)]
struct Added<'a> {
    name: &'a str,
    key: &'a str,
    limit: Option<usize>,
}

impl KeysCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<()> {
        let path = file(global)?;
        let file = KeyFile::at(&path);
        match &self.action {
            Action::Add { name, limit, json } => {
                let limit = limit.and_then(|limit| usize::try_from(limit).ok());
                let key = file
                    .add(name, limit, clock::unix_seconds())
                    .map_err(|error| refused(&error))?;
                let key = key.expose_secret();
                if *json {
                    return print(&serde_json::to_string(&Added { name, key, limit })?);
                }
                print(key)?;
                say("This is the only time it is shown. Clients send it as their API key; \
                     from now on the gateway lets nobody in without one.");
                Ok(())
            }
            Action::List { json } => {
                let keys = file.list().map_err(|error| refused(&error))?;
                if *json {
                    return print(&serde_json::to_string_pretty(&keys)?);
                }
                if keys.is_empty() {
                    say("There are no keys; `ibeam keys add NAME` makes one.");
                    return Ok(());
                }
                print(&table(&keys))
            }
            Action::Revoke { name } => match file.revoke(name).map_err(|error| refused(&error))? {
                None => Err(Refusal::new(format!("there is no key named `{name}`"))
                    .hint("`ibeam keys list` shows them")
                    .into()),
                Some(0) => {
                    say(&format!(
                        "Revoked. That was the last key, so nobody can call now. Make a new one with \
                         `ibeam keys add NAME`,\nor remove {} and start the gateway again to let \
                         everyone on this machine in.",
                        path.display()
                    ));
                    Ok(())
                }
                Some(_) => {
                    say("Revoked.");
                    Ok(())
                }
            },
        }
    }
}

fn file(global: &Global) -> anyhow::Result<PathBuf> {
    let config = global.load_quietly(RawConfig::default(), &Upstream::default())?;
    config.keys_file.ok_or_else(|| {
        Refusal::new("this machine has no place for keys")
            .hint("name a file: `--set keys_file=/path/to/keys.json`")
            .into()
    })
}

fn refused(error: &KeyFileError) -> anyhow::Error {
    let hint = error.hint();
    let text = match error {
        KeyFileError::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    Refusal::new(text).hint(hint).into()
}

fn table(keys: &[Listed]) -> String {
    let mut table = vec![["NAME", "LIMIT", "CREATED"].map(str::to_owned)];
    for key in keys {
        let limit = key.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        table.push([key.name.clone(), limit, date(key.created)]);
    }
    align(&table)
}

/// The day of a moment in Unix seconds, as `2026-11-15`.
pub(super) fn date(seconds: u64) -> String {
    // Years that begin in March have their leap day at the end, in eras of 400 of them.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (seconds, expect) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
        ] {
            assert_eq!(date(seconds), expect);
        }
    }
}
