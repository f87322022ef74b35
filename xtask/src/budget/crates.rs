//! How many crates are in the program.

use std::collections::BTreeSet;

use crate::command::{cargo, output};

pub(super) fn count() -> anyhow::Result<usize> {
    let tree = ["tree", "--package", "ibeam", "--edges", "normal", "--prefix", "none", "--locked"];
    let text = output(cargo().args(tree))?;
    let names = text.lines().map(|line| line.trim_end_matches(" (*)"));
    Ok(names.filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len())
}
