//! The release build and its budget, and the packages that are made from it, installed as their
//! users do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Outcome, external::node_script, setup};
use crate::{
    budget,
    command::{cargo, run},
    release,
};

/// What people build from a clone, with exactly the packages of `cargo run --release`.
pub(super) fn release_build() -> anyhow::Result<Outcome> {
    run(cargo().args(["build", "--release", "--locked", "--package", "ibeam"]))?;
    Ok(Outcome::Passed)
}

/// Its size, its memory when idle and its crates, against `docs/budget.toml`.
pub(super) fn budget() -> anyhow::Result<Outcome> {
    budget::check()?;
    Ok(Outcome::Passed)
}

/// Installed by npm and by dpkg, unpacked, and started.
pub(super) fn packages() -> anyhow::Result<Outcome> {
    if let Err(error) = setup::debian_packaging() {
        return Ok(Outcome::NotRun(format!("{error:#}")));
    }
    let folder = match setup::clients() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let made = Made::anew()?;
    run(&mut made.script("packages.test.mjs", folder))?;
    Ok(Outcome::Passed)
}

/// From a clean machine to the first token: two commands, and nothing to type.
pub(super) fn first_token() -> anyhow::Result<Outcome> {
    let folder = match setup::clients() {
        Ok(folder) => folder,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let made = Made::here()?;
    run(&mut made.script("first-token.test.mjs", folder))?;
    Ok(Outcome::Passed)
}

/// The folders of packages.
struct Made {
    packed: PathBuf,
    others: PathBuf,
}

impl Made {
    fn places() -> Self {
        let folder = crate::target().join("interop/packages");
        Self { packed: folder.join("packed"), others: folder.join("others") }
    }

    fn anew() -> anyhow::Result<Self> {
        let made = Self::places();
        let folder = crate::target().join("interop/packages");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        release::for_tests(&budget::program(), &made.packed, &made.others)?;
        Ok(made)
    }

    /// Those that are there, when the program has not changed since.
    fn here() -> anyhow::Result<Self> {
        let made = Self::places();
        let time = |path: &Path| path.metadata().and_then(|data| data.modified());
        match (time(&made.packed.join("SHA256SUMS")), time(&budget::program())) {
            (Ok(packed), Ok(built)) if packed > built => Ok(made),
            _ => Self::anew(),
        }
    }

    fn script(&self, name: &str, folder: PathBuf) -> Command {
        let mut command = node_script(name, folder);
        command
            .env("IBEAM_BIN", budget::program())
            .env("IBEAM_PACKAGES", &self.packed)
            .env("IBEAM_OTHER_PACKAGES", &self.others);
        command
    }
}
