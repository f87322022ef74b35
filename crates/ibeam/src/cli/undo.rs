//! `ibeam undo`: undoes a setup.

use std::{path::Path, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{
    Global, Refusal, UpstreamOptions,
    consent::{consent, is_interactive},
    print, print_json, say,
    setup::{coloured, find, here, list, refused, revoke},
};
use crate::clients::{
    CLIENTS, ClientSpec,
    engine::{Edit, Fate, Later, MadeKey, SetupEngine, Undone},
    own_folder, show,
};
use ibeam_server::config::RawConfig;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam undo                            list the clients, and which are set up
  ibeam undo claude-code
  ibeam undo codex --dry-run            only show what would change
  ibeam undo --all

Files are restored byte for byte. Where you or the client changed one since, only what
`ibeam setup` wrote is removed, the output lists what stays, and the old content is kept. A key
that was created for the client is revoked. It asks first; without a terminal, `--yes` is needed.")]
pub(super) struct Undo {
    /// Which client; without one, the clients are listed
    client: Option<String>,
    /// All clients that are set up
    #[arg(long, conflicts_with = "client")]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct UndoReport<'a> {
    client: &'a str,
    files: Vec<UndoneFile<'a>>,
}

#[derive(Serialize)]
struct UndoneFile<'a> {
    path: &'a Path,
    changed: bool,
    removed: bool,
    /// It is as it was before the setup.
    restored: bool,
    /// Where else what it was is kept.
    kept: Option<&'a Path>,
}

impl Undo {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let (engine, machine) = here()?;
        match &self.client {
            Some(name) => self.undo(&engine, find(name)?, global)?,
            None if self.all => self.undo_all(&engine, global)?,
            None => {
                list(&engine, &machine, self.json)?;
                if !self.json {
                    say("`ibeam undo CLIENT` undoes one setup, `ibeam undo --all` all of them.");
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
        if !self.dry_run {
            // ibeam's own; it stays for whatever is in it.
            let _ = std::fs::remove_dir(own_folder(&machine));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A client that cannot be undone does not keep the others from being undone.
    fn undo_all(&self, engine: &SetupEngine, global: &Global) -> anyhow::Result<()> {
        let clients: Vec<&ClientSpec> =
            CLIENTS.iter().copied().filter(|client| engine.is_set_up(client)).collect();
        if clients.is_empty() {
            say("No client is set up; there is nothing to undo.");
        }
        let mut failed = Vec::new();
        for client in clients {
            if let Err(error) = self.undo(engine, client, global) {
                say(&format!("{}: {error:#}", client.title));
                failed.push(client.name);
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(format!("not undone: {}", failed.join(", ")))
            .hint("`ibeam undo CLIENT` shows why")
            .into())
    }

    fn undo(
        &self,
        engine: &SetupEngine,
        client: &ClientSpec,
        global: &Global,
    ) -> anyhow::Result<()> {
        let _lock = engine.lock().map_err(|error| refused(&error, client))?;
        let fail = |error| refused(&error, client);
        let Some(planned) = engine.preview_undo(client).map_err(fail)? else {
            return Err(Refusal::new(format!("{} is not set up", client.title))
                .hint("`ibeam setup` lists the clients, and which of them are")
                .into());
        };
        if self.dry_run {
            return self.report(client, &planned);
        }
        if !self.yes && planned.edits.iter().any(Edit::changes) {
            if !is_interactive() {
                return Err(Refusal::new("nothing is undone without your consent")
                    .hint("add `--yes`, or `--dry-run` to see only what would change")
                    .into());
            }
            say(&diff(&planned));
            consent("Undo this?")?;
        }
        let undone = engine.undo(client).map_err(fail)?.unwrap_or(planned);
        // Only then the record goes: it alone knows of the key.
        if let Some(key) = &undone.key {
            let config = global.load_quietly(RawConfig::default(), &UpstreamOptions::default())?;
            revoke(&config, &key.name)?;
        }
        engine.forget(client).map_err(fail)?;
        self.report(client, &undone)
    }

    fn report(&self, client: &ClientSpec, undone: &Undone) -> anyhow::Result<()> {
        if self.json {
            let files = undone.edits.iter().map(|edit| UndoneFile {
                path: &edit.path,
                changed: edit.changes(),
                removed: edit.after.is_none(),
                restored: edit.fate == Fate::Same,
                kept: edit.kept.as_deref(),
            });
            let report = UndoReport { client: client.name, files: files.collect() };
            return print_json(&report);
        }
        if self.dry_run {
            return print(&diff(undone));
        }
        undone.edits.iter().flat_map(lines).for_each(|line| say(&line));
        say(&if undone.edits.iter().all(|edit| edit.fate == Fate::Same) {
            format!("{} is as it was before `ibeam setup`.", client.title)
        } else {
            format!("Removed what `ibeam setup` wrote for {}.", client.title)
        });
        Ok(())
    }
}

/// What was done to a file, and what was not.
fn lines(edit: &Edit) -> Vec<String> {
    let path = edit.path.display();
    let mut lines = match &edit.fate {
        Fate::Same if !edit.changes() => Vec::new(),
        Fate::Same if edit.after.is_none() => vec![format!("removed {path}")],
        Fate::Same => vec![format!("restored {path}")],
        Fate::Deleted => vec![format!("{path} was deleted since, and is not created again")],
        Fate::Changed(later) => {
            let mut lines = vec![format!("{path} was changed since; removed what `setup` wrote")];
            lines.extend(later.iter().map(later_line));
            lines
        }
    };
    if let Some(kept) = &edit.kept {
        lines.push(format!("  its content from before `setup` is in {}", kept.display()));
    }
    lines
}

fn later_line(later: &Later) -> String {
    match later {
        Later::TakenOut(name) => format!("  removed `{name}`"),
        Later::TakenOutChanged(name) => {
            format!("  removed `{name}`, with what was changed in it since")
        }
        Later::Stays(name, Some(was)) => {
            let was = show::value(name, was);
            format!("  kept `{name}`, which was changed since; before `setup` it was {was}")
        }
        Later::Stays(name, None) => {
            format!("  kept `{name}`, which was changed since; before `setup` it was not set")
        }
    }
}

fn diff(undone: &Undone) -> String {
    let key = undone.key.as_ref().map(MadeKey::key);
    let changed = undone.edits.iter().filter(|edit| edit.changes());
    coloured(changed.flat_map(|edit| show::diff(edit, key.as_ref())))
}
