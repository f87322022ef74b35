//! `ibeam audit`: what this program may do here, and what is not as it should be.

use std::{fmt::Write as _, process::ExitCode};

use clap::{Args, builder::styling};
use ibeam_core::backend::{BackendKind, Needs};

use super::{Global, Listening, STYLES, UpstreamOptions, models::align, print, say};
use crate::doctor::audit::{
    AuditProblem, AuditReport, AuditSubject, ChildReport, FileLine, FilePurpose, HostLine, McpLine,
    audit,
};
use ibeam_server::{
    auth::Here,
    clock,
    config::{environment, file_in_use},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Shows, for the gateway that `ibeam serve` would start with the same options: who can call it,
which hosts it may contact, the sign-in and the keys in use (never a secret), what a model can
do, how `cursor-agent` would be run, and every file with its mode. It opens no connection and
changes nothing.

Exits with 0 if there is no problem, else with 1. Each problem is followed by the command that
fixes it, where there is one. Notes do not affect the exit code.

Examples:
  ibeam audit
  ibeam audit --host 0.0.0.0            check before listening on all interfaces
  ibeam audit --backend cli             with Cursor's own `cursor-agent` as the backend
  ibeam audit --json | jq -r '.problems[].fix'")]
pub(super) struct Audit {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

impl Audit {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let (loaded, warnings) = global.checked(self.listening.raw(), &self.upstream)?;
        for warning in &warnings {
            say(&format!("warning: {warning}"));
        }
        let (config, key_from) = (&loaded.config, &loaded.key_from);
        let here = Here::of(config).ok();
        let file = file_in_use(&environment(), global.config.as_deref());
        let report = audit(&AuditSubject {
            config,
            key_from,
            here: here.as_ref(),
            config_file: file.as_deref(),
        });
        print(&if self.json { serde_json::to_string_pretty(&report)? } else { page(&report) })?;
        Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The report for people.
fn page(report: &AuditReport) -> String {
    let sections = [
        ("Listener", rows(&listener(report))),
        ("Keys", keys(report)),
        ("Sign-in", rows(&sign_in(report))),
        ("Hosts it may contact", contacts(report)),
        ("What a model can do", rows(&allowed(report))),
        ("MCP servers", servers(&report.allowed.mcp)),
        ("Files", files(&report.files)),
    ];
    let child =
        report.cursor_agent.as_ref().map(|child| ("cursor-agent", rows(&cursor_agent(child))));
    let sections = sections.into_iter().chain(child);
    let (bold, end) = (STYLES.get_header(), styling::Reset);
    let mut out = String::new();
    for (title, text) in sections {
        let _ = writeln!(out, "{bold}{title}{end}");
        for line in text.lines() {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    out + &verdict(report)
}

fn rows(rows: &[(&str, String)]) -> String {
    let row = |(name, value): &(&str, String)| [(*name).to_owned(), value.clone()];
    align(&rows.iter().map(row).collect::<Vec<_>>())
}

fn listener(report: &AuditReport) -> Vec<(&'static str, String)> {
    let listener = &report.listener;
    let mut hosts = listener.hosts.clone();
    let any = if listener.any_address { "every address" } else { "addresses of this machine" };
    hosts.push(any.to_owned());
    let key = if listener.key_needed {
        format!("needed, but not for {}", listener.open_paths.join(" "))
    } else {
        "not needed".to_owned()
    };
    vec![
        ("Address", [&[listener.address.clone()][..], &listener.also].concat().join(", ")),
        ("Reach", if listener.local { "this machine" } else { "the network" }.to_owned()),
        ("TLS", yes(listener.tls)),
        ("Key", key),
        ("Hosts", hosts.join(", ")),
        ("Origins", or_none(&listener.origins.join(", "))),
    ]
}

fn keys(report: &AuditReport) -> String {
    let mut table: Vec<[String; 2]> = Vec::new();
    if let Some(origin) = &report.keys.setting {
        table.push(["`api_key`".to_owned(), format!("from {origin}")]);
    }
    for key in &report.keys.list {
        table.push([key.name.clone(), format!("made {}", clock::date(key.created))]);
    }
    or_none(&align(&table))
}

fn sign_in(report: &AuditReport) -> Vec<(&'static str, String)> {
    let credential = &report.credential;
    let account = credential.email.as_ref().or(credential.sub.as_ref());
    let expires = match (credential.expires, credential.renewable) {
        (Some(end), renewable) => {
            let over = if end <= clock::unix_seconds() { ", which has passed" } else { "" };
            let then = if renewable { "; renewed automatically" } else { "" };
            format!("{}{over}{then}", clock::date(end))
        }
        (None, true) => "unknown; renewed automatically".to_owned(),
        (None, false) => "unknown".to_owned(),
    };
    let mut rows = vec![("Source", or_none(credential.source.as_deref().unwrap_or_default()))];
    if credential.source.is_some() {
        rows.push(("Account", account.cloned().unwrap_or_else(|| "unknown".to_owned())));
        rows.push(("Expires", expires));
    }
    rows.push(("Profile", credential.profile.clone()));
    rows.extend(credential.unused.iter().map(|unused| ("Not used", unused.clone())));
    rows
}

fn contacts(report: &AuditReport) -> String {
    match BackendKind::from_name(report.backend).map(BackendKind::needs) {
        Some(Needs::CursorAgent) => "none; `cursor-agent` calls Cursor itself".to_owned(),
        Some(Needs::Account) | None => hosts(&report.hosts),
    }
}

fn hosts(hosts: &[HostLine]) -> String {
    let line = |host: &HostLine| {
        let who = if host.by == "browser" { "your browser: " } else { "" };
        let via = host.proxy.as_ref().map(|proxy| format!(" (through {proxy})"));
        [host.origin.clone(), format!("{who}{}{}", host.purpose, via.unwrap_or_default())]
    };
    let table: Vec<_> = hosts.iter().map(line).collect();
    or_none(&align(&table))
}

fn allowed(report: &AuditReport) -> Vec<(&'static str, String)> {
    let allowed = &report.allowed;
    let native = match allowed.native_tools {
        true => "Cursor's own tools are handed to the client's equivalents",
        false => "only the client's own tools are called",
    };
    let offered = |line: &&McpLine| line.starts && !line.offered.is_empty();
    let offered: Vec<_> = allowed.mcp.iter().filter(offered).map(|line| &*line.name).collect();
    let here = match offered.is_empty() {
        true => "nothing: ibeam runs no tool".to_owned(),
        false => format!("whatever the allowed tools of {} do", offered.join(", ")),
    };
    vec![
        ("On this machine", here),
        ("In your client", native.to_owned()),
        ("Web search at Cursor", yes(allowed.web_search)),
        ("Page fetch at Cursor", yes(allowed.web_fetch)),
    ]
}

fn cursor_agent(child: &ChildReport) -> Vec<(&'static str, String)> {
    let own = match child.own_tools {
        true => "on: it may run commands and change files, in its sandbox",
        false => "off, as far as `cursor-agent` honours the request",
    };
    vec![
        ("Program", or_none(child.program.as_deref().unwrap_or_default())),
        ("Its own tools", own.to_owned()),
        ("Your folder", or_none(child.workspace.as_deref().unwrap_or_default())),
        ("Clients may name", or_none(&child.workspaces.join(", "))),
        ("Processes", format!("{} at once", child.children)),
    ]
}

fn servers(servers: &[McpLine]) -> String {
    let line = |server: &McpLine| {
        let does = match (server.starts, server.offered.is_empty()) {
            (false, _) => "not started".to_owned(),
            (true, true) => "started, its tools only listed".to_owned(),
            (true, false) => format!("started, models may call {}", server.offered.join(" ")),
        };
        [server.name.clone(), server.reached.clone(), does, server.source.clone()]
    };
    or_none(&align(&servers.iter().map(line).collect::<Vec<_>>()))
}

fn files(files: &[FileLine]) -> String {
    let mut table = vec![["MODE", "OWNER", "USE", "WHAT", "PATH"].map(str::to_owned)];
    for file in files {
        let missing = if file.there { "?" } else { "-" };
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| missing.to_owned());
        let purpose = match (file.purpose, file.consent) {
            (_, Some(false)) => "no consent",
            (_, Some(true)) => "consented",
            (FilePurpose::Read, None) => "read",
            (FilePurpose::Write, None) => "write",
        };
        table.push([
            cell(&file.mode),
            cell(&file.owner),
            purpose.to_owned(),
            file.what.to_owned(),
            file.path.display().to_string(),
        ]);
    }
    align(&table)
}

fn verdict(report: &AuditReport) -> String {
    let (red, cyan, end) = (STYLES.get_error(), STYLES.get_literal(), styling::Reset);
    let mut lines: Vec<String> =
        report.notes.iter().map(|note| format!("{cyan}note{end}: {note}")).collect();
    for AuditProblem { what, fix } in &report.problems {
        lines.push(format!("{red}problem: {what}{end}"));
        lines.extend(fix.iter().map(|fix| format!("  fix: {cyan}{fix}{end}")));
    }
    lines.push(match report.problems.len() {
        0 => "No problems found.".to_owned(),
        1 => "1 problem found.".to_owned(),
        n => format!("{n} problems found."),
    });
    lines.join("\n")
}

fn yes(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none" } else { text }.to_owned()
}
