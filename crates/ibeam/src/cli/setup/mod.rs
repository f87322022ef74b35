//! `ibeam setup`: wires a client to this gateway, and tries it.

mod address;
mod keys;
mod list;
mod refusals;
mod verify;

use std::process::ExitCode;

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;

use self::{
    keys::SetupKey,
    refusals::{unknown_model, unreachable},
    verify::Verification,
};
pub(super) use self::{
    list::list,
    refusals::{find, refused},
};
use super::{
    Global, Refusal, STYLES, UpstreamOptions, block_on,
    consent::{consent, is_interactive},
    print, print_json, say, start,
};
use crate::clients::{
    ANY_KEY, AUTO, ClientSpec, Offered, UserMachine, Wiring,
    engine::{PreparedSetup, SetupEngine},
    show,
    verify::GatewayClient,
};
use ibeam_server::{
    config::{Config, RawConfig},
    keys::KeyFile,
    net::{connect::Host, tls::Tls},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam setup                           list the clients on this machine
  ibeam setup claude-code               show the changes, ask, write, test
  ibeam setup codex --model gpt-5.5 --yes
  ibeam setup opencode --dry-run        only show what would change
  ibeam setup codex --url https://box.lan:18741
                                        a gateway on another machine; its key is taken
                                        from IBEAM_API_KEY
  ibeam undo claude-code                undo it

Comments, order and layout of your files stay. The old values are kept for `ibeam undo`; a file
that is malformed or read-only is not changed. To try a client without changing any file:
`ibeam run claude`.")]
pub(super) struct SetupCommand {
    /// Which client; without one, those on this machine are listed
    client: Option<String>,
    /// The model to start with [default: depends on the client]
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Use the gateway at this address instead of the one on this machine
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Test neither the client nor the gateway
    #[arg(long)]
    no_verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

/// Names are an interface: scripts read them.
#[derive(Serialize)]
struct SetupReport<'a> {
    client: &'a str,
    /// Of those that were to be changed.
    files: Vec<SetupFile<'a>>,
    /// Whether anything was written, or would be.
    changed: bool,
    /// None: it was not tested.
    verified: Option<bool>,
    /// What it was tested with.
    tried: Option<Verification>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct SetupFile<'a> {
    path: &'a std::path::Path,
    changed: bool,
    new: bool,
}

impl SetupCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let (engine, machine) = here()?;
        let Some(name) = &self.client else {
            list(&engine, &machine, self.json)?;
            if !self.json {
                say(
                    "`ibeam setup CLIENT` sets one of them up; it shows the changes and asks first.",
                );
            }
            return Ok(ExitCode::SUCCESS);
        };
        let client = find(name)?;
        let mut config = global.load_quietly(RawConfig::default(), &self.upstream)?;
        let _lock = engine.lock().map_err(|error| refused(&error, client))?;
        if !self.dry_run {
            undo_interrupted(&engine, client, &config)?;
        }
        let (host, own) = self.host(global, client, &mut config)?;
        let models = self.models(&config, &host, own.clone())?;
        let key = SetupKey::of(&config, self.url.is_some(), &engine, client)?;
        let wiring = self.wiring(global, &host, key.key(), models)?;
        let prepare = |wiring: &Wiring| {
            engine.prepare(client, &machine, wiring).map_err(|error| refused(&error, client))
        };
        let prepared = prepare(&wiring)?;
        if prepared.changes() {
            let lines = diff(&prepared, (!wiring.is_open()).then_some(&wiring.key));
            if self.dry_run && !self.json { print(&lines)? } else { say(&lines) }
        }
        for note in &prepared.notes {
            say(&format!("note: {note}"));
        }
        if client.is_installable() && !client.is_found(&machine) {
            say(&format!("note: it is not installed yet: {}", client.install));
        }
        if self.dry_run {
            return self.report(client, &prepared, None);
        }
        let written = is_written(&prepared, &wiring.key);
        let mut verify_with = Wiring { key: own, ..wiring.clone() };
        if written && !key.is_to_come() {
            verify_with.key = wiring.key.clone();
        }
        if prepared.changes() {
            self.consent()?;
            let earlier = engine.key(client).map_err(|error| refused(&error, client))?;
            // A key that is in no file would have no effect.
            let made =
                if written { key.make(client)? } else { SetupKey::given(wiring.key.clone()) };
            let wiring = Wiring { key: made.key(), ..wiring };
            let applied = prepare(&wiring).and_then(|prepared| {
                let applied = engine.apply(client, &prepared, made.record());
                applied.map_err(|error| refused(&error, client))
            });
            applied.inspect_err(|_| made.forget())?;
            // That of an earlier setup is in no file any more.
            if let Some(earlier) = earlier.filter(|earlier| !made.is(earlier)) {
                revoke(&config, &earlier.name)?;
            }
            if written {
                verify_with = wiring;
            }
        }
        if let Some(paste) = &prepared.paste {
            print(paste)?;
        }
        let tried = match self.no_verify {
            true => None,
            false => Some(verify::verify(client, &machine, &verify_with, &config)?),
        };
        let code = self.report(client, &prepared, tried)?;
        if self.url.is_none() && !self.json {
            address::last_words(client, &verify_with.url, self.upstream.sim)
                .inspect(|line| say(line));
        }
        Ok(code)
    }

    /// Where the client will call, and the key that this program sends there.
    fn host(
        &self,
        global: &Global,
        client: &ClientSpec,
        config: &mut Config,
    ) -> anyhow::Result<(Host, SecretString)> {
        let (url, key) = match &self.url {
            Some(url) => {
                let url = url.trim_end_matches('/').trim_end_matches("/v1");
                (url.to_owned(), own_key(config))
            }
            None => {
                let must_run = !self.dry_run && !self.no_verify;
                let given = (global, &self.upstream);
                let found = address::local(client, given, config, must_run)?;
                (found.url, found.key.unwrap_or_else(|| own_key(config)))
            }
        };
        match Host::parse(&url) {
            Ok(host) => Ok((host, key)),
            Err(error) => {
                Err(Refusal { code: super::USAGE, ..Refusal::new(error.to_string()) }.into())
            }
        }
    }

    /// The gateway's models. With `--no-verify` it need not be running.
    fn models(
        &self,
        config: &Config,
        host: &Host,
        key: SecretString,
    ) -> anyhow::Result<Vec<Offered>> {
        let asked = block_on(async {
            let tasks = Tasks::new();
            let gateway = gateway(config, host, key, &tasks);
            let models = gateway.models().await;
            let unlisted = |models: &Vec<Offered>, name: &str| models.iter().all(|m| m.id != name);
            Ok(match (models, &self.model) {
                // It knows more names than it lists.
                (Ok(models), Some(name)) if unlisted(&models, name) => {
                    gateway.model(name).await.map(|model| (models, model))
                }
                (models, _) => models.map(|models| (models, None)),
            })
        })?;
        match asked {
            Ok((mut models, named)) => {
                models.extend(named);
                Ok(models)
            }
            Err(_) if self.no_verify || self.dry_run => {
                let why = "no gateway is running, so its models are unknown: with a running one, \
                           setup lists them and may choose another model than `auto`";
                say(&format!("note: {why}"));
                Ok(Vec::new())
            }
            Err(error) => Err(unreachable(&error).into()),
        }
    }

    fn wiring(
        &self,
        global: &Global,
        host: &Host,
        key: SecretString,
        models: Vec<Offered>,
    ) -> anyhow::Result<Wiring> {
        let mut models = models;
        let asked = !models.is_empty();
        let model = self.model.clone().unwrap_or_else(|| {
            let auto = models.is_empty() || models.iter().any(|model| model.id == AUTO);
            if auto {
                AUTO.to_owned()
            } else {
                models.first().map(|m| m.id.clone()).unwrap_or_default()
            }
        });
        if !models.iter().any(|offered| offered.id == model) {
            if asked {
                return Err(unknown_model(&model, &models).into());
            }
            models.push(Offered::named(&model));
        }
        let url = host.to_string().trim_end_matches('/').to_owned();
        let args = start::args(global, &self.upstream)?;
        Ok(Wiring { url, key, model, models, asked, local: self.url.is_none(), args })
    }

    fn consent(&self) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !is_interactive() {
            return Err(Refusal::new("nothing is written without your consent")
                .hint("add `--yes`, or `--dry-run` to see only what would change")
                .into());
        }
        consent("Write this?")
    }

    fn report(
        &self,
        client: &ClientSpec,
        prepared: &PreparedSetup,
        tried: Option<Verification>,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            let files = prepared.edits.iter().map(|edit| SetupFile {
                path: &edit.path,
                changed: edit.changes(),
                new: edit.now.is_none(),
            });
            print_json(&SetupReport {
                client: client.name,
                files: files.collect(),
                changed: prepared.changes(),
                verified: tried.map(|_| true),
                tried,
                notes: &prepared.notes,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        if !prepared.changes() && !prepared.edits.is_empty() {
            say(&format!("{} is already set up; nothing to change.", client.title));
        }
        if self.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(tried) = tried {
            say(&tried.words(client));
        }
        if prepared.changes() {
            let name = client.name;
            let start =
                client.programs.first().map(|program| format!("Start it with `{program}`. "));
            say(&format!(
                "{} is set up. {}`ibeam undo {name}` undoes it.",
                client.title,
                start.unwrap_or_default()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub(super) fn gateway(
    config: &Config,
    host: &Host,
    key: SecretString,
    tasks: &Tasks,
) -> GatewayClient {
    GatewayClient::new(host.clone(), key, Tls::new(config.ca_file.clone()), tasks)
}

/// The key that this program itself sends.
fn own_key(config: &Config) -> SecretString {
    config.api_key.clone().unwrap_or_else(|| SecretString::from(ANY_KEY))
}

/// Whether a key is in any of the files: some clients are wired without one.
fn is_written(prepared: &PreparedSetup, key: &SecretString) -> bool {
    let holds = |text: &String| text.contains(key.expose_secret());
    prepared.edits.iter().any(|edit| edit.after.as_ref().is_some_and(holds))
}

/// Undoes a setup that was killed, and revokes the key that it made.
fn undo_interrupted(
    engine: &SetupEngine,
    client: &ClientSpec,
    config: &Config,
) -> anyhow::Result<()> {
    let fail = |error| refused(&error, client);
    let Some(undone) = engine.recover(client).map_err(fail)? else { return Ok(()) };
    say("An earlier setup was interrupted; undoing it first.");
    if let Some(key) = &undone.key {
        revoke(config, &key.name)?;
    }
    engine.forget(client).map_err(fail)
}

/// Revokes the key that was created for a client.
pub(super) fn revoke(config: &Config, name: &str) -> anyhow::Result<()> {
    let Some(path) = config.keys_file.as_deref() else { return Ok(()) };
    // One that the user revoked meanwhile is gone already.
    KeyFile::at(path).revoke(name).map_err(|error| super::keys::refused(&error))?;
    Ok(())
}

pub(super) fn here() -> anyhow::Result<(SetupEngine, UserMachine)> {
    SetupEngine::here()
        .zip(UserMachine::here())
        .ok_or_else(|| Refusal::new("the home directory is unknown; set HOME").into())
}

/// The changes as people read them.
pub(super) fn diff(prepared: &PreparedSetup, key: Option<&SecretString>) -> String {
    coloured(
        prepared.edits.iter().filter(|edit| edit.changes()).flat_map(|edit| show::diff(edit, key)),
    )
}

pub(super) fn coloured(lines: impl Iterator<Item = show::DiffLine>) -> String {
    let (green, red, bold, end) = (
        STYLES.get_header(),
        STYLES.get_error(),
        STYLES.get_literal(),
        clap::builder::styling::Reset,
    );
    let lines = lines.map(|line| {
        let text = line.text();
        match line {
            show::DiffLine::Head(_) => format!("{bold}{text}{end}"),
            show::DiffLine::Added(_) => format!("{green}{text}{end}"),
            show::DiffLine::Removed(_) => format!("{red}{text}{end}"),
            show::DiffLine::Same(_) => text.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
