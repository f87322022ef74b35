//! The Debian package: a staged tree, and `dpkg-deb` on it.

use std::{
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use super::{
    files::{ArchiveFiles, gzip},
    pages::ProgramPages,
    targets::GLIBC,
};
use crate::command::{command, output, run, works};

const MAINTAINER: &str = "The ibeam contributors <ibeam-gateway@users.noreply.github.com>";

/// What goes into it, besides the pages.
pub(crate) struct DebianContents<'a> {
    pub(crate) version: &'a str,
    pub(crate) architecture: &'a str,
    pub(crate) epoch: u64,
    pub(crate) quick: bool,
    pub(crate) binary: &'a [u8],
    pub(crate) notices: &'a str,
    pub(crate) pages: &'a ProgramPages,
}

/// What is missing here to make one.
pub(crate) fn unusable() -> Option<&'static str> {
    (!works("dpkg-deb", &["--version"])).then_some("dpkg-deb is not installed")
}

/// Writes the package. `folder` is for the stage, and is empty.
pub(crate) fn build(
    contents: &DebianContents<'_>,
    folder: &Path,
    out: &Path,
) -> anyhow::Result<()> {
    let stage = folder.join("stage");
    tree(contents)?.write(&stage)?;
    let depends = depends(contents.architecture, folder, &stage)?;
    let mut control = ArchiveFiles::default();
    control.add("DEBIAN/control", self::control(contents, &depends, size(&stage)?));
    control.add("DEBIAN/md5sums", md5sums(&stage)?);
    control.write(&stage)?;
    // One thread: what several write depends on how many there are.
    let pack = ["--root-owner-group", "--threads-max=1", "-Zxz"];
    run(command("dpkg-deb")
        .args(pack)
        .arg(if contents.quick { "-z1" } else { "-z9" })
        .arg("--build")
        .args([&stage, out])
        .env("SOURCE_DATE_EPOCH", contents.epoch.to_string()))
}

fn tree(contents: &DebianContents<'_>) -> anyhow::Result<ArchiveFiles> {
    let mut files = ArchiveFiles::default();
    files.add_program("usr/bin/ibeam", contents.binary);
    for (name, page) in &contents.pages.man {
        files.add(format!("usr/share/man/man1/{name}.gz"), gzip(page)?);
    }
    for (shell, script) in &contents.pages.completions {
        let place = match shell.as_str() {
            "bash" => "usr/share/bash-completion/completions/ibeam",
            "zsh" => "usr/share/zsh/vendor-completions/_ibeam",
            "fish" => "usr/share/fish/vendor_completions.d/ibeam.fish",
            // No place of Debian's for others.
            _ => continue,
        };
        files.add(place, script.as_slice());
    }
    for unit in ["ibeam.service", "ibeam.socket"] {
        files.copy(format!("usr/lib/systemd/user/{unit}"), &format!("packaging/systemd/{unit}"))?;
    }
    let doc = "usr/share/doc/ibeam";
    files.copy(format!("{doc}/copyright"), "packaging/debian/copyright")?;
    files.add(format!("{doc}/changelog.gz"), gzip(changelog(contents).as_bytes())?);
    files.add(format!("{doc}/THIRD-PARTY.txt.gz"), gzip(contents.notices.as_bytes())?);
    for (name, from) in [("README.md.gz", "README.md"), ("NEWS.md.gz", "CHANGELOG.md")] {
        let text = super::files::read(&crate::root().join(from))?;
        files.add(format!("{doc}/{name}"), gzip(&text)?);
    }
    Ok(files)
}

fn control(contents: &DebianContents<'_>, depends: &str, kilobytes: u64) -> String {
    let DebianContents { version, architecture, .. } = contents;
    let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
    let home = env!("CARGO_PKG_REPOSITORY");
    format!(
        "\
Package: ibeam
Version: {version}
Architecture: {architecture}
Maintainer: {MAINTAINER}
Installed-Size: {kilobytes}
{depends}Recommends: ca-certificates
Section: net
Priority: optional
Homepage: {home}
Description: gateway to the models of a Cursor plan
 A program on your own machine. Coding tools, chat programs and SDKs that
 speak the API of OpenAI or of Anthropic talk to it, and it answers with the
 models of your Cursor account.
 .
 It listens on 127.0.0.1, signs in with the browser, and wires coding clients
 with one command. Units for systemd's user instance are included, and off.
"
    )
}

fn changelog(contents: &DebianContents<'_>) -> String {
    let (version, home) = (contents.version, env!("CARGO_PKG_REPOSITORY"));
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(contents.epoch));
    let date = date.replace("GMT", "+0000");
    format!(
        "ibeam ({version}) unstable; urgency=medium\n\n  * Release {version}; NEWS.md.gz lists what is new, also\n    {home}/blob/v{version}/CHANGELOG.md\n\n -- {MAINTAINER}  {date}\n"
    )
}

/// What the program needs at run time: asked of `dpkg-shlibdeps` where the libraries are those of
/// this machine, else what every release is built for.
fn depends(architecture: &str, folder: &Path, stage: &Path) -> anyhow::Result<String> {
    let here = crate::command::first_line("dpkg", &["--print-architecture"]);
    if here.as_deref() != Some(architecture) || !works("dpkg-shlibdeps", &["--version"]) {
        return Ok(format!("libc6 (>= {GLIBC}), libgcc-s1"));
    }
    // It looks for this file in the folder it is in.
    let mut source = ArchiveFiles::default();
    source.add("debian/control", "Source: ibeam\n\nPackage: ibeam\nArchitecture: any\n");
    source.write(folder)?;
    let text = output(
        command("dpkg-shlibdeps")
            .args(["-O", "-e"])
            .arg(stage.join("usr/bin/ibeam"))
            .current_dir(folder),
    )?;
    let found = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(found.unwrap_or_default().to_owned())
}

/// In kilobytes, as Debian counts: each file by itself, rounded up.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { 1 + size(&entry.path())? } else { data.len().div_ceil(1024) };
    }
    Ok(sum)
}

fn md5sums(stage: &Path) -> anyhow::Result<String> {
    // Sorted by the shell, and without the folder of the control files, which comes later.
    let list = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    output(command("sh").args(["-c", list]).current_dir(stage))
}
