//! `cargo xtask release`: everything that a release has, in one folder, the same bytes each time.
//! It publishes nothing; it prints the commands that would.

mod binary;
mod debian;
mod files;
mod notices;
mod npm;
mod pages;
mod sums;
mod targets;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use self::{
    files::{ArchiveFiles, read},
    npm::NpmPackage,
    pages::ProgramPages,
    targets::{GLIBC, ReleaseBuilder, ReleaseTarget},
};
use crate::{
    args::TaskArgs,
    command::{cargo, command, first_line, output, run},
    scratch::Scratch,
};

/// One version for all: that of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) const HELP: &str = "\
Make everything that a release has, and publish nothing

Usage: cargo xtask release [OPTIONS]

  --binary PATH     pack this program instead of building one
  --target TRIPLE   what it is for [default: this machine]
  --pages-by PATH   a program of this machine that writes the manual pages and completions, where
                    the one that is packed cannot run here [default: one is built]
  --out DIR         where everything goes; what is there already stays [default: target/packages]
  --quick           compress little, which is for tests
  --sums DIR        only check that a folder has every file of a release, and write its SHA256SUMS

Examples:
  cargo xtask release                                        for this machine
  cargo xtask release --target x86_64-unknown-linux-musl     with cargo-zigbuild
  cargo xtask release --binary target/release/ibeam --out /tmp/packages
  cargo xtask release --sums dist                            of a whole release, checked

docs/releasing.md has the steps of a release.
";

/// What the options mean is in `HELP`.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct ReleaseOptions {
    binary: Option<PathBuf>,
    target: Option<String>,
    pages_by: Option<PathBuf>,
    out: Option<PathBuf>,
    quick: bool,
    sums: Option<PathBuf>,
}

impl ReleaseOptions {
    pub(crate) fn parse(mut args: TaskArgs) -> anyhow::Result<Self> {
        let options = Self {
            binary: args.value("--binary")?,
            target: args.value("--target")?,
            pages_by: args.value("--pages-by")?,
            out: args.value("--out")?,
            quick: args.flag("--quick"),
            sums: args.value("--sums")?,
        };
        args.finish()?;
        let sums_only = Self { sums: options.sums.clone(), ..Self::default() };
        if options.sums.is_some() && options != sums_only {
            bail!("--sums only checks a folder: it cannot be combined with other options");
        }
        Ok(options)
    }
}

pub(crate) fn start(options: &ReleaseOptions) -> anyhow::Result<()> {
    if let Some(folder) = &options.sums {
        let missing = sums::missing(folder, VERSION)?;
        if !missing.is_empty() {
            bail!("{} lacks {}", folder.display(), missing.join(", "));
        }
        sums::write(folder)?;
        println!("{} has all of {VERSION}", folder.display());
        publish(folder);
        return Ok(());
    }
    let host = host()?;
    let target = ReleaseTarget::named(options.target.as_deref().unwrap_or(&host))?;
    let program = match &options.binary {
        Some(path) => std::path::absolute(path)?,
        None => build(target, options.target.is_some())?,
    };
    let bytes = read(&program)?;
    let wrong = || format!("{} cannot be packed for {}", program.display(), target.triple);
    binary::check(&bytes, target).with_context(wrong)?;
    let pages_by = match &options.pages_by {
        Some(path) => std::path::absolute(path)?,
        None if target.runs_on(&host) => program.clone(),
        None => build(ReleaseTarget::named(&host)?, false)?,
    };
    let said = first_line(&pages_by, &["--version"]);
    if said.as_deref() != Some(&format!("ibeam {VERSION}")) {
        bail!("{} says {said:?}, and the workspace is {VERSION}", pages_by.display());
    }
    let scratch = Scratch::new("release")?;
    let folder = scratch.path().join("man");
    fs::create_dir(&folder)?;
    let release = Release {
        target,
        bytes,
        pages: ProgramPages::of(&pages_by, &folder)?,
        notices: notices::notices(target.triple)?,
        plugin: Some(npm::plugin(VERSION)?),
        epoch: epoch()?,
        quick: options.quick,
    };
    let out = options.out.clone().unwrap_or_else(|| crate::target().join("packages"));
    release.make(&out)?;
    publish(&out);
    Ok(())
}

/// What the tests install: this program for this machine, in one folder, and in another the
/// packages of all other targets, without a program. npm sees those and must leave them alone.
pub(crate) fn for_tests(program: &Path, out: &Path, others: &Path) -> anyhow::Result<()> {
    start(&ReleaseOptions {
        binary: Some(program.to_path_buf()),
        out: Some(out.to_path_buf()),
        quick: true,
        ..ReleaseOptions::default()
    })?;
    fs::create_dir_all(others).with_context(|| others.display().to_string())?;
    let host = host()?;
    for target in targets::TARGETS.iter().filter(|target| target.triple != host) {
        let Some(npm) = &target.npm else { continue };
        let package = npm::platform(npm, VERSION, target.file(), Vec::new(), "")?;
        fs::write(others.join(package.tarball(VERSION)), package.files.archive(0, 1)?)?;
    }
    Ok(())
}

