//! This machine: settings, disk, files, access, ports, clients.

use std::net::SocketAddr;

use crate::doctor::{
    audit::AuditProblem,
    findings::{Findings, PortState, Unwritten},
    report::{Check, CheckLine, Code},
    version,
};
use ibeam_server::files::quoted;

/// Less is as good as nothing: the store alone may want more. In bytes.
const FULL: u64 = 1 << 20;
const LOW: u64 = 100 << 20;

const OURS: &str = env!("CARGO_PKG_VERSION");

pub(super) fn settings(found: &Findings, lines: &mut Vec<CheckLine>) {
    let what = match &found.config_file {
        Some(path) => format!("{} and the environment are valid", path.display()),
        None => "no file; the environment is valid".to_owned(),
    };
    lines.push(CheckLine::ok(Check::Settings, what));
    for warning in &found.warnings {
        let line = CheckLine::warn(Check::Settings, Code::SettingsDoubtful, warning);
        lines.push(line.fix("ibeam config show"));
    }
    for (path, command) in &found.unapproved {
        let what = format!("{} is not approved: its MCP servers are not started", path.display());
        lines.push(CheckLine::warn(Check::Settings, Code::McpUnapproved, what).fix(command));
    }
}

pub(super) fn disk(found: &Findings, lines: &mut Vec<CheckLine>) {
    let check = Check::Disk;
    let before = lines.len();
    for folder in &found.folders {
        let path = folder.path.display();
        let full = |why: &str| {
            CheckLine::fail(check, Code::DiskFull, format!("no space is left in {path}{why}"))
                .fix(format!("df -h {}", quoted(&folder.path)))
        };
        match (&folder.written, folder.free) {
            (Err(Unwritten::Full(why)), _) => lines.push(full(&format!(": {why}"))),
            (Err(Unwritten::Refused(why)), _) => {
                let what = format!("cannot write in {path}: {why}");
                let line = CheckLine::fail(check, Code::FolderNotWritable, what);
                lines.push(line.fix(format!("chmod u+rwx {}", quoted(&folder.path))));
            }
            (Ok(()), Some(free)) if free < FULL => {
                lines.push(full(&format!(" ({} left)", size(free))));
            }
            (Ok(()), Some(free)) if free < LOW => {
                let what = format!("only {} are left in {path}", size(free));
                let line = CheckLine::warn(check, Code::DiskLow, what);
                lines.push(line.fix(format!("df -h {}", quoted(&folder.path))));
            }
            (Ok(()), _) => {}
        }
    }
    if lines.len() == before {
        let least = found.folders.iter().filter_map(|folder| folder.free).min();
        let left = least.map(|free| format!(", {} left", size(free))).unwrap_or_default();
        lines.push(CheckLine::ok(check, format!("all folders are writable{left}")));
    }
}

pub(super) fn files(found: &Findings, lines: &mut Vec<CheckLine>) {
    let files = &found.files;
    for AuditProblem { what, fix } in &files.faults {
        let line = CheckLine::fail(Check::Files, Code::FileExposed, what);
        lines.push(line.fix(fix.clone().unwrap_or_else(|| "ibeam audit".to_owned())));
    }
    if files.faults.is_empty() {
        let what = match files.looked_at {
            1 => "1 file or folder, not accessible to other users".to_owned(),
            count => format!("{count} files and folders, not accessible to other users"),
        };
        lines.push(CheckLine::ok(Check::Files, what));
    }
}

pub(super) fn access(found: &Findings, lines: &mut Vec<CheckLine>) {
    let check = Check::Access;
    match &found.access.key_needed {
        Err(AuditProblem { what, fix }) => {
            let line = CheckLine::fail(check, Code::KeysUnusable, what);
            lines.push(line.fix(fix.clone().unwrap_or_else(|| "ibeam keys list".to_owned())));
        }
        Ok(_) if !found.access.weak.is_empty() => {
            for weak in &found.access.weak {
                let line = CheckLine::fail(check, Code::AccessOpen, weak);
                lines.push(line.fix("ibeam keys add NAME"));
            }
        }
        Ok(true) => lines.push(CheckLine::ok(check, "clients need a key")),
        Ok(false) => lines.push(CheckLine::ok(check, "programs on this machine do not need a key")),
    }
}

pub(super) fn ports(found: &Findings, lines: &mut Vec<CheckLine>) {
    let check = Check::Port;
    let mine = |address: SocketAddr| {
        found.running.iter().any(|running| running.url.ends_with(&format!("//{address}")))
    };
    for port in &found.ports {
        let address = port.address;
        lines.push(match &port.state {
            PortState::Free => CheckLine::ok(check, format!("{address} is free")),
            PortState::CallsItselfIbeam(version) if !mine(address) => {
                let what = format!(
                    "a program that calls itself ibeam {version}, not one of your gateways, is \
                     running at {address}; your clients would use it"
                );
                CheckLine::warn(check, Code::PortForeign, what).fix("ibeam status")
            }
            PortState::CallsItselfIbeam(version) if version == OURS => {
                CheckLine::ok(check, format!("ibeam {version} is running at {address}"))
            }
            PortState::CallsItselfIbeam(version) => other_version(&address.to_string(), version),
            PortState::Taken(who) => {
                let who = who.as_deref().unwrap_or("another program");
                let what = format!("{address} is taken by {who}");
                let line = CheckLine::fail(check, Code::PortTaken, what);
                line.fix("ibeam up --port 0")
            }
            PortState::Unusable(why) => {
                let what = format!("cannot listen on {address}: {why}");
                CheckLine::fail(check, Code::PortUnusable, what).fix("ibeam config show")
            }
        });
    }
    if found.ports.is_empty() {
        lines.push(CheckLine::skipped(check, "no port is configured"));
    }
    let known = |url: &str| found.ports.iter().any(|port| url.contains(&port.address.to_string()));
    for running in &found.running {
        if running.version != OURS && !known(&running.url) {
            lines.push(other_version(&running.url, &running.version));
        }
    }
}

fn other_version(place: &str, version: &str) -> CheckLine {
    let what = format!("ibeam {version} is running at {place}, and this is {OURS}");
    CheckLine::warn(Check::Port, Code::OtherVersion, what).fix("ibeam stop")
}

pub(super) fn clients(found: &Findings, lines: &mut Vec<CheckLine>) {
    let check = Check::Clients;
    let mut fine = Vec::new();
    for client in &found.clients {
        let title = client.title;
        match &client.version {
            Some(version) if version::older(version, client.oldest) => {
                let oldest = client.oldest;
                let what = format!(
                    "{title} {version} is older than {oldest}, the oldest version known to work"
                );
                lines.push(CheckLine::fail(check, Code::ClientOld, what).fix(client.update));
            }
            Some(version) => fine.push(format!("{title} {version}")),
            None => fine.push(title.to_owned()),
        }
    }
    if !fine.is_empty() {
        lines.push(CheckLine::ok(check, fine.join(", ")));
    } else if found.clients.is_empty() {
        lines.push(CheckLine::skipped(check, "none of the clients that ibeam knows is in PATH"));
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}
