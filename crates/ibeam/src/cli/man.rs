//! `ibeam man`: the manual, made of the same words as `--help`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;

use super::{completions::visible, print, say};

/// What stands below `--help`, with its lines as they are: most of it is commands.
const NOTES: &str = ".SH NOTES\n.nf\n";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam man | man -l -                              read it at once
  ibeam man --dir ~/.local/share/man/man1           a page for each command: `man ibeam-serve`")]
pub(super) struct ManCommand {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManCommand {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let pages = pages(visible())?;
        let Some(dir) = &self.dir else {
            // The first is about all of them.
            return pages.first().map_or(Ok(()), |(_, page)| print(page.trim_end()));
        };
        write(dir, &pages)?;
        say(&format!("Wrote {} pages into {}", pages.len(), dir.display()));
        Ok(())
    }
}

fn write(dir: &Path, pages: &[(String, String)]) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, page) in pages {
        let path = dir.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Names of files, and what is in them.
fn pages(command: Command) -> anyhow::Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let source = format!("ibeam {}", env!("CARGO_PKG_VERSION"));
        let man = Man::new(command).source(source).manual("ibeam");
        let mut page = Vec::new();
        man.render(&mut page)?;
        let page = String::from_utf8(page)?.replace(".SH EXTRA\n", NOTES);
        pages.push((man.get_filename(), page));
    }
    Ok(pages)
}
