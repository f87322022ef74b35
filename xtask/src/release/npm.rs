//! The npm packages: one with the launcher, one with the program for each target, and the
//! plugin. Written as `npm pack` would, but without npm and the same each time.

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::{
    files::{ArchiveFiles, read},
    targets::{NpmPlatform, TARGETS},
};

/// Where the sources of the two other packages are.
const LAUNCHER: &str = "packaging/npm/ibeam-gateway";
const PLUGIN: &str = "plugin/opencode";

/// The plugin in one file, as the program carries it, too; and where its manifest says it is.
const BUNDLE: &str = "crates/ibeam/assets/opencode-plugin.js";
const MAIN: &str = "dist/index.js";

/// Every tarball has its files in this folder.
const INSIDE: &str = "package/";

/// A package, ready to be packed.
pub(crate) struct NpmPackage {
    pub(crate) name: String,
    pub(crate) files: ArchiveFiles,
}

impl NpmPackage {
    /// What `npm pack` calls the file.
    pub(crate) fn tarball(&self, version: &str) -> String {
        format!("{}-{version}.tgz", self.name)
    }
}

/// `ibeam-gateway`: finds and starts the program. npm installs the one platform package that fits.
pub(crate) fn launcher(version: &str) -> anyhow::Result<NpmPackage> {
    let folder = crate::root().join(LAUNCHER);
    let mut manifest = manifest(LAUNCHER)?;
    for generated in ["version", "optionalDependencies"] {
        if manifest.contains_key(generated) {
            bail!("{LAUNCHER}/package.json has `{generated}`, which comes from the workspace");
        }
    }
    manifest.insert("version".to_owned(), version.into());
    manifest.insert("optionalDependencies".to_owned(), platforms(version).into());
    let mut files = ArchiveFiles::default();
    files.add_program("bin/ibeam.js", read(&folder.join("bin/ibeam.js"))?);
    files.copy("README.md", &format!("{LAUNCHER}/README.md"))?;
    package("ibeam-gateway", &manifest, files)
}

/// `ibeam-<os>-<cpu>`: the program, and nothing that runs when it is installed.
pub(crate) fn platform(
    npm: &NpmPlatform,
    version: &str,
    file: &str,
    binary: Vec<u8>,
    notices: &str,
) -> anyhow::Result<NpmPackage> {
    let name = npm.package();
    let mut manifest = json!({
        "name": name,
        "version": version,
        "description": format!("The program of the package `ibeam-gateway`, for {} on {}", npm.os, npm.cpu),
        "license": env!("CARGO_PKG_LICENSE"),
        "repository": { "type": "git", "url": format!("git+{}.git", env!("CARGO_PKG_REPOSITORY")) },
        "os": [npm.os],
        "cpu": [npm.cpu],
        // Yarn would keep it zipped otherwise, and it could not be started.
        "preferUnplugged": true,
    });
    let manifest = manifest.as_object_mut().context("an object is an object")?;
    if let Some(libc) = npm.libc {
        manifest.insert("libc".to_owned(), json!([libc]));
    }
    let mut files = ArchiveFiles::default();
    files.add_program(format!("bin/{file}"), binary);
    files.add("THIRD-PARTY.txt", notices);
    files.add(
        "README.md",
        format!("# {name}\n\nThe program of [`ibeam-gateway`](https://www.npmjs.com/package/ibeam-gateway). Install that one.\n"),
    );
    package(&name, manifest, files)
}

/// `ibeam-opencode`: the plugin, and npm installs the platform package that fits beside it.
pub(crate) fn plugin(version: &str) -> anyhow::Result<NpmPackage> {
    let manifest = manifest(PLUGIN)?;
    let word = |key: &str| manifest.get(key).and_then(Value::as_str);
    if word("version") != Some(version) {
        bail!("{PLUGIN}/package.json says {:?}, and the workspace {version}", word("version"));
    }
    if manifest.get("optionalDependencies") != Some(&platforms(version).into()) {
        bail!("{PLUGIN}/package.json must have each platform package, in version {version}");
    }
    if word("main").map(|path| path.trim_start_matches("./")) != Some(MAIN) {
        bail!("{PLUGIN}/package.json must have {MAIN} as `main`");
    }
    let mut files = ArchiveFiles::default();
    files.copy(MAIN, BUNDLE)?;
    files.copy("README.md", &format!("{PLUGIN}/README.md"))?;
    package("ibeam-opencode", &manifest, files)
}

/// All platform packages, each in this version.
fn platforms(version: &str) -> Map<String, Value> {
    let packages = TARGETS.iter().filter_map(|target| target.npm.as_ref());
    packages.map(|npm| (npm.package(), version.into())).collect()
}

fn manifest(folder: &str) -> anyhow::Result<Map<String, Value>> {
    let path = crate::root().join(folder).join("package.json");
    serde_json::from_slice(&read(&path)?).with_context(|| path.display().to_string())
}

fn package(
    name: &str,
    manifest: &Map<String, Value>,
    mut files: ArchiveFiles,
) -> anyhow::Result<NpmPackage> {
    for (key, wanted) in [("name", name), ("license", env!("CARGO_PKG_LICENSE"))] {
        if manifest.get(key).and_then(Value::as_str) != Some(wanted) {
            bail!("{name}: its package.json must have `{key}` {wanted:?}");
        }
    }
    // These packages run no script on the user's machine.
    let scripts = manifest.get("scripts").and_then(Value::as_object).into_iter().flatten();
    for (script, _) in scripts {
        if ["preinstall", "install", "postinstall", "prepare"].contains(&script.as_str()) {
            bail!("{name}: our packages must not have an install script `{script}`");
        }
    }
    files.add("package.json", serde_json::to_string_pretty(manifest)? + "\n");
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files.copy(licence, licence)?;
    }
    Ok(NpmPackage { name: name.to_owned(), files: files.below(INSIDE) })
}
