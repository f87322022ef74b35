//! What the program itself writes about its command line: manual pages and completions.

use std::path::Path;

use anyhow::bail;

use super::files::{ArchiveFiles, read};
use crate::command::{command, run};

/// With the name that each shell gives to such a file.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "ibeam.bash"),
    ("zsh", "_ibeam"),
    ("fish", "ibeam.fish"),
    ("powershell", "_ibeam.ps1"),
];

pub(crate) struct ProgramPages {
    /// Names and texts, such as `ibeam-up.1`.
    pub(crate) man: Vec<(String, Vec<u8>)>,
    /// Shells and scripts.
    pub(crate) completions: Vec<(String, Vec<u8>)>,
}

impl ProgramPages {
    /// Asks a program that runs here. `folder` is for the pages, and is empty.
    pub(crate) fn of(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        run(command(program).args(["man", "--dir"]).arg(folder))?;
        let mut man = Vec::new();
        for path in crate::files_below(folder, |_| false)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.ends_with(".1") {
                bail!("`ibeam man` wrote {}, which is not a page of section 1", path.display());
            }
            man.push((name.to_owned(), read(&path)?));
        }
        if !man.iter().any(|(name, _)| name == "ibeam.1") {
            bail!("`ibeam man` wrote no ibeam.1");
        }
        let mut completions = Vec::new();
        for (shell, _) in SHELLS {
            let output = command(program).args(["completions", shell]).output()?;
            if !output.status.success() || output.stdout.is_empty() {
                bail!("`ibeam completions {shell}` wrote nothing");
            }
            completions.push((shell.to_owned(), output.stdout));
        }
        Ok(Self { man, completions })
    }

    /// As they stand in an archive.
    pub(crate) fn files(&self) -> ArchiveFiles {
        let mut files = ArchiveFiles::default();
        for (name, page) in &self.man {
            files.add(format!("man/man1/{name}"), page.as_slice());
        }
        for (shell, script) in &self.completions {
            let named = SHELLS.iter().find(|(known, _)| known == shell);
            let file = named.map_or(shell.as_str(), |(_, file)| file);
            files.add(format!("completions/{file}"), script.as_slice());
        }
        files
    }
}
