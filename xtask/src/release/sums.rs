//! `SHA256SUMS`, in the form that `sha256sum -c` reads.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use super::{files::read, targets::TARGETS};

pub(crate) const FILE: &str = "SHA256SUMS";

/// Writes the sums of all files of a folder, sorted by name.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut lines = String::new();
    for name in names(folder)? {
        let sum = crate::sha256(&read(&folder.join(&name))?);
        lines.push_str(&format!("{sum}  {name}\n"));
    }
    let path = folder.join(FILE);
    fs::write(&path, lines).with_context(|| path.display().to_string())
}

/// Everything that a whole release has, and what is not there.
pub(crate) fn missing(folder: &Path, version: &str) -> anyhow::Result<Vec<String>> {
    let there = names(folder)?;
    let mut wanted =
        vec![format!("ibeam-gateway-{version}.tgz"), format!("ibeam-opencode-{version}.tgz")];
    for target in &TARGETS {
        wanted.push(format!("ibeam-{version}-{}.tar.gz", target.triple));
        wanted.extend(target.npm.iter().map(|npm| format!("{}-{version}.tgz", npm.package())));
        wanted.extend(target.debian.iter().map(|arch| format!("ibeam_{version}_{arch}.deb")));
    }
    if let Some(strange) = there.iter().find(|name| !wanted.contains(name)) {
        bail!("{} does not belong to release {version}", folder.join(strange).display());
    }
    wanted.retain(|name| !there.contains(name));
    Ok(wanted)
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a name that is not UTF-8")?;
        if name != FILE && entry.file_type()?.is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
