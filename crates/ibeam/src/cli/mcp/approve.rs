//! `ibeam mcp approve`: shows what a project's file would run, and asks.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use ibeam_server::mcp::config::{Approvals, Places, ProjectFile};

use crate::cli::{
    Refusal,
    consent::{self, is_interactive},
    say,
};

/// Approves the file of this name, or those of the current folder that are not approved yet.
pub(super) fn approve(file: Option<&Path>, yes: bool, discover: bool) -> anyhow::Result<ExitCode> {
    let places = Places::here();
    let Some(folder) = places.config_dir() else {
        return Err(Refusal::new("the home directory is unknown").hint("set HOME").into());
    };
    let mut approvals = Approvals::load(&folder)?;
    let files = match file {
        Some(path) => vec![named(path, &approvals)?],
        None => ProjectFile::all(&places, &approvals).map_err(Refusal::new)?,
    };
    let (known, new): (Vec<_>, Vec<_>) =
        files.into_iter().filter(|file| !file.servers.is_empty()).partition(|file| file.approved);
    for file in &known {
        say(&format!("{} is already approved", file.path.display()));
    }
    if new.is_empty() && known.is_empty() {
        say("No MCP servers were found in files of this project.");
    }
    for file in &new {
        if yes {
            let names: Vec<_> =
                file.servers.iter().map(|(name, _)| name.escape_debug().to_string()).collect();
            say(&format!("{}: {}", file.path.display(), names.join(", ")));
        } else {
            confirm(file)?;
        }
        file.approve(&mut approvals)?;
        say("Approved. If the file changes, approve it again.");
    }
    if !new.is_empty() && !discover {
        say("`mcp.discover` is off, so such files are not read");
    }
    Ok(ExitCode::SUCCESS)
}

fn named(path: &Path, approvals: &Approvals) -> anyhow::Result<ProjectFile> {
    let shown = PathBuf::from(path);
    let missing = || Refusal::new(format!("{} does not exist", shown.display()));
    let file = ProjectFile::named(path, approvals)
        .map_err(|why| Refusal::new(format!("{} {why}", shown.display())))?;
    Ok(file.ok_or_else(missing)?)
}

/// Shows all of it first. Without a clear yes nothing is approved.
fn confirm(file: &ProjectFile) -> anyhow::Result<()> {
    say(&format!("{} has these MCP servers:", file.path.display()));
    for (name, what) in &file.servers {
        say(&format!("\n{}: {what}", name.escape_debug()));
    }
    if !is_interactive() {
        return Err(Refusal::new("nothing was approved: confirmation needs a terminal")
            .hint("in a script: `ibeam mcp approve --yes`")
            .into());
    }
    let question = "\nAllow ibeam to use these servers? They run with your permissions. [y/N]";
    match consent::ask(question)? {
        Some(true) => Ok(()),
        Some(false) | None => Err(Refusal::new("nothing was approved").into()),
    }
}
