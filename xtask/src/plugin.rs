//! The OpenCode plugin: compiled, and made one file for the binary.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};

use crate::command::{command, run};

/// What `ibeam setup opencode` writes.
const ASSET: &str = "crates/ibeam/assets/opencode-plugin.js";

pub(crate) struct BuiltPlugin {
    /// The package, with its `dist`.
    pub(crate) folder: PathBuf,
    /// All of it in one file.
    bundle: Vec<u8>,
}

/// Puts the built file where the binary takes it from. Its packages are installed already.
pub(crate) fn write() -> anyhow::Result<()> {
    fs::write(crate::root().join(ASSET), build()?.bundle)?;
    println!("plugin: wrote {ASSET}");
    Ok(())
}

/// Compiles it in the target folder, where its packages are installed already.
pub(crate) fn build() -> anyhow::Result<BuiltPlugin> {
    let folder = crate::target().join("interop/plugin/opencode");
    // What a file that is gone from the source once became.
    fs::remove_dir_all(folder.join("dist")).ok();
    run(command("npm").args(["run", "build", "--loglevel=error"]).current_dir(&folder))?;
    let bundle = fs::read(folder.join("opencode-plugin.js")).context("the built plugin")?;
    Ok(BuiltPlugin { folder, bundle })
}

/// Whether the committed file is what the source gives, and the version is the program's.
pub(crate) fn check(built: &BuiltPlugin) -> anyhow::Result<()> {
    if !fs::read(crate::root().join(ASSET)).is_ok_and(|committed| committed == built.bundle) {
        bail!("{ASSET} is stale; run `cargo xtask plugin`");
    }
    let package = crate::read(&crate::root().join("plugin/opencode/package.json"))?;
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    if !package.contains(&version) {
        bail!("plugin/opencode/package.json does not say {version}");
    }
    Ok(())
}

/// The tarball, as it would be published.
pub(crate) fn pack(built: &BuiltPlugin) -> anyhow::Result<PathBuf> {
    let folder = built.folder.join("packed");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    run(command("npm")
        .args(["pack", "--loglevel=error", "--pack-destination"])
        .arg(&folder)
        .current_dir(&built.folder))?;
    let mut packed = fs::read_dir(&folder)?.filter_map(Result::ok).map(|entry| entry.path());
    packed.next().context("`npm pack` left no file")
}
