//! `ibeam keys`: keys for the clients of this gateway. They have nothing to do with the
//! account at Cursor.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::{Global, Refusal, UpstreamOptions, models::align, print, print_json, say};
use ibeam_server::{
    clock,
    config::RawConfig,
    keys::{KeyFile, KeyFileError, Listed},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam keys add laptop                 create a key and print it once
  ibeam keys add ci --limit 4           a key for at most four turns at once
  ibeam keys list
  ibeam keys revoke ci                  takes effect within a second

Answers that are already running when their key is revoked are finished.")]
pub(super) struct KeysCommand {
    #[command(subcommand)]
    action: KeysAction,
}

#[derive(Debug, Subcommand)]
enum KeysAction {
    /// Create a key and print it; only its hash is stored
    Add {
        /// Its name in lists and logs
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
    /// Revoke a key
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
            KeysAction::Add { name, limit, json } => {
                let limit = limit.and_then(|limit| usize::try_from(limit).ok());
                let key = file
                    .add(name, limit, clock::unix_seconds())
                    .map_err(|error| refused(&error))?;
                let key = key.expose_secret();
                if *json {
                    return print(&serde_json::to_string(&Added { name, key, limit })?);
                }
                print(key)?;
                say(
                    "The key is shown only once. Clients send it as their API key; from now on the \
                     gateway requires one.",
                );
                Ok(())
            }
            KeysAction::List { json } => {
                let keys = file.list().map_err(|error| refused(&error))?;
                if *json {
                    return print_json(&keys);
                }
                if keys.is_empty() {
                    say("There are no keys; `ibeam keys add NAME` creates one.");
                    return Ok(());
                }
                print(&table(&keys))
            }
            KeysAction::Revoke { name } => {
                match file.revoke(name).map_err(|error| refused(&error))? {
                    None => Err(Refusal::new(format!("there is no key named `{name}`"))
                        .hint("`ibeam keys list` shows them")
                        .into()),
                    Some(0) => {
                        say(&format!(
                            "Revoked. That was the last key, so no client can call now. Create one \
                         with `ibeam keys add NAME`,\nor remove {} and restart the gateway to \
                         allow every user of this machine.",
                            path.display()
                        ));
                        Ok(())
                    }
                    Some(_) => {
                        say("Revoked.");
                        Ok(())
                    }
                }
            }
        }
    }
}

fn file(global: &Global) -> anyhow::Result<PathBuf> {
    let config = global.load_quietly(RawConfig::default(), &UpstreamOptions::default())?;
    config.keys_file.ok_or_else(|| {
        Refusal::new("no folder for keys was found on this machine")
            .hint("name a file: `--set keys_file=/path/to/keys.json`")
            .into()
    })
}

pub(super) fn refused(error: &KeyFileError) -> anyhow::Error {
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
        table.push([key.name.clone(), limit, clock::date(key.created)]);
    }
    align(&table)
}