/// All that the packages of one target are made of.
struct Release {
    target: &'static ReleaseTarget,
    bytes: Vec<u8>,
    pages: ProgramPages,
    notices: String,
    plugin: Option<NpmPackage>,
    /// The time of every file, in seconds.
    epoch: u64,
    quick: bool,
}

impl Release {
    fn make(&self, out: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let level = if self.quick { 1 } else { 9 };
        let put = |name: &str, files: &ArchiveFiles| {
            let path = out.join(name);
            fs::write(&path, files.archive(self.epoch, level)?)
                .with_context(|| path.display().to_string())?;
            println!("  {}", path.display());
            anyhow::Ok(())
        };
        let name = format!("ibeam-{VERSION}-{}", self.target.triple);
        put(&format!("{name}.tar.gz"), &self.archive()?.below(&format!("{name}/")))?;
        let mut packages = vec![npm::launcher(VERSION)?];
        if let Some(npm) = &self.target.npm {
            let (file, bytes) = (self.target.file(), self.bytes.clone());
            packages.push(npm::platform(npm, VERSION, file, bytes, &self.notices)?);
        }
        for package in packages.iter().chain(&self.plugin) {
            put(&package.tarball(VERSION), &package.files)?;
        }
        if let Some(architecture) = self.target.debian {
            match debian::unusable() {
                Some(why) => eprintln!("NOT MADE: the Debian package: {why}"),
                None => self.debian(architecture, out)?,
            }
        }
        sums::write(out)
    }

    fn archive(&self) -> anyhow::Result<ArchiveFiles> {
        let mut files = self.pages.files();
        files.add_program(self.target.file(), self.bytes.as_slice());
        files.add("THIRD-PARTY.txt", self.notices.as_str());
        for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            files.copy(name, name)?;
        }
        Ok(files)
    }

    fn debian(&self, architecture: &str, out: &Path) -> anyhow::Result<()> {
        let scratch = Scratch::new("release")?;
        let path = out.join(format!("ibeam_{VERSION}_{architecture}.deb"));
        let contents = debian::DebianContents {
            version: VERSION,
            architecture,
            epoch: self.epoch,
            quick: self.quick,
            binary: &self.bytes,
            notices: &self.notices,
            pages: &self.pages,
        };
        debian::build(&contents, scratch.path(), &path)
    }
}

/// Builds what we ship, and returns its path: for a target that was named as for a release, else with
/// the machine's own tools.
fn build(target: &ReleaseTarget, named: bool) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    let builder = if named { target.builder } else { ReleaseBuilder::Cargo };
    let triple = match builder {
        ReleaseBuilder::Cargo => {
            command.arg("build");
            target.triple.to_owned()
        }
        ReleaseBuilder::Zig => {
            command.arg("zigbuild");
            let floor =
                if target.triple.ends_with("gnu") { format!(".{GLIBC}") } else { String::new() };
            format!("{}{floor}", target.triple)
        }
        ReleaseBuilder::Lipo => {
            bail!("{} is made with lipo, as docs/releasing.md describes", target.triple)
        }
    };
    run(command.args(["--release", "--locked", "--package", "ibeam", "--target", &triple]))?;
    Ok(crate::target().join(target.triple).join("release").join(target.file()))
}

/// The triple of this machine.
fn host() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output(command(rustc).arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc does not report its host")?.to_owned())
}

/// The time that files get: what the environment says, else when the commit was made.
fn epoch() -> anyhow::Result<u64> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = given.or_else(|| first_line("git", &["log", "-1", "--format=%ct"]));
    let text = text.context("no git commit here; set SOURCE_DATE_EPOCH to a time in seconds")?;
    text.parse().with_context(|| format!("{text:?} is not a time in seconds"))
}

/// The commands that only a person runs.
fn publish(out: &Path) {
    let folder = out.display();
    println!("\nNothing was published. After `(cd {folder} && sha256sum -c {})`:", sums::FILE);
    println!("  git tag -s v{VERSION} && git push origin v{VERSION}");
    println!("  gh release create v{VERSION} --verify-tag {folder}/*");
    for package in targets::TARGETS.iter().filter_map(|target| target.npm.as_ref()) {
        let tarball = out.join(format!("{}-{VERSION}.tgz", package.package()));
        if tarball.exists() {
            println!("  npm publish {}", tarball.display());
        }
    }
    // Last, because these packages install the others.
    for name in ["ibeam-gateway", "ibeam-opencode"] {
        println!("  npm publish {folder}/{name}-{VERSION}.tgz");
    }
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod tests;
