//! How many crates are in the program.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};

use crate::command::cargo;

pub(super) fn count() -> anyhow::Result<usize> {
    let tree = ["tree", "--package", "ibeam", "--edges", "normal", "--prefix", "none", "--locked"];
    let output = cargo().args(tree).output().context("could not start cargo")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout)?;
    let names = text.lines().map(|line| line.trim_end_matches(" (*)"));
    Ok(names.filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len())
}
