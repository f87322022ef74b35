//! The release build and its budget, and the packages that are made from it, installed as their
//! users do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use super::{NotRun, external::node_script, setup};
use crate::{
    budget,
    command::{cargo, run},
    release,
};

/// What people build from a clone, with exactly the packages of `cargo run --release`.
pub(super) fn release_build() -> anyhow::Result<()> {
    run(cargo().args(["build", "--release", "--locked", "--package", "ibeam"]))
}

/// Installed by npm and by dpkg, unpacked, and started.
pub(super) fn packages() -> anyhow::Result<()> {
    setup::debian_packaging().context(NotRun)?;
    let folder = setup::node_packages("clients").context(NotRun)?;
    let made = TestPackages::make()?;
    run(&mut made.script("packages.test.mjs", folder))
}

/// From a clean machine to the first token: two commands, and nothing to type.
pub(super) fn first_token() -> anyhow::Result<()> {
    let folder = setup::node_packages("clients").context(NotRun)?;
    let made = TestPackages::made()?;
    run(&mut made.script("first-token.test.mjs", folder))
}

/// The folders of packages.
struct TestPackages {
    packed: PathBuf,
    others: PathBuf,
}

impl TestPackages {
    fn folders() -> Self {
        let folder = crate::target().join("interop/packages");
        Self { packed: folder.join("packed"), others: folder.join("others") }
    }

    fn make() -> anyhow::Result<Self> {
        let made = Self::folders();
        let folder = crate::target().join("interop/packages");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        release::for_tests(&budget::program(), &made.packed, &made.others)?;
        Ok(made)
    }

    /// Those that are there, when the program has not changed since.
    fn made() -> anyhow::Result<Self> {
        let made = Self::folders();
        let time = |path: &Path| path.metadata().and_then(|data| data.modified());
        match (time(&made.packed.join("SHA256SUMS")), time(&budget::program())) {
            (Ok(packed), Ok(built)) if packed > built => Ok(made),
            _ => Self::make(),
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
